#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ps/proto/job/job_config.h"

namespace ps::provisioner {

// Sync-Switch's offline policies, for a job that is trained again and again: which share of it to
// train in rounds (bsp) before it goes on in async. Pure.

/// What a share makes of a job: rounds of all workers, then steps of single ones.
struct SwitchedSteps {
  uint64_t rounds = 0;
  uint64_t steps = 0;

  friend bool operator==(const SwitchedSteps&, const SwitchedSteps&) = default;
};

/// Rounds and steps of a job of `steps` steps that has `share` (0 to 1) of its samples in rounds:
/// a round takes as many samples as one step of each of `workers` (> 0).
SwitchedSteps StepsOfShare(double share, uint64_t steps, uint32_t workers);

/// The job with this share in rounds; 1: all of it. The learning rate of the rounds is that of a
/// job in bsp or with train.lr_policy `live`; else the job's multiplied by the workers, or by
/// train.switch_lr_factor, so that each mode has the rate that belongs to it. The policy stays the
/// one that the job has now. A job that looks at stragglers goes on doing so.
/// Requires: the job is in bsp, or train.switch_momentum_factor is 1.
proto::JobConfig WithShare(const proto::JobConfig& job, double share);

/// The same job for a run whose accuracy counts, the `repeat`th of it: with another seed each.
/// Nothing disturbs it, and it is evaluated at its end. The directory is the caller's to set.
proto::JobConfig ShareRun(const proto::JobConfig& job, double share, uint32_t repeat);

/// Looks for the smallest share whose accuracy is that of bsp alone, or less by the tolerance: by
/// halves, between none of the job and all of it.
class ShareSearch {
 public:
  /// `tolerance` of accuracy, in [0, 1]. After the run in bsp alone come `tries` more.
  ShareSearch(double tolerance, int tries) : tolerance_(tolerance), tries_(tries) {}

  /// The share to be run next, 1 first; nothing: the search is over.
  std::optional<double> Next() const;

  /// What came of it. `accuracy`: nothing where training diverged. Returns whether it is as good as
  /// bsp alone. Requires: Next() has a value; the first accuracy is there.
  bool Add(std::optional<double> accuracy);

  /// The smallest share so far that is as good as bsp alone.
  double chosen() const { return most_; }

 private:
  const double tolerance_;
  const int tries_;
  int done_ = 0;
  double reference_ = 0;
  double least_ = 0;  // not good enough, or not tried
  double most_ = 1;
};

}  // namespace ps::provisioner
