#include "tests/kernels/op_runner.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/cpu/threads.h"
#include "ps/base/tensor_spec.h"

namespace ps::kernels::test {

OpRunner::OpRunner(const OpCase& op_case, uint64_t seed)
    : c(op_case),
      op(op_case.make(&workspace)),
      x(NormalValues(op_case.n * op_case.in_elements, seed)),
      // What an op fails to write shows as NaN.
      y(static_cast<size_t>(op_case.n * op_case.out_elements),
        std::numeric_limits<float>::quiet_NaN()),
      dy(NormalValues(op_case.n * op_case.out_elements, seed + 1)),
      dx(x.size(), std::numeric_limits<float>::quiet_NaN()) {
  SetComputeThreads(1);
  for (size_t i = 0; i < op_case.parameter_sizes.size(); ++i) {
    params.push_back(NormalValues(op_case.parameter_sizes[i], seed + 2 + i));
    grads.emplace_back(params.back().size(), std::numeric_limits<float>::quiet_NaN());
  }
}

void OpRunner::Prepare(bool training) {
  const Status status = op->Prepare(c.n, training);
  ASSERT_TRUE(status.ok()) << status;
}

std::vector<std::span<const float>> OpRunner::ParameterSpans() const {
  return {params.begin(), params.end()};
}

void OpRunner::Forward(bool training) {
  const std::vector<std::span<const float>> spans = ParameterSpans();
  op->Forward(
      {.n = c.n, .x = x.data(), .y = y.data(), .params = spans, .training = training, .step = 1});
}

void OpRunner::Backward() {
  const std::vector<std::span<const float>> spans = ParameterSpans();
  const std::vector<std::span<float>> gradient_spans(grads.begin(), grads.end());
  op->Backward(
      {.n = c.n,
       .x = x.data(),
       .y = y.data(),
       .dy = dy.data(),
       .dx = dx.data(),
       .params = spans,
       .grads = gradient_spans});
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
