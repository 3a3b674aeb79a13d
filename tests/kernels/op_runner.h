#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/op_cases.h"

namespace ps::kernels::test {

/// What the tests of the table run on: each binary that has them defines it. Never null.
Backend* BackendUnderTest();

/// Device memory for some values, at `offset` floats from its beginning.
class DeviceFloats {
 public:
  DeviceFloats(Backend* backend, size_t n, size_t offset);

  float* data() const { return device_->floats() + offset_; }

  void Upload(Stream* stream, std::span<const float> values) const;
  void Download(Stream* stream, std::span<float> values) const;

 private:
  const size_t offset_;
  std::unique_ptr<Memory> device_;
  std::unique_ptr<Memory> pinned_;
};

/// Where activations with their gradients, parameters, and gradients of these begin, in floats from
/// the beginning of their memory.
struct Offsets {
  size_t x = 0;
  size_t y = 0;
  size_t params = 1;
  size_t grads = 3;
};

/// An op of the table with the memory for one batch, on the backend under test or on another. The
/// members are on the host. Parameters and gradients lie at odd addresses of the device by default.
struct OpRunner {
  OpRunner(
      const OpCase& op_case,
      uint64_t seed,
      Backend* backend = BackendUnderTest(),
      Offsets offsets = {});

  void Prepare(bool training);
  void Forward(bool training);
  /// Forward must have come before.
  void Backward();
  /// Forward and Backward with y in x's place and dx in dy's.
  void RunInPlace();

  const OpCase& c;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Op> op;
  std::vector<float> x;
  std::vector<float> y;
  std::vector<float> side;  // like y, of an op that adds one
  std::vector<float> dy;
  std::vector<float> dx;
  std::vector<std::vector<float>> params;
  std::vector<std::vector<float>> grads;

 private:
  std::vector<std::span<const float>> UploadParameters();

  const uint64_t* Step() const { return reinterpret_cast<const uint64_t*>(device_step_.data()); }

  const DeviceFloats device_x_;
  const DeviceFloats device_y_;
  const DeviceFloats device_side_;
  const DeviceFloats device_dy_;
  const DeviceFloats device_dx_;
  const DeviceFloats device_step_;  // the number 1
  std::vector<DeviceFloats> device_params_;
  std::vector<DeviceFloats> device_grads_;
};

/// Standard normal values.
std::vector<float> NormalValues(int64_t n, uint64_t seed);

Values ToDouble(std::span<const float> values);

Parameters DoubleParameters(const OpRunner& runner);

/// A loss: its gradient by b is a.
double Dot(std::span<const float> a, const Values& b);

/// Compares `gradient` with d(loss)/d(value) by central differences in double, at up to some tens
/// of elements spread over `values`, which are a part of what `loss` reads.
double GradientError(
    std::span<const float> gradient, Values* values, const std::function<double()>& loss);

/// sum (actual - expected)^2 / sum expected^2; the plain sum when expected is all 0.
double NormalisedError(std::span<const float> actual, std::span<const double> expected);

}  // namespace ps::kernels::test
