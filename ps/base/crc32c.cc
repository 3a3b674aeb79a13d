// Long inputs are folded 256 bytes at a time by carry-less multiplication where the CPU has it for
// 512-bit registers (Gopal et al., "Fast CRC computation using PCLMULQDQ", Intel 2009). Elsewhere
// three interleaved streams hide the latency of the crc32 instruction (3 cycles, one issued a
// cycle). The partial CRCs are joined by advancing one over a fixed number of zero bytes, which is
// linear over GF(2) and so a table look-up per input byte.

#include "ps/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ps {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // 0x1EDC6F41 reflected

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    }
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

uint32_t PortableRaw(std::span<const std::byte> bytes, uint32_t crc) {
  for (const std::byte b : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint32_t>(b)) & 0xff];
  }
  return crc;
}

#if defined(__x86_64__)
constexpr size_t kLongBlock = 4096;
constexpr size_t kShortBlock = 256;

/// tables[k][b]: the effect of byte k of a CRC being b, after `zeros` more zero bytes.
struct ZeroShift {
  std::array<std::array<uint32_t, 256>, 4> tables{};

  /// Walks the zeros for 32 single bits only; the rest are their sums, as the shift is linear.
  explicit ZeroShift(size_t zeros) {
    for (uint32_t k = 0; k < 4; ++k) {
      for (uint32_t b = 1; b < 256; ++b) {
        const uint32_t lowest = b & (~b + 1);
        if (b != lowest) {
          tables[k][b] = tables[k][lowest] ^ tables[k][b ^ lowest];
          continue;
        }
        uint32_t crc = b << (8 * k);
        for (size_t i = 0; i < zeros; ++i) {
          crc = (crc >> 8) ^ kTable[crc & 0xff];
        }
        tables[k][b] = crc;
      }
    }
  }

  uint32_t Apply(uint32_t crc) const {
    return tables[0][crc & 0xff] ^ tables[1][(crc >> 8) & 0xff] ^ tables[2][(crc >> 16) & 0xff] ^
           tables[3][crc >> 24];
  }
};

uint64_t Load64(const std::byte* p) {
  uint64_t v = 0;
  std::memcpy(&v, p, sizeof(v));
  return v;
}

__attribute__((target("sse4.2"))) const std::byte* ThreeWay(
    const std::byte* p, const std::byte* end, size_t block, const ZeroShift& shift, uint64_t* crc) {
  while (static_cast<size_t>(end - p) >= 3 * block) {
    uint64_t a = *crc;
    uint64_t b = 0;
    uint64_t c = 0;
    for (size_t i = 0; i < block; i += 8) {
      a = _mm_crc32_u64(a, Load64(p + i));
      b = _mm_crc32_u64(b, Load64(p + block + i));
      c = _mm_crc32_u64(c, Load64(p + 2 * block + i));
    }
    const uint32_t ab = shift.Apply(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b);
    *crc = shift.Apply(ab) ^ static_cast<uint32_t>(c);
    p += 3 * block;
  }
  return p;
}

/// x^n modulo the polynomial, in its reflected form: what n zero bits do to a CRC whose top bit is
/// set.
constexpr uint64_t PowerOfX(size_t n) {
  uint32_t crc = 0x80000000;
  for (size_t i = 0; i < n; ++i) {
    crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
  }
  return crc;
}

/// Multipliers that carry a 128-bit lane over `bytes` bytes: low half, high half. The product of
/// two reflected numbers is one bit short of the reflected product, hence the 1.
struct FoldFactors {
  uint64_t low;
  uint64_t high;
};

constexpr FoldFactors FoldOver(size_t bytes) {
  return {PowerOfX(bytes * 8 + 32 - 1), PowerOfX(bytes * 8 - 32 - 1)};
}

static_assert(FoldOver(64).low == 0x740eef02 && FoldOver(64).high == 0x9e4addf8);

constexpr size_t kFoldLane = sizeof(__m512i);
constexpr size_t kFoldBlock = 4 * kFoldLane;

