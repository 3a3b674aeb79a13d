#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/op_spec.h"
#include "tests/kernels/reference_ops.h"

namespace ps::kernels::test {

/// One row of the parity table.
struct OpCase {
  std::string kind;  // as a config names the layer
  std::string sizes;
  int64_t n = 1;
  int64_t in_elements = 1;   // a sample
  int64_t vocabulary = 0;    // above 0: x are tokens below it, which have no gradient
  int64_t out_elements = 1;  // a sample
  std::vector<int64_t> parameter_sizes;
  OpSpec spec;
  Reference reference;
  Precision precision = Precision::kF32;
  double nmse_max = 1e-12;          // normalised mean squared error: sum (a-b)^2 / sum b^2
  double gradient_nmse_max = 1e-9;  // float's own rounding of these sums leaves some times less
};

/// The row computed so. Nothing changes for ops that do not multiply.
OpCase InPrecision(OpCase op_case, Precision precision);

/// Every op, every option that changes what it computes; sizes 1, odd primes, and around the vector
/// width; empty batches, of 1 and more. All rows that multiply come in bf16 too.
std::vector<OpCase> AllOpCases();

/// The rows of one kind.
std::vector<OpCase> OpCasesOf(const std::string& kind);

/// Each kind once, in the order of the table.
std::vector<std::string> AllOpKinds();

inline std::ostream& operator<<(std::ostream& out, const OpCase& c) {
  return out << c.kind << c.sizes << (c.precision == Precision::kBf16 ? "_bf16" : "");
}

}  // namespace ps::kernels::test
