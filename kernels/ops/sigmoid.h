#pragma once

#include <cmath>
#include <utility>

#include "kernels/portable_op.h"
#include "ps/base/status.h"

namespace ps::kernels {

template <typename Device>
class SigmoidOp;

/// y = 1 / (1 + exp(-x)); dx = dy * y * (1 - y). Runs in place.
struct SigmoidOptions {
  static constexpr bool kIsPortable = true;
  template <typename Device>
  using On = SigmoidOp<Device>;

  int64_t elements = 1;
};

namespace sigmoid_parts {

/// An exp that overflows leaves 0, which is what the quotient tends to.
struct Output {
  PS_ELEMENTWISE void operator()(int64_t i) const { y[i] = 1 / (1 + std::exp(-x[i])); }

  const float* x;
  float* y;
};

struct InputGradient {
  PS_ELEMENTWISE void operator()(int64_t i) const { dx[i] = dy[i] * y[i] * (1 - y[i]); }

  const float* y;
  const float* dy;
  float* dx;
};

}  // namespace sigmoid_parts

template <typename Device>
class SigmoidOp final : public Op {
 public:
  SigmoidOp(const SigmoidOptions& options, Device device)
      : options_(options), device_(std::move(device)) {}

  Status Prepare(int64_t /*n*/, bool /*training*/) override { return Status::Ok(); }

  void Forward(const ForwardArgs& args) override {
    device_.ForEach(args.n * options_.elements, sigmoid_parts::Output{args.x, args.y});
  }

  void Backward(const BackwardArgs& args) override {
    if (args.dx != nullptr) {
      device_.ForEach(
          args.n * options_.elements, sigmoid_parts::InputGradient{args.y, args.dy, args.dx});
    }
  }

  OpTraits traits() const override {
    OpTraits its;  // without names of fields, which nvcc turns into what clang refuses
    its.runs_in_place = true;
    its.backward_reads_output = true;
    return its;
  }

 private:
  const SigmoidOptions options_;
  Device device_;
};

}  // namespace ps::kernels
