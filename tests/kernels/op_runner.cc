#include "tests/kernels/op_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>
#include <variant>

#include "kernels/cpu/threads.h"
#include "ps/base/random.h"
#include "ps/base/tensor_spec.h"

namespace ps::kernels::test {

namespace {

constexpr float kNotWritten = std::numeric_limits<float>::quiet_NaN();

std::vector<float> InputOf(const OpCase& c, uint64_t seed) {
  std::vector<float> x = NormalValues(c.n * c.in_elements, seed);
  if (c.vocabulary > 0) {
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(Mix64(seed ^ i) % static_cast<uint64_t>(c.vocabulary));
    }
  }
  return x;
}

bool AddsSide(const OpCase& c) {
  const auto* norm = std::get_if<BatchNormOptions>(&c.spec);
  return norm != nullptr && norm->adds_side;
}

template <typename T>
T Expect(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status();
  return std::move(result).value();
}

}  // namespace

DeviceFloats::DeviceFloats(Backend* backend, size_t n, size_t offset)
    : offset_(offset),
      device_(Expect(backend->AllocateDevice((n + offset) * sizeof(float)))),
      pinned_(Expect(backend->AllocatePinned(n * sizeof(float)))) {}

void DeviceFloats::Upload(Stream* stream, std::span<const float> values) const {
  std::copy(values.begin(), values.end(), pinned_->floats());
  stream->Upload(pinned_->data(), data(), values.size_bytes());
}

void DeviceFloats::Download(Stream* stream, std::span<float> values) const {
  stream->Download(data(), pinned_->data(), values.size_bytes());
  const Status status = stream->Synchronize();
  ASSERT_TRUE(status.ok()) << status;
  std::copy_n(pinned_->floats(), values.size(), values.begin());
}

OpRunner::OpRunner(const OpCase& op_case, uint64_t seed, Backend* backend, Offsets offsets)
    : c(op_case),
      stream(Expect(backend->MakeStream())),
      op(Expect(stream->MakeOp(op_case.spec))),
      x(InputOf(op_case, seed)),
      // What an op fails to write shows as NaN.
      y(static_cast<size_t>(op_case.n * op_case.out_elements), kNotWritten),
      side(
          AddsSide(op_case) ? NormalValues(op_case.n * op_case.out_elements, seed - 1)
                            : std::vector<float>()),
      dy(NormalValues(op_case.n * op_case.out_elements, seed + 1)),
      dx(op_case.vocabulary > 0 ? 0 : x.size(), kNotWritten),
      device_x_(backend, x.size(), offsets.x),
      device_y_(backend, y.size(), offsets.y),
      device_side_(backend, side.size(), offsets.y),
      device_dy_(backend, dy.size(), offsets.y),
      device_dx_(backend, dx.size(), offsets.x),
      device_step_(backend, 2, 0) {
  const uint64_t step = 1;
  std::array<float, 2> halves{};
  std::memcpy(halves.data(), &step, sizeof(step));
  device_step_.Upload(stream.get(), halves);
  SetComputeThreads(1);
  for (size_t i = 0; i < op_case.parameter_sizes.size(); ++i) {
    params.push_back(NormalValues(op_case.parameter_sizes[i], seed + 2 + i));
    grads.emplace_back(params.back().size(), kNotWritten);
    device_params_.emplace_back(backend, params.back().size(), offsets.params);
    device_grads_.emplace_back(backend, params.back().size(), offsets.grads);
  }
}

void OpRunner::Prepare(bool training) {
  const Status status = op->Prepare(c.n, training);
  ASSERT_TRUE(status.ok()) << status;
}

std::vector<std::span<const float>> OpRunner::UploadParameters() {
  std::vector<std::span<const float>> spans;
  for (size_t i = 0; i < params.size(); ++i) {
    device_params_[i].Upload(stream.get(), params[i]);
    spans.emplace_back(device_params_[i].data(), params[i].size());
  }
  return spans;
}

