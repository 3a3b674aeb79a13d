#include "worker/model/network.h"

#include <cmath>
#include <string>

#include "kernels/cpu/loss.h"
#include "kernels/cpu/vector.h"
#include "kernels/cpu/workspace.h"
#include "ps/base/buffer.h"
#include "worker/model/sequence.h"

namespace ps::worker {
namespace {

template <typename Spans>
Status CheckSizes(const char* what, const Spans& spans, const std::vector<TensorSpec>& tensors) {
  if (spans.size() != tensors.size()) {
    return Status::InvalidArgument(
        std::string(what) + ": " + std::to_string(spans.size()) + " tensors, the model has " +
        std::to_string(tensors.size()));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (static_cast<int64_t>(spans[i].size()) != tensors[i].element_count()) {
      return Status::InvalidArgument(
          std::string(what) + ": " + tensors[i].name + " has " + std::to_string(spans[i].size()) +
          " elements instead of " + std::to_string(tensors[i].element_count()));
    }
  }
  return Status::Ok();
}

class CpuNetwork final : public Network {
 public:
  CpuNetwork(const Model& model, uint64_t seed)
      : model_(model),
        layers_(model.layers, {.workspace = &workspace_, .seed = seed, .input_gradient = false}) {
    if (model.input.channels > 1 && !model.input.is_flat()) {
      layers_.PrependChannelsLast(model.input, &workspace_);
    }
  }

  Result<BatchLoss> TrainStep(
      Parameters parameters,
      const Batch& batch,
      uint64_t step,
      Gradients gradients,
      const GradientReady& ready) override {
    PS_TRY(CheckSizes("gradients", gradients, model_.tensors));
    PS_TRY(Prepare(parameters, batch, true));
    const Pass pass{
        .n = static_cast<int64_t>(batch.labels.size()),
        .training = true,
        .step = step,
        .parameters = parameters,
        .gradients = gradients,
        .ready = &ready};
    const float* logits = layers_.Forward(pass, batch.images.data());
    float* dz = logit_gradient_.floats().data();
    const kernels::LossResult loss =
        kernels::SoftmaxCrossEntropy(logits, batch.labels, model_.classes, dz);
    layers_.Backward(pass, batch.images.data(), dz, nullptr);
    return BatchLoss{loss.loss_sum, loss.correct, pass.n};
  }

  Result<BatchLoss> Evaluate(Parameters parameters, const Batch& batch) override {
    PS_TRY(Prepare(parameters, batch, false));
    const Pass pass{.n = static_cast<int64_t>(batch.labels.size()), .parameters = parameters};
    const float* logits = layers_.Forward(pass, batch.images.data());
    const kernels::LossResult loss =
        kernels::SoftmaxCrossEntropy(logits, batch.labels, model_.classes, nullptr);
    return BatchLoss{loss.loss_sum, loss.correct, pass.n};
  }

 private:
  Status Prepare(Parameters parameters, const Batch& batch, bool training) {
    PS_TRY(CheckSizes("parameters", parameters, model_.tensors));
    const auto n = static_cast<int64_t>(batch.labels.size());
    if (n == 0) {
      return Status::InvalidArgument("an empty batch");
    }
    if (static_cast<int64_t>(batch.images.size()) != n * model_.input.element_count()) {
      return Status::InvalidArgument(
          std::to_string(batch.images.size()) + " image values for " + std::to_string(n) +
          " samples of " + model_.input.ToString());
    }
    for (const uint32_t label : batch.labels) {
      if (label >= model_.classes) {
        return Status::InvalidArgument(
            "label " + std::to_string(label) + " of " + std::to_string(model_.classes) +
            " classes");
      }
    }
    const size_t logit_bytes =
        static_cast<size_t>(n) * static_cast<size_t>(model_.classes) * sizeof(float);
    if (logit_bytes > logit_gradient_.size()) {
      logit_gradient_ = Buffer(logit_bytes);
    }
    return layers_.Prepare(n, training);
  }

  const Model model_;
  kernels::Workspace workspace_;
  Sequence layers_;
  Buffer logit_gradient_;
};

}  // namespace

std::unique_ptr<Network> Network::Make(const Model& model, uint64_t seed) {
  return std::make_unique<CpuNetwork>(model, seed);
}

double ClipGradientNorm(const Model& model, Network::Gradients gradients, float norm_max) {
  double sum = 0;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    if (model.tensors[i].rule == UpdateRule::kOptimizer) {
      sum += kernels::SquaredNorm(gradients[i]);
    }
  }
  const double norm = std::sqrt(sum);
  if (std::isfinite(norm) && norm > static_cast<double>(norm_max)) {
    const auto factor = static_cast<float>(static_cast<double>(norm_max) / norm);
    for (size_t i = 0; i < model.tensors.size(); ++i) {
      if (model.tensors[i].rule == UpdateRule::kOptimizer) {
        kernels::Scale(gradients[i], factor);
      }
    }
  }
  return norm;
}

}  // namespace ps::worker