__attribute__((target("avx512f,vpclmulqdq"))) __m512i Fold(
    __m512i lane, __m512i factors, __m512i next) {
  const __m512i low = _mm512_clmulepi64_epi128(lane, factors, 0x00);
  const __m512i high = _mm512_clmulepi64_epi128(lane, factors, 0x11);
  return _mm512_ternarylogic_epi64(low, high, next, 0x96);  // xor of all three
}

__attribute__((target("avx512f"))) __m512i Broadcast(FoldFactors f) {
  return _mm512_broadcast_i32x4(
      _mm_set_epi64x(static_cast<int64_t>(f.high), static_cast<int64_t>(f.low)));
}

/// Whole blocks of [p, end) become one lane with the same CRC, which the crc32 instruction
/// finishes. Requires: end - p >= kFoldBlock.
__attribute__((target("avx512f,vpclmulqdq,sse4.2"))) const std::byte* FoldBlocks(
    const std::byte* p, const std::byte* end, uint64_t* crc) {
  constexpr FoldFactors kOverBlock = FoldOver(kFoldBlock);
  constexpr FoldFactors kOverLane = FoldOver(kFoldLane);
  const __m512i over_block = Broadcast(kOverBlock);
  const __m512i over_lane = Broadcast(kOverLane);
  __m512i a = _mm512_loadu_si512(p);
  __m512i b = _mm512_loadu_si512(p + kFoldLane);
  __m512i c = _mm512_loadu_si512(p + 2 * kFoldLane);
  __m512i d = _mm512_loadu_si512(p + 3 * kFoldLane);
  a = _mm512_xor_si512(a, _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(*crc))));
  p += kFoldBlock;
  for (; static_cast<size_t>(end - p) >= kFoldBlock; p += kFoldBlock) {
    a = Fold(a, over_block, _mm512_loadu_si512(p));
    b = Fold(b, over_block, _mm512_loadu_si512(p + kFoldLane));
    c = Fold(c, over_block, _mm512_loadu_si512(p + 2 * kFoldLane));
    d = Fold(d, over_block, _mm512_loadu_si512(p + 3 * kFoldLane));
  }
  b = Fold(a, over_lane, b);
  c = Fold(b, over_lane, c);
  d = Fold(c, over_lane, d);
  alignas(kFoldLane) std::array<std::byte, kFoldLane> folded;
  _mm512_store_si512(folded.data(), d);
  uint64_t raw = 0;
  for (size_t i = 0; i < kFoldLane; i += 8) {
    raw = _mm_crc32_u64(raw, Load64(folded.data() + i));
  }
  *crc = raw;
  return p;
}

bool HasWideFold() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0;
}

__attribute__((target("sse4.2"))) uint32_t HardwareRaw(
    std::span<const std::byte> bytes, uint32_t raw, bool may_fold) {
  static const ZeroShift long_shift(kLongBlock);
  static const ZeroShift short_shift(kShortBlock);
  const std::byte* p = bytes.data();
  const std::byte* const end = p + bytes.size();
  uint64_t crc = raw;
  static const bool has_wide_fold = HasWideFold();
  if (may_fold && has_wide_fold && bytes.size() >= kFoldBlock) {
    p = FoldBlocks(p, end, &crc);
  }
  p = ThreeWay(p, end, kLongBlock, long_shift, &crc);
  p = ThreeWay(p, end, kShortBlock, short_shift, &crc);
  for (; end - p >= 8; p += 8) {
    crc = _mm_crc32_u64(crc, Load64(p));
  }
  for (; p != end; ++p) {
    crc = _mm_crc32_u8(static_cast<uint32_t>(crc), static_cast<uint8_t>(*p));
  }
  return static_cast<uint32_t>(crc);
}
#endif

}  // namespace

uint32_t Crc32cPortable(std::span<const std::byte> bytes, uint32_t previous) {
  return ~PortableRaw(bytes, ~previous);
}

uint32_t Crc32cInterleaved(std::span<const std::byte> bytes, uint32_t previous) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") != 0) {
    return ~HardwareRaw(bytes, ~previous, false);
  }
#endif
  return Crc32cPortable(bytes, previous);
}

uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t previous) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") != 0) {
    return ~HardwareRaw(bytes, ~previous, true);
  }
#endif
  return Crc32cPortable(bytes, previous);
}

}  // namespace ps
