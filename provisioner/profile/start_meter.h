#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/time.h"
#include "ps/proto/files/profile.h"
#include "ps/proto/messages.h"
#include "ps/proto/state/job_state.h"
#include "ps/proto/worker_start.h"

namespace ps::provisioner {

/// Times the starts of a run's workers: until they join, and until their first step counts. Times
/// are as exact as the interval between two calls of Look. Pure.
///
/// Only starts that this process has ordered are timed. Nothing is told of workers that an earlier
/// coordinator has ordered, or that were started by hand.
class StartMeter {
 public:
  /// The newest so many are kept.
  static constexpr size_t kStartsMax = 1000;

  /// `launcher`: as LauncherName.
  explicit StartMeter(std::string launcher) : launcher_(std::move(launcher)) {}

  void Begin(const proto::WorkerStart& start);
  /// The process is gone, or never ran.
  void End(LaunchId launch);
  /// The coordinator has these members now, and the run is in that state.
  void Look(
      const std::map<Incarnation, proto::MemberRecord>& members,
      proto::RunState state,
      TimePoint now);

  /// Those that have joined, in the order in which their first step counted; at the end those
  /// without a step.
  std::vector<proto::StartSample> Starts() const;

 private:
  struct Pending {
    proto::WorkerStart start;
    std::optional<TimePoint> joined;
    std::optional<TimePoint> ready;  // it has its data, and has asked for work
    bool is_interrupted = false;     // nobody worked for a while since it was ready
  };

  void Note(Pending* pending, const proto::MemberRecord& member, bool is_idle, TimePoint now) const;
  proto::StartSample SampleOf(const Pending& pending) const;
  double StepSeconds(const Pending& pending, TimePoint now) const;
  void Keep(proto::StartSample sample);

  const std::string launcher_;
  std::map<LaunchId, Pending> pending_;  // no step of theirs has counted
  std::deque<proto::StartSample> done_;
  std::optional<TimePoint> training_since_;
};

}  // namespace ps::provisioner
