#pragma once

#include <cmath>
#include <utility>

#include "kernels/portable_op.h"
#include "ps/base/status.h"

namespace ps::kernels {

template <typename Device>
class TanhOp;

/// y = tanh(x); dx = dy * (1 - y^2). Runs in place.
struct TanhOptions {
  static constexpr bool kIsPortable = true;
  template <typename Device>
  using On = TanhOp<Device>;

  int64_t elements = 1;
};

namespace tanh_parts {

struct Output {
  PS_ELEMENTWISE void operator()(int64_t i) const { y[i] = std::tanh(x[i]); }

  const float* x;
  float* y;
};

struct InputGradient {
  PS_ELEMENTWISE void operator()(int64_t i) const { dx[i] = dy[i] * (1 - y[i] * y[i]); }

  const float* y;
  const float* dy;
  float* dx;
};

}  // namespace tanh_parts

template <typename Device>
class TanhOp final : public Op {
 public:
  TanhOp(const TanhOptions& options, Device device)
      : options_(options), device_(std::move(device)) {}

  Status Prepare(int64_t /*n*/, bool /*training*/) override { return Status::Ok(); }

  void Forward(const ForwardArgs& args) override {
    device_.ForEach(args.n * options_.elements, tanh_parts::Output{args.x, args.y});
  }

  void Backward(const BackwardArgs& args) override {
    if (args.dx != nullptr) {
      device_.ForEach(
          args.n * options_.elements, tanh_parts::InputGradient{args.y, args.dy, args.dx});
    }
  }

  OpTraits traits() const override {
    OpTraits its;  // without names of fields, which nvcc turns into what clang refuses
    its.runs_in_place = true;
    its.backward_reads_output = true;
    return its;
  }

 private:
  const TanhOptions options_;
  Device device_;
};

}  // namespace ps::kernels
