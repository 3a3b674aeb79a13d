#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/optimizer.h"

namespace ps::kernels {

/// An element's place in its buffer, modulo so many, says which sum it goes into.
inline constexpr size_t kAlignmentLanes = 8;

struct AlignmentSums {
  using Lanes = std::array<double, kAlignmentLanes>;

  Lanes gradient{};
  Lanes momentum{};
  Lanes product{};
};

/// How a gradient lies to the momentum of the same elements: the sums of their squares and of their
/// product, in double and in an order that follows from the elements' number alone. So it does not
/// matter in which pieces they come, nor on which machine: the bits are the same.
class Alignment {
 public:
  /// The next elements of both: f32, finite, equally many.
  /// Cost: 8 bytes of memory traffic per element.
  void Add(std::span<const float> gradient, std::span<const float> momentum);

  /// HeLoCo's correction (arXiv 2606.00271). With c = |g| / (|g| + 3 |m|), how much the gradient's
  /// size speaks for it, and cos of the angle between g and m:
  ///   cos >= 0.2       g stays
  ///   0 <= cos < 0.2   g is turned towards m, |g| stays: its direction becomes that of
  ///                    (1 - l) g / |g| + l m / |m|, l = min(1, (1 - cos) c)
  ///   cos < 0          g - b cos c |g| m / |m|, b = min(0.5, -0.5 cos c): less against m
  /// g stays too where one of the two is 0, or m is 10^-12 of g or less: it has no direction then.
  Turn HelocoTurn() const;

 private:
  AlignmentSums sums_;
  uint64_t count_ = 0;
};

}  // namespace ps::kernels
