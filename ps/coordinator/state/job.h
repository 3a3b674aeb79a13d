#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ps/base/logger.h"
#include "ps/base/random.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/coordinator/meters/bad_data_watch.h"
#include "ps/coordinator/meters/batch_shares.h"
#include "ps/coordinator/meters/cost_meter.h"
#include "ps/coordinator/meters/divergence.h"
#include "ps/coordinator/meters/fleet_speed.h"
#include "ps/coordinator/meters/progress_meter.h"
#include "ps/coordinator/meters/straggler_watch.h"
#include "ps/coordinator/meters/traffic_meter.h"
#include "ps/coordinator/meters/trend_watch.h"
#include "ps/coordinator/state/call.h"
#include "ps/coordinator/state/evaluations.h"
#include "ps/coordinator/state/events.h"
#include "ps/coordinator/state/fault_schedule.h"
#include "ps/coordinator/state/job_state.h"
#include "ps/coordinator/state/ledger.h"
#include "ps/coordinator/state/membership.h"
#include "ps/coordinator/state/peers.h"
#include "ps/coordinator/state/places.h"
#include "ps/coordinator/state/rounds.h"
#include "ps/coordinator/state/seats.h"
#include "ps/coordinator/state/shard_table.h"
#include "ps/coordinator/state/touched_rows.h"
#include "ps/proto/fleet_actions.h"
#include "ps/proto/outbox.h"
#include "ps/proto/timing.h"

namespace ps::coordinator {

/// Waits of one peer that are remembered for people.
inline constexpr size_t kWaitsPerPeerMax = 64;

/// Where the workers of one group of the config are.
struct GroupSeating {
  std::vector<WorkerId> coming;   // started, and have not joined
  std::vector<WorkerId> present;  // take part, and are not told to leave
  std::vector<WorkerId> vacant;   // seats that can be filled

  size_t size() const { return coming.size() + present.size(); }
};

/// What the parts change of the job's state themselves. The tables keep the rest.
struct JobEdits {
  explicit JobEdits(JobState* state);

  JobPhase& phase;
  Status& outcome;
  std::string& stop_reason;
  std::string& leave_reason;
  bool& is_told_shards;
  uint32_t& epochs_finished;
  std::optional<proto::RunData>& data;
  proto::JobCounters& counters;
  LaunchId& last_launch;
  proto::ModelRecord& model;
  proto::CheckpointsState& checkpoints;
  std::vector<uint32_t>& wanted;
  std::map<uint32_t, proto::HandoverRecord>& handovers;
  proto::ServersState& servers;
  proto::PauseRecord& pause;
  proto::ModesState& modes;
  proto::StepsState& steps;
  proto::ParkRecord& park;
  proto::FinishRecord& finish;
};

/// What the parts of the coordinator share: the job's state, the tables over it, the open
/// connections, and the world. Each part says in its header what of it it changes.
class Job {
  // Before what refers to it.
  JobState state_;
  TouchedRows touched_;
  std::vector<std::byte> totals_;  // the row, as it was taken last

 public:
  /// `state` is a fresh one (MakeJobState) or one that passed CheckJobState. `fleet` and `log`
  /// outlive the job.
  Job(CoordinatorOptions options_in,
      JobState state_in,
      proto::FleetActions* fleet_in,
      const Logger* log_in);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() = default;

  void Reply(const Call& call, proto::Message message) const;
  void Refuse(const Call& call, StatusCode code, const std::string& text, Step step = 0) const;
  /// Gives a connection up.
  void ClosePeer(proto::PeerId peer, const Call& call);
  /// Whether the caller has the role; else it is refused. Requires: its connection is open.
  bool HasRole(const Call& call, proto::Role role);
  /// A member's message came on a connection that is not its own: one that it asked for under an
  /// earlier incarnation, say. It is to come back under the present one, which stays a member.
  void RefuseConnection(const Call& call, Incarnation incarnation);
  /// The member that `call` comes from, or null: refused as stale when it is fenced, as unavailable
  /// on a connection that is not its own, or dropped on one that it has given up.
  Member* MemberOf(const Call& call, Incarnation incarnation);

