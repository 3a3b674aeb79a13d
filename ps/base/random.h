#pragma once

#include <cstdint>

namespace ps {

/// SplitMix64's finaliser: a bijection on 64 bits that passes statistical tests when fed a counter.
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014).
constexpr uint64_t Mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Value number `index` of stream `stream` of `seed`: any order, any process, the same value.
constexpr uint64_t CounterRandom(uint64_t seed, uint64_t stream, uint64_t index) {
  return Mix64(Mix64(Mix64(seed) ^ stream) ^ index);
}

/// Uniform in [0, 1) with 53 random bits.
constexpr double ToUnit(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

/// A small sequential generator, passed where randomness is needed. Same seed, same sequence.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(Mix64(seed)) {}

  uint64_t Next() { return Mix64(state_++); }

  double Unit() { return ToUnit(Next()); }

  /// Uniform in [0, bound), bound > 0. The modulo bias is below bound / 2^64.
  uint64_t Below(uint64_t bound) { return Next() % bound; }

  bool Chance(double probability) { return Unit() < probability; }

 private:
  uint64_t state_;
};

}  // namespace ps