void OpRunner::Forward(bool training) {
  const std::vector<std::span<const float>> spans = UploadParameters();
  device_x_.Upload(stream.get(), x);
  device_y_.Upload(stream.get(), std::vector<float>(y.size(), kNotWritten));
  device_side_.Upload(stream.get(), side);
  op->Forward(
      {.n = c.n,
       .x = device_x_.data(),
       .y = device_y_.data(),
       .side = side.empty() ? nullptr : device_side_.data(),
       .params = spans,
       .training = training,
       .step = Step()});
  device_y_.Download(stream.get(), y);
}

void OpRunner::Backward() {
  const std::vector<std::span<const float>> spans = UploadParameters();
  std::vector<std::span<float>> gradient_spans;
  for (size_t i = 0; i < grads.size(); ++i) {
    device_grads_[i].Upload(stream.get(), std::vector<float>(grads[i].size(), kNotWritten));
    gradient_spans.emplace_back(device_grads_[i].data(), grads[i].size());
  }
  device_dy_.Upload(stream.get(), dy);
  device_dx_.Upload(stream.get(), std::vector<float>(dx.size(), kNotWritten));
  op->Backward(
      {.n = c.n,
       .x = device_x_.data(),
       .y = device_y_.data(),
       .dy = device_dy_.data(),
       .dx = c.vocabulary > 0 ? nullptr : device_dx_.data(),
       .params = spans,
       .grads = gradient_spans});
  if (c.vocabulary == 0) {
    device_dx_.Download(stream.get(), dx);
  }
  for (size_t i = 0; i < grads.size(); ++i) {
    device_grads_[i].Download(stream.get(), grads[i]);
  }
}

void OpRunner::RunInPlace() {
  float* const data = device_x_.data();
  float* const gradient = device_dy_.data();
  device_x_.Upload(stream.get(), x);
  device_dy_.Upload(stream.get(), dy);
  op->Forward({.n = c.n, .x = data, .y = data, .training = true, .step = Step()});
  op->Backward({.n = c.n, .x = data, .y = data, .dy = gradient, .dx = gradient});
  device_x_.Download(stream.get(), y);
  device_dy_.Download(stream.get(), dx);
}

std::vector<float> NormalValues(int64_t n, uint64_t seed) {
  TensorSpec spec;
  spec.init = InitKind::kNormal;
  spec.init_scale = 1;
  std::vector<float> values(static_cast<size_t>(n));
  InitializeTensor(spec, 0, seed, 0, values.data(), n);
  return values;
}

Values ToDouble(std::span<const float> values) {
  return {values.begin(), values.end()};
}

Parameters DoubleParameters(const OpRunner& runner) {
  Parameters params;
  for (const std::vector<float>& p : runner.params) {
    params.push_back(ToDouble(p));
  }
  return params;
}

double Dot(std::span<const float> a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    sum += static_cast<double>(a[i]) * b[i];
  }
  return sum;
}

double GradientError(
    std::span<const float> gradient, Values* values, const std::function<double()>& loss) {
  constexpr double kStep = 1e-5;
  constexpr size_t kElementsMax = 41;
  const size_t stride = values->size() / kElementsMax + 1;
  std::vector<float> actual;
  Values expected;
  for (size_t i = 0; i < values->size(); i += stride) {
    double& value = (*values)[i];
    const double before = value;
    value = before + kStep;
    const double above = loss();
    value = before - kStep;
    const double below = loss();
    value = before;
    expected.push_back((above - below) / (2 * kStep));
    actual.push_back(gradient[i]);
  }
  return NormalisedError(actual, expected);
}

double NormalisedError(std::span<const float> actual, std::span<const double> expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = static_cast<double>(actual[i]) - expected[i];
    error += difference * difference;
    norm += expected[i] * expected[i];
  }
  return norm > 0 ? error / norm : error;
}

}  // namespace ps::kernels::test
