#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "ps/base/check.h"
#include "ps/proto/job/task.h"
#include "tests/worker/model/model_builder.h"
#include "worker/model/network.h"

namespace ps::worker::test {

/// Values in a backend's pinned memory, as what a network reads and writes has to be.
template <typename T>
class PinnedValues {
 public:
  PinnedValues(kernels::Backend* backend, const std::vector<T>& values)
      : memory_(backend->AllocatePinned(values.size() * sizeof(T)).value()),
        span_(reinterpret_cast<T*>(memory_->data()), values.size()) {
    std::copy(values.begin(), values.end(), span_.begin());
  }

  std::span<T> span() const { return span_; }

 private:
  std::unique_ptr<kernels::Memory> memory_;
  std::span<T> span_;
};

/// To the nearest bfloat16, ties to even.
inline float RoundedToBf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fffU + ((bits >> 16U) & 1U)) & 0xffff0000U);
}

/// A gradient that is bfloat16 in the first half of its place.
inline std::vector<float> UnpackedBf16(std::span<const float> place) {
  std::vector<uint16_t> halves(place.size());
  std::memcpy(halves.data(), place.data(), halves.size() * sizeof(uint16_t));
  std::vector<float> values;
  for (const uint16_t half : halves) {
    values.push_back(std::bit_cast<float>(uint32_t{half} << 16U));
  }
  return values;
}

/// A network on a backend with parameters, gradients and one minibatch: normal noise, or tokens in
/// turn, each with a label, or with `classes` numbers to learn. The members are what a test looks
/// at and changes; the network works on pinned copies of them.
struct NetworkRig {
  NetworkRig(
      const std::vector<kernels::Backend*>& on,
      const proto::ModelConfig& config,
      const Shape& input,
      int64_t n,
      int64_t classes,
      kernels::Precision precision = kernels::Precision::kF32)
      : backend(on[0]),
        model(MakeModel(config, input, classes, LabelsOf(config, input, classes)).value()) {
    for (uint32_t i = 0; i < model.tensors.size(); ++i) {
      const int64_t size = model.tensors[i].element_count();
      parameters.emplace_back(static_cast<size_t>(size));
      gradients.emplace_back(static_cast<size_t>(size), std::numeric_limits<float>::quiet_NaN());
      InitializeTensor(model.tensors[i], i, 1, 0, parameters.back().data(), size);
    }
    TensorSpec noise;
    noise.init = InitKind::kNormal;
    noise.init_scale = 1;
    images.resize(static_cast<size_t>(n * input.element_count()));
    InitializeTensor(noise, 99, 1, 0, images.data(), static_cast<int64_t>(images.size()));
    for (size_t i = 0; i < images.size() && input.kind == ShapeKind::kTokens; ++i) {
      images[i] = static_cast<float>(static_cast<int64_t>(i) * 5 % input.vocabulary);
    }
    for (int64_t i = 0; i < n * model.labels; ++i) {
      const float target = model.loss.kind == kernels::LossKind::kBce
                               ? static_cast<float>(i * 7 % 5 % 2)
                               : 0.25F * static_cast<float>(i * 7 % 5);
      labels.push_back(
          HasClasses(model.loss.kind) ? static_cast<uint32_t>(i * 7 % classes)
                                      : std::bit_cast<uint32_t>(target));
    }
    network = Network::Make(model, on, 5, precision).value();
  }

  NetworkRig(
      kernels::Backend* on,
      const proto::ModelConfig& config,
      const Shape& input,
      int64_t n,
      int64_t classes,
      kernels::Precision precision = kernels::Precision::kF32)
      : NetworkRig(std::vector<kernels::Backend*>{on}, config, input, n, classes, precision) {}

  Result<BatchLoss> Step(const Network::StepOptions& options, Network::GradientReady ready = {}) {
    std::vector<PinnedValues<float>> pinned;
    std::vector<std::span<float>> spans;
    for (const std::vector<float>& gradient : gradients) {
      spans.push_back(pinned.emplace_back(backend, gradient).span());
    }
    return Run([&](Network::Parameters from, const Batch& batch) {
      return network->TrainStep(from, batch, options, spans, [&](uint32_t tensor) {
        gradients[tensor].assign(spans[tensor].begin(), spans[tensor].end());
        if (options.bf16_gradients && model.tensors[tensor].rule == UpdateRule::kOptimizer) {
          gradients[tensor] = UnpackedBf16(spans[tensor]);
        }
        if (ready) {
          ready(tensor);
        }
      });
    });
  }

