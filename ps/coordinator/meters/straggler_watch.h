#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "ps/base/ids.h"
#include "ps/base/time.h"

namespace ps::coordinator {

/// train.mode_policy sync_switch_greedy and sync_switch_elastic: whether a worker has become so
/// slow that rounds of bsp wait for it. Each worker is compared with its own quickest steps in bsp,
/// so one that was slow from the start is no straggler. What slows all workers alike, as another
/// mode does, is left out. After a restart of the coordinator the workers count as they are then.
class StragglerWatch {
 public:
  /// A worker straggles when a round would take so many times as long as it usually does ...
  static constexpr double kFactor = 1.5;
  /// ... and no more when it would take fewer times as long than this.
  static constexpr double kFactorOver = 1.2;
  /// So many looks in a row have to say so. There is at most one look a second.
  static constexpr uint32_t kLooks = 3;

  /// The worker made a step of `samples`, from the lease or the step before to its
  /// report. Requires: seconds > 0.
  void NoteStep(Incarnation incarnation, uint32_t samples, double seconds, bool is_bsp);

  void Remove(Incarnation incarnation) { paces_.erase(incarnation); }

  /// Looks at the workers, unless the last look was less than a second ago. True when is_straggling
  /// has changed.
  bool Look(TimePoint now);

  bool is_straggling() const { return is_straggling_; }

  /// Whom a round would wait for, at the last look. None: fewer than two workers are known.
  Incarnation straggler() const { return straggler_; }

  /// How many times as long as usual a round would take because of it; 0: none.
  double slowdown() const { return slowdown_; }

  /// Its quickest steps in bsp; 0: not known.
  double UsualOf(Incarnation incarnation) const;

  /// It takes no part in rounds from now on, so it is not looked at. Its usual pace stays known.
  void SetAside(Incarnation incarnation);
  /// As SetAside, of one whose usual pace another coordinator has measured.
  void Restore(Incarnation incarnation, double usual_s);
  /// It takes part in rounds, and is looked at by TrialSlowdown alone.
  void Try(Incarnation incarnation);
  /// How many times as long as usual a round would take because of its newest step on trial.
  /// Nothing: it has made none, or nobody is known to compare it with.
  std::optional<double> TrialSlowdown(Incarnation incarnation) const;
  /// It is looked at as any other.
  void TakeBack(Incarnation incarnation);

 private:
  enum class Part : uint8_t { kIn, kAside, kOnTrial };

  struct Pace {
    uint32_t samples = 0;
    uint32_t steps = 0;    // of so many samples
    double seconds = 0;    // of a step, smoothed
    double least_bsp = 0;  // of these, in bsp; 0: too few steps yet
    Part part = Part::kIn;
    double trial_s = 0;  // the newest step on trial; 0: none
  };

  /// Those who take part and whose usual pace is known.
  struct Fleet {
    size_t known = 0;
    double growth = 1;   // of the middle one: now against usual
    double usual_s = 0;  // of the slowest
  };

  Fleet Known() const;
  void Measure();
  void Forget();

  std::map<Incarnation, Pace> paces_;
  TimePoint looked_{};
  uint32_t looks_ = 0;  // in a row that ask for a change
  bool is_straggling_ = false;
  Incarnation straggler_;
  double slowdown_ = 0;
};

}  // namespace ps::coordinator
