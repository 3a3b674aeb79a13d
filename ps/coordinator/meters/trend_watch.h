#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "ps/base/time.h"

namespace ps::coordinator {

/// Finds what people want to be told of training while it goes on: a loss that jumps, steps that
/// stay away, gradients that grow old. Each is found once, until it is over.
class TrendWatch {
 public:
  struct LossTurn {
    bool is_spike = false;  // else it is over
    double loss = 0;        // of the last steps
    double usual = 0;       // of those before
    uint64_t steps = 0;     // that it took
  };

  /// A step was counted. `loss` is the mean of its samples; none: not known or not finite.
  std::optional<LossTurn> OnStep(std::optional<double> loss, TimePoint now);

  struct Stall {
    double waited_s = 0;
    double usual_s = 0;  // from one step to the next
  };

  /// `is_expected`: steps are under way, and nobody holds them back on purpose.
  std::optional<Stall> OnTick(bool is_expected, TimePoint now);

  struct Ageing {
    double staleness = 0;  // in steps of all workers
    double usual = 0;
  };

  bool WantsStaleness(TimePoint now) const;

  /// The mean staleness of so many workers' gradients, which grows with their number: another
  /// number begins anew. Called when it is wanted, once a minute.
  std::optional<Ageing> OnStaleness(double staleness, size_t workers, TimePoint now);

 private:
  double RecentLoss() const;
  std::optional<LossTurn> JudgeLoss();
  void AddUsual(double loss);

  std::deque<double> recent_;
  double first_ = 0;  // the mean of the first losses
  double usual_ = 0;
  double variance_ = 0;  // of one step's loss
  uint64_t usual_count_ = 0;
  bool is_spiking_ = false;
  uint64_t spike_steps_ = 0;

  std::optional<TimePoint> last_step_;  // nothing: none since steps are expected
  double interval_s_ = 0;
  uint64_t intervals_ = 0;
  bool is_stall_told_ = false;

  std::optional<TimePoint> aged_at_;
  size_t workers_ = 0;
  std::optional<double> usual_staleness_;
};

}  // namespace ps::coordinator
