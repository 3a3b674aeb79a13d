#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "ps/base/ids.h"
#include "ps/coordinator/state/touched_rows.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/limits.h"
#include "ps/proto/state/job_state.h"

namespace ps::coordinator {

using proto::kSeatsMax;

/// The places for workers and what the config says of each. Seats of the config come first, in the
/// order of its groups; those of `add` faults and of workers started by hand follow.
class Seats {
 public:
  /// Works on `state` and marks what it changes; both outlive it. `faults` is what its `added`
  /// seats name. A state without seats gets those of the config.
  Seats(
      const proto::JobConfig& config,
      const std::vector<proto::FaultConfig>& faults,
      proto::SeatsState* state,
      TouchedRows* touched);

  /// The settings of a seat: count 1, minibatch resolved. Defaults for seats that nobody described.
  const proto::WorkerGroup& GroupOf(WorkerId seat) const;
  /// The place in the config of the group that the seat is one of, if any.
  std::optional<uint32_t> GroupPlaceOf(WorkerId seat) const;
  /// Takes the next fresh seat for a worker of the group. Requires: size() < kSeatsMax.
  WorkerId AddScaled(uint32_t group);
  /// Takes the next fresh seat for a worker of `faults[fault]`. Requires: size() < kSeatsMax.
  WorkerId AddFresh(uint32_t fault);
  /// Somebody asks for a seat that was not there. Requires: seat.value < kSeatsMax.
  void Open(WorkerId seat);

  uint32_t size() const { return state_->next; }

  /// Seats of the config's groups.
  uint32_t initial() const { return initial_; }

  /// A member has the seat, or has left it.
  void Take(WorkerId seat, LaunchId launch);
  void Leave(WorkerId seat);

  /// The lowest seat that nobody has or is expected in.
  std::optional<WorkerId> Vacant() const;

  bool IsVacant(WorkerId seat) const { return vacant_.contains(seat); }

  /// Seats whose worker was started and has not asked for its first lease yet.
  void Expect(WorkerId seat, LaunchId launch);
  /// The same of one that was there before and comes back by itself: nobody starts it.
  void ExpectBack(WorkerId seat);
  void StopExpecting(WorkerId seat);

  /// The worker that was started for the seat is killed instead. It may ask to join yet. One that
  /// somebody has started by hand can't be killed, and its end is never told: it may come.
  void Cancel(WorkerId seat);

  /// Until its process is known to have ended, or another one is expected.
  bool IsCancelled(WorkerId seat) const { return cancelled_.contains(seat); }

  void NoteEnd(WorkerId seat) { cancelled_.erase(seat); }

  /// The launch of the process that has, or had, the seat last, or was started for it since. None:
  /// nobody was, or somebody has started it by hand.
  LaunchId LaunchOf(WorkerId seat) const;

  bool IsExpected(WorkerId seat) const { return state_->expected.contains(seat); }

  bool IsReturning(WorkerId seat) const { return state_->returning.contains(seat); }

  const std::set<WorkerId>& expected() const { return state_->expected; }

  /// Somebody is expected in a seat of the config.
  bool is_first_expected() const {
    return !state_->expected.empty() && state_->expected.begin()->value < initial_;
  }

  /// The seat's worker ended by itself with an error before it had counted a step. Forgotten when
  /// another one takes the seat or is expected in it.
  void NoteFailure(WorkerId seat, std::string why);

  const std::map<WorkerId, std::string>& failures() const { return state_->ends; }

  void ForgetFailures();

  /// So many workers of a seat are lost in a row for one reason, none of them with a step, and what
  /// ends them is not taken for chance any more.
  static constexpr uint32_t kFruitlessMax = 3;

  /// The seat's worker was lost before it had counted a step. Returns how many have been in a row
  /// for this reason, of which numbers are no part.
  uint32_t NoteFruitless(WorkerId seat, const std::string& why);

  /// The seat's worker has counted a step.
  void NoteStep(WorkerId seat);

  /// There are seats, and the last worker of each has failed: another one would fail as well.
  bool have_all_failed() const { return state_->next > 0 && state_->ends.size() == state_->next; }

 private:
  proto::WorkerGroup Resolve(proto::WorkerGroup group) const;
  void NoteVacancy(WorkerId seat);
  void NoteLaunch(WorkerId seat, LaunchId launch);
  void AddExpected(WorkerId seat);

  const uint32_t reference_minibatch_;
  const proto::WorkerGroup default_group_;
  const std::vector<proto::FaultConfig> faults_;
  proto::SeatsState* const state_;
  TouchedRows* const touched_;
  std::map<WorkerId, proto::WorkerGroup> groups_;
  const std::vector<proto::WorkerGroup> config_groups_;
  std::vector<uint32_t> places_;  // of the groups, by seat; that of no group is beyond them
  uint32_t initial_ = 0;

  std::set<WorkerId> taken_;
  std::set<WorkerId> cancelled_;
  std::set<WorkerId> vacant_;  // neither taken nor expected
};

}  // namespace ps::coordinator
