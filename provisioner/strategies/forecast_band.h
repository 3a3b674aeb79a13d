#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace ps::provisioner {

/// Counts of machines, both ends within.
struct CountBand {
  uint32_t low = 0;
  uint32_t high = 0;

  bool Holds(uint32_t count) const { return low <= count && count <= high; }

  friend bool operator==(const CountBand&, const CountBand&) = default;
};

/// The band around forecasts of one horizon, learned online from what became of earlier ones.
///
/// Its edges are quantiles of the errors so far (split conformal prediction). Errors of a market
/// that changes its ways are no guide to the next ones, so the share that the quantiles leave out
/// is steered by the misses (adaptive conformal inference, Gibbs and Candès 2021): a miss widens
/// the band, a hit narrows it, by as much as keeps the share of hits where it was asked for,
/// whatever the trace does. Two limits: no band is narrower than a single count, so where counts
/// seldom change it holds more than was asked for; and none leaves 0 to the most that can be had.
///
/// Pure; learns nothing of the future: an error counts from the interval on in which it was seen.
class ForecastBand {
 public:
  /// `share`: of counts that bands are to hold, above 0 and below 1.
  explicit ForecastBand(double share);

  /// Takes over what is known at interval `now`. Call with `now` ascending, before At and Expect.
  void Learn(uint64_t now);

  /// True once there are errors enough for a band.
  bool IsReady() const { return errors_.size() >= kErrorsMin; }

  /// The band around a forecast, in a market of at most `most` machines. Requires: IsReady().
  CountBand At(double forecast, uint32_t most) const;
  /// A forecast was made whose count, `actual`, is seen at interval `at`. Requires: `at` ascends.
  void Expect(uint64_t at, double forecast, uint32_t actual, uint32_t most);

  static constexpr size_t kErrorsMin = 20;

 private:
  struct Pending {
    uint64_t at = 0;
    int64_t error = 0;
    bool was_banded = false;
    bool was_held = false;
  };

  /// The quantile of past errors, 0 the least; as split conformal prediction takes it.
  int64_t ErrorAt(double place) const;

  const double share_;
  double left_out_;              // steered: what the quantiles leave out; 0 and below: nothing
  std::vector<int64_t> errors_;  // ascending
  std::deque<Pending> pending_;
};

}  // namespace ps::provisioner
