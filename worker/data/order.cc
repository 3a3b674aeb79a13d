#include "worker/data/order.h"

#include <bit>

#include "ps/base/check.h"
#include "ps/base/random.h"

namespace ps::worker {
namespace {

constexpr uint32_t kRounds = 6;

}  // namespace

EpochOrder::EpochOrder(uint64_t seed, uint64_t epoch, uint64_t n)
    : n_(n), key_(Mix64(Mix64(seed) ^ epoch)) {
  PS_CHECK(n > 0) << "an order of no samples";
  const auto bits = static_cast<uint32_t>(std::bit_width(n - 1));
  half_bits_ = bits < 2 ? 1 : (bits + 1) / 2;
}

/// A Feistel network: a bijection on 2 * half_bits_ bits whatever its round function is.
uint64_t EpochOrder::Permute(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t next = left ^ (Mix64(key_ ^ (round << 56) ^ right) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

uint64_t EpochOrder::SampleAt(uint64_t position) const {
  PS_CHECK(position < n_) << "position " << position << " of " << n_;
  // Cycle walking: applying a bijection of a larger set until the value is below n is a bijection
  // on [0, n). The larger set is less than 4n (8 values at n = 2), so few turns are expected.
  uint64_t value = Permute(position);
  while (value >= n_) {
    value = Permute(value);
  }
  return value;
}

}  // namespace ps::worker