  Result<BatchLoss> Step(Network::GradientReady ready = {}, uint64_t step = 1) {
    return Step({.step = step}, std::move(ready));
  }

  Result<BatchLoss> Evaluate() {
    return Run([&](Network::Parameters from, const Batch& batch) {
      return network->Evaluate(from, batch);
    });
  }

  /// The last layer's outputs; empty: it failed.
  std::vector<float> Apply() {
    std::vector<float> outputs;
    const PinnedValues<float> pinned(
        backend, std::vector<float>(labels.size() * static_cast<size_t>(model.classes)));
    const auto done = Run([&](Network::Parameters from, const Batch& batch) -> Result<BatchLoss> {
      PS_TRY(network->Apply(from, batch, pinned.span()));
      return BatchLoss();
    });
    if (done.ok()) {
      outputs.assign(pinned.span().begin(), pinned.span().end());
    }
    return outputs;
  }

  double MeanLoss() {
    const BatchLoss loss = Step().value();
    return loss.loss_sum / static_cast<double>(loss.samples);
  }

  struct Samples {
    std::vector<float> images;
    std::vector<uint32_t> labels;
  };

  /// Other ones. Returns those before.
  Samples TakeSamples(std::vector<float> other_images, std::vector<uint32_t> other_labels) {
    return {
        std::exchange(images, std::move(other_images)),
        std::exchange(labels, std::move(other_labels))};
  }

  /// The gradients as they are to be with StepOptions::bf16_gradients.
  std::vector<std::vector<float>> RoundedGradients() const {
    std::vector<std::vector<float>> rounded = gradients;
    for (size_t i = 0; i < rounded.size(); ++i) {
      if (model.tensors[i].rule == UpdateRule::kOptimizer) {
        std::ranges::transform(rounded[i], rounded[i].begin(), RoundedToBf16);
      }
    }
    return rounded;
  }

  /// What a server does with gradients under plain SGD.
  void Descend(float lr) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const TensorSpec& spec = model.tensors[i];
      for (size_t k = 0; k < parameters[i].size(); ++k) {
        float& w = parameters[i][k];
        const float pushed = gradients[i][k];
        w += spec.rule == UpdateRule::kAverage ? spec.average_rate * (pushed - w) : -lr * pushed;
      }
    }
  }

  kernels::Backend* const backend;
  const Model model;
  std::vector<std::vector<float>> parameters;
  std::vector<std::vector<float>> gradients;
  std::vector<float> images;
  std::vector<uint32_t> labels;
  std::vector<uint8_t> bytes;  // of pictures that stay where they are, if any: instead of images
  std::unique_ptr<Network> network;

 private:
  static int64_t LabelsOf(const proto::ModelConfig& config, const Shape& input, int64_t classes) {
    if (proto::TaskOf(config) != proto::Task::kClasses) {
      return classes;
    }
    return input.kind == ShapeKind::kTokens ? input.element_count() : 1;
  }

  template <typename Work>
  Result<BatchLoss> Run(Work work) {
    std::vector<PinnedValues<float>> pinned;
    std::vector<std::span<const float>> spans;
    for (const std::vector<float>& parameter : parameters) {
      spans.emplace_back(pinned.emplace_back(backend, parameter).span());
    }
    const PinnedValues<float> pinned_images(backend, images);
    const PinnedValues<uint32_t> pinned_labels(backend, labels);
    network->UploadAll(spans);
    const PinnedValues<uint8_t> pinned_bytes(backend, bytes);
    const PinnedValues<PictureMove> moves(backend, std::vector<PictureMove>(labels.size()));
    const Batch batch = bytes.empty()
                            ? Batch{pinned_images.span(), pinned_labels.span()}
                            : Batch{{}, pinned_labels.span(), pinned_bytes.span(), moves.span()};
    Result<BatchLoss> loss = work(spans, batch);
    network->Settle().Ignore("the loss tells of it");
    return loss;
  }
};

}  // namespace ps::worker::test