  /// The outcome is not known yet.
  bool is_working() const { return state.phase < JobPhase::kLeaving; }

  /// Until they are told to leave, which is after the last checkpoint and the model.
  bool needs_shards() const { return !state.is_told_shards; }

  bool is_bsp() const { return state.modes.in_force.mode == proto::Mode::kBsp; }

  bool is_ssp() const { return state.modes.in_force.mode == proto::Mode::kSsp; }

  /// It is in bsp, or is to be.
  bool needs_round_room() const { return is_bsp() || state.modes.wanted.mode == proto::Mode::kBsp; }

  /// By group of the config. Cost: seats.
  std::vector<GroupSeating> Seatings() const;
  /// The same for people: a row for each type, in the order of the config.
  std::vector<proto::FleetRow> FleetRows(TimePoint now) const;
  /// For a process that is to be started now.
  LaunchId NextLaunch();
  /// Starts a process that is to take the server's place, as soon as StartPace allows: now, or at
  /// a tick. Whatever runs of the server is killed now. Returns how long the start waits.
  Duration StartServer(uint32_t server, const std::string& why, TimePoint now);
  /// Starts the servers whose time has come.
  void StartDueServers(TimePoint now);
  /// Stops expecting the seat's worker. One that took part until the job went back, and is not to
  /// come back, is a revocation; false: it was none.
  bool GiveUpReturn(WorkerId seat, const std::string& reason);
  /// Starts a worker for the seat, in the zone whose turn it is, and expects it.
  void StartWorker(WorkerId seat, TimePoint now);
  /// The same in a place that was chosen.
  void StartWorkerIn(WorkerId seat, const PlaceKey& place, TimePoint now);
  proto::ServersStatus ServersNow() const;
  proto::ModesStatus ModesNow() const;
  proto::StepsStatus StepsNow() const;

  /// What the steps of a lease that is granted now have.
  const proto::StepSettings& settings() const { return state.steps->in_force; }

  /// bsp: shards keep a gradient of each member until the round is committed; so many have room.
  uint64_t MembersMax() const { return MembersMax(LargestBytes()); }

  /// The same where the largest shard has `shard_bytes` of parameters.
  uint64_t MembersMax(uint64_t shard_bytes) const {
    return needs_round_room() ? RoundRoom(shard_bytes) : kSeatsMax;
  }

  /// Parameters of the shard that has most of them, with those that are on their way to it.
  uint64_t LargestBytes() const;
  /// Workers that are wanted, or there.
  uint64_t WorkersToExpect() const;
  /// Members for whose gradients shards of `shard_bytes` have room.
  uint64_t RoundRoom(uint64_t shard_bytes) const;

  /// All servers go back together when one of them is lost.
  bool is_consistent() const {
    return is_bsp() || options.config.checkpoint.recovery == proto::RecoveryKind::kConsistent;
  }

  /// A member sits out of the rounds (SitOuts); null: it does not.
  const proto::SitOutRecord* SitOutOf(Incarnation incarnation) const;

  bool SitsOut(Incarnation incarnation) const { return SitOutOf(incarnation) != nullptr; }

  /// No train lease is granted: the job is paused, the mode changes, training was ended, an epoch's
  /// checkpoint is to be opened first, or a server hands over and nothing has to be done again.
  bool is_holding() const {
    return state.pause.is_on || state.modes.is_holding || is_finishing() || HoldsForEpoch() ||
           HoldsForHandover();
  }

  /// checkpoint.best: an epoch's checkpoint could not be opened yet; see BestDesk.
  bool HoldsForEpoch() const {
    return std::ranges::find(
               state.checkpoints.candidates, 0U, &proto::EpochCheckpoint::checkpoint) !=
           state.checkpoints.candidates.end();
  }

  /// Training is over, and what its end needs is being done.
  bool is_finishing() const { return state.finish.step != proto::FinishStep::kNone; }

