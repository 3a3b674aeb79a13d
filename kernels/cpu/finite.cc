// A float is NaN or infinite if and only if all its exponent bits are set. Adding one to the
// exponent then carries into the sign bit, so the whole test is an and, an add and an or per
// element, in integers that every vector unit has.

#include "kernels/cpu/finite.h"

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ps/base/vector_code.h"

namespace ps::kernels {
namespace {

constexpr uint32_t kExponentMask = 0x7f800000U;
constexpr uint32_t kExponentOne = 0x00800000U;
constexpr uint32_t kSignBit = 0x80000000U;
/// Elements between two looks at the result: a bad gradient is often bad from the start.
constexpr size_t kBlockElements = 16384;

PS_VECTOR_CLONES uint32_t CarryOf(const float* x, size_t n) {
  uint32_t carry = 0;
  for (size_t i = 0; i < n; ++i) {
    carry |= (std::bit_cast<uint32_t>(x[i]) & kExponentMask) + kExponentOne;
  }
  return carry;
}

}  // namespace

bool AllFinite(std::span<const float> x) {
  for (size_t begin = 0; begin < x.size(); begin += kBlockElements) {
    const size_t n = x.size() - begin < kBlockElements ? x.size() - begin : kBlockElements;
    if ((CarryOf(x.data() + begin, n) & kSignBit) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace ps::kernels
