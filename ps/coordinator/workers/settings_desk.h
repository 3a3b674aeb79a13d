#pragma once

#include <map>
#include <string>
#include <vector>

#include "ps/coordinator/meters/exchange_choice.h"
#include "ps/coordinator/state/job.h"
#include "ps/proto/job/step_settings.h"

namespace ps::coordinator {

/// What the steps of new leases have: people change it while the job trains (psctl set), and so
/// does `auto` by what is measured. Every lease carries it, so a worker has it with its next one,
/// whoever it is and whenever it has joined. In bsp all steps of a round have the same: a change
/// waits until no round is open. It is part of the job's state, so it outlasts a coordinator; a job
/// that goes back to a checkpoint keeps what is in force.
class SettingsDesk {
 public:
  explicit SettingsDesk(Job* job) : job_(job) {}

  void On(const Call& call, const proto::SetRequest& message);
  /// Does the next thing, before leases are granted.
  void Advance(const Call& call);

 private:
  void Want(const proto::StepChoice& next, const std::string& by, const std::string& why);
  void TakeEffect();
  void FollowMeasure(TimePoint now);
  ExchangeMeasure Measure(uint64_t* pushes) const;

  Job* const job_;
  TimePoint next_look_{};
  /// What each member had done when the settings in force began to count for it.
  std::map<Incarnation, proto::WorkerStats> measured_from_;
  /// As ExchangeBounds has them; until a person changes something.
  std::vector<proto::StepSettings> found_short_;
};

}  // namespace ps::coordinator
