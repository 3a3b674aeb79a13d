#pragma once

#include <cstdint>
#include <utility>

#include "kernels/portable_op.h"
#include "ps/base/status.h"

namespace ps::kernels {

/// An activation whose slope follows from its output; of kernels/ops. `Curve` is its options, with
/// `elements` and PS_ELEMENTWISE
///   static float Value(float x)   y
///   static float Slope(float y)   dy/dx
template <typename Device, typename Curve>
class PortableActivation final : public Op {
 public:
  PortableActivation(const Curve& curve, Device device)
      : elements_(curve.elements), device_(std::move(device)) {}

  Status Prepare(int64_t /*n*/, bool /*training*/) override { return Status::Ok(); }

  void Forward(const ForwardArgs& args) override {
    device_.ForEach(args.n * elements_, Output{args.x, args.y});
  }

  void Backward(const BackwardArgs& args) override {
    if (args.dx != nullptr) {
      device_.ForEach(args.n * elements_, InputGradient{args.y, args.dy, args.dx});
    }
  }

  OpTraits traits() const override {
    OpTraits its;  // without names of fields, which nvcc turns into what clang refuses
    its.runs_in_place = true;
    its.backward_reads_output = true;
    return its;
  }

  struct Output {
    PS_ELEMENTWISE void operator()(int64_t i) const { y[i] = Curve::Value(x[i]); }

    const float* x;
    float* y;
  };

  struct InputGradient {
    PS_ELEMENTWISE void operator()(int64_t i) const { dx[i] = dy[i] * Curve::Slope(y[i]); }

    const float* y;
    const float* dy;
    float* dx;
  };

 private:
  const int64_t elements_;
  Device device_;
};

}  // namespace ps::kernels
