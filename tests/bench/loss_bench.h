#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "kernels/backend.h"
#include "tests/bench/harness.h"

namespace ps::bench {

/// Cross-entropy of `rows` rows, all of which have the first label.
class LossBench {
 public:
  LossBench(kernels::Backend* backend, kernels::Stream* stream, int64_t rows, int64_t classes)
      : stream_(stream),
        logits_(Allocate(backend, rows * classes)),
        gradient_(Allocate(backend, rows * classes)),
        labels_(Allocate(backend, rows)),
        result_(Allocate(backend, sizeof(kernels::LossResult) / sizeof(float))) {
    stream->Fill(1, logits_->floats(), rows * classes);
    stream->Fill(0, labels_->floats(), rows);
    args_.n = rows;
    args_.classes = classes;
    args_.logits = logits_->floats();
    args_.labels = reinterpret_cast<const uint32_t*>(labels_->data());
    args_.result = reinterpret_cast<kernels::LossResult*>(result_->data());
  }

  /// Bytes of the outputs.
  double size_bytes() const { return static_cast<double>(args_.n * args_.classes) * sizeof(float); }

  void Run(bool has_gradient) {
    args_.dz = has_gradient ? gradient_->floats() : nullptr;
    stream_->ComputeLoss(args_);
  }

 private:
  static std::unique_ptr<kernels::Memory> Allocate(kernels::Backend* backend, int64_t elements) {
    auto memory = backend->AllocateDevice(static_cast<size_t>(elements) * sizeof(float));
    Require(memory.ok(), "the device has memory for the loss");
    return std::move(memory).value();
  }

  kernels::Stream* const stream_;
  const std::unique_ptr<kernels::Memory> logits_;
  const std::unique_ptr<kernels::Memory> gradient_;
  const std::unique_ptr<kernels::Memory> labels_;
  const std::unique_ptr<kernels::Memory> result_;
  kernels::LossArgs args_;
};

}  // namespace ps::bench