  /// What epochs are measured on.
  SampleSpan EpochSamples() const {
    const uint64_t tests = options.test_samples;
    return options.validation_samples > 0 ? SampleSpan{tests, tests + options.validation_samples}
                                          : SampleSpan{0, tests};
  }

  SampleSpan TestSamples() const { return {0, options.test_samples}; }

  /// Where all servers go back together nothing is begun until the server has left; else until
  /// enough of the grace is over.
  bool HoldsForHandover() const {
    return training_began && std::ranges::any_of(state.handovers, [this](const auto& handover) {
             return is_consistent() || handover.second.holds_until != Duration::zero();
           });
  }

  /// All servers go back together, too, while no checkpoint has the chunks where they are, and when
  /// they have an older model than the newest checkpoint has.
  bool goes_back_together() const {
    return is_consistent() || state.servers.chunks || state.checkpoints.is_best_taken ||
           state.servers.settled_by > state.checkpoints.newest().checkpoint;
  }

  /// No sample is left that nobody has leased: the job is done soon, unless some come back.
  bool is_all_leased() const {
    return ledger.samples_queued() == 0 && ledger.state().epochs.size() == ledger.epochs();
  }

  /// Nobody has a train lease, and nothing of one is on its way to the shards.
  bool is_idle() const {
    return state.ledger.leases.empty() && rounds.is_empty() && rounds.is_commit_acknowledged();
  }

  /// USD an hour for the machines that are held: servers, workers that are there or were started.
  /// Cost: seats.
  double UsdPerHour() const;

  /// What the member says that it has done, and what its traffic has cost since.
  void NoteStats(Member* member, const proto::WorkerStats& stats, TimePoint now);

  /// What the fleet's policy has to know later.
  void RememberPolicy(proto::PolicyRecord record);

  /// The seat's planned end, new or known.
  proto::KillRecord& EditKill(WorkerId seat);
  void DropKill(WorkerId seat);

  /// The chunks on their way are where they were to be.
  void FinishChunkMove();
  /// As ShardTable::BeginLife. Where the shard has chunks, members and those whose departure is not
  /// resolved have missed a life.
  void BeginLife(Shard* shard, proto::RestoreOrder restore);
  /// The addresses of all shards and the places of all chunks. Its size grows with the placement,
  /// so an event sends it to the one member that it is about, never to all members.
  proto::ShardAddresses WhereAllIs() const;

  /// Saves points in time as durations.
  JobState StateAt(TimePoint now) const;
  /// As CoordinatorCore::TakeRows.
  RowChanges TakeRows(TimePoint now, bool is_all);
  /// The opposite of StateAt: the job goes on now. Who takes part is not connected, and has the
  /// usual time to come back.
  void Resume(TimePoint now);

  // Constant after construction.
  const CoordinatorOptions options;
  const proto::Timing timing;
  proto::FleetActions* const fleet;
  const Logger* const log;

  /// Whoever changes it does so through `edit`, or through the table that keeps the part.
  const JobState& state;
  const JobEdits edit;
  Events events;
  SampleLedger ledger;
  Evaluations evaluations;
  Rounds rounds;
  Membership membership;
  FaultSchedule faults;
  Seats seats;
  Places places;
  ShardTable shards;

  // What this process alone knows.
  Peers peers;
  ProgressMeter meter;
  FleetSpeed speed;
  BatchShares batches;
  StragglerWatch stragglers;
  DivergenceWatch divergence;
  BadDataWatch bad_data;
  TrendWatch trends;
  Random random;
  TimePoint started_at{};
  std::optional<TimePoint> training_began;
  std::optional<TimePoint> training_ended;
  TimePoint no_worker_since{};
  TimePoint shards_silent_at{};  // when one of them was last found silent: nobody gets on then
  TimePoint round_since{};
  CostMeter cost;
  TrafficMeter traffic;

 private:
  void Launch(WorkerId seat, const std::string& zone);
  void CountTraffic(Member* member, TimePoint now);
  void SetTimes(TimePoint now, JobState* saved) const;
  /// Brings the times of the state up to date. False while they are but a little behind.
  bool NoteTimes(TimePoint now);
};

}  // namespace ps::coordinator
