#include "ps/base/tensor_spec.h"

#include <cmath>
#include <numbers>

#include "ps/base/random.h"

namespace ps {
namespace {

/// Box-Muller from two counter values; u is kept away from 0 so that the logarithm is finite.
float Normal(uint64_t seed, uint64_t stream, uint64_t index) {
  const double u = 1.0 - ToUnit(CounterRandom(seed, stream, 2 * index));
  const double v = ToUnit(CounterRandom(seed, stream, 2 * index + 1));
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v));
}

}  // namespace

void InitializeTensor(
    const TensorSpec& spec, uint32_t tensor, uint64_t seed, int64_t begin, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const auto index = static_cast<uint64_t>(begin + i);
    switch (spec.init) {
      case InitKind::kConstant:
        out[i] = spec.init_scale;
        break;
      case InitKind::kNormal:
        out[i] = spec.init_scale * Normal(seed, tensor, index);
        break;
      case InitKind::kUniform:
        out[i] = spec.init_scale *
                 static_cast<float>(2.0 * ToUnit(CounterRandom(seed, tensor, index)) - 1.0);
        break;
    }
  }
}

}  // namespace ps
