#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cpu/op.h"
#include "kernels/cpu/workspace.h"
#include "tests/kernels/op_cases.h"

namespace ps::kernels::test {

/// An op of the table with the memory for one batch.
struct OpRunner {
  OpRunner(const OpCase& op_case, uint64_t seed);

  void Prepare(bool training);
  void Forward(bool training);
  /// Forward must have come before.
  void Backward();

  std::vector<std::span<const float>> ParameterSpans() const;

  const OpCase& c;
  Workspace workspace;
  std::unique_ptr<Op> op;
  std::vector<float> x;
  std::vector<float> y;
  std::vector<float> dy;
  std::vector<float> dx;
  std::vector<std::vector<float>> params;
  std::vector<std::vector<float>> grads;
};

/// Standard normal values.
std::vector<float> NormalValues(int64_t n, uint64_t seed);

Values ToDouble(std::span<const float> values);

/// sum (actual - expected)^2 / sum expected^2; the plain sum when expected is all 0.
double NormalisedError(std::span<const float> actual, std::span<const double> expected);

}  // namespace ps::kernels::test
