#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/range_set.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/proto/messages.h"

namespace ps::proto {

// What of a job must outlive the process of its coordinator, as plain values; job_state.fbs is the
// saved form. Connections, timers and waits are not here: they begin anew. Points in time are
// saved as durations.

/// The right of one incarnation to train on samples [begin, end) of an epoch. Steps take them in
/// order, so what is counted is always a prefix.
struct TrainLease {
  LeaseId lease;
  Incarnation holder;
  uint32_t epoch = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t next = 0;       // [begin, next) is counted
  uint32_t minibatch = 1;  // samples of its steps, the last one's may be fewer
};

struct EpochRecord {
  uint64_t fresh = 0;  // [fresh, samples_per_epoch) was never leased
  RangeSet returned;   // leased once, not counted, waiting for a new holder
  RangeSet counted;
  uint64_t samples_returned = 0;  // so far
};

/// All that the sample ledger knows.
struct LedgerState {
  LeaseId last_lease;
  std::vector<EpochRecord> epochs;       // begun, from epoch 0
  std::map<LeaseId, TrainLease> leases;  // not counted in full
};

/// A piece of the samples within one evaluation.
struct EvaluationPart {
  uint64_t begin = 0;
  uint64_t end = 0;
  LeaseId lease;  // none: queued
  Incarnation holder;
  bool is_done = false;
  double loss_sum = 0;
  uint64_t correct = 0;
};

struct Evaluation {
  uint32_t epoch = 0;  // after this many epochs
  std::vector<EvaluationPart> parts;
  std::vector<MetricSums>
      sums;              // of each part, once it is done; states of older programs have none
  bool is_last = false;  // of the model that is left, whatever epoch it is of
};

/// What a result tells besides loss and metric.
struct ResultFigures {
  uint32_t epoch = 0;
  std::vector<Figure> figures;
};

struct EvaluationsState {
  std::vector<Evaluation> pending;     // oldest first
  std::vector<EvaluationRow> results;  // one of an epoch, in their order
  std::vector<ResultFigures> figures;  // of those that have any, in their order
  std::optional<EvaluationRow> last;   // of the model that is left
  std::vector<Figure> last_figures;    // what that one tells besides loss and metric
};

/// An incarnation's part in the open round of bsp.
struct RoundEntry {
  WorkerId worker;
  bool has_contributed = false;
  Step step = 0;
  uint32_t samples = 0;
  bool is_rejected = false;
};

struct RoundsState {
  uint64_t committed = 0;  // the newest round whose commit was decided
  std::map<Incarnation, RoundEntry> entries;
  std::optional<CommitRound> commit;  // the newest, until every shard has acknowledged it
  std::set<ShardId> acks;             // of that commit
};

/// One incarnation that takes part.
struct MemberRecord {
  // Constant from the join on.
  Incarnation incarnation;
  Generation joined;  // the membership that first lists it
  WorkerId seat;
  std::string host;
  int64_t pid = 0;
  LaunchId launch;  // none: somebody has started it by hand
  uint32_t minibatch = 1;
  float slowdown = 1;
  uint32_t threads = 1;
  std::string device;  // as the job asks for it, until the worker has said its own
  // Age of the job when its process joined first; none: not known.
  std::optional<Duration> began;

  // Life.
  bool is_admitted = false;  // every shard knows it and JoinReply is out
  bool is_heard = false;     // it has sent something after JoinReply
  bool is_draining = false;  // takes no new leases
  bool is_notified = false;  // a notice was given to it
  bool is_released = false;  // the fleet is to be smaller: it leaves, and is no revocation
  bool is_at_risk = false;   // its provider advises to move
  bool is_active = true;     // ssp: counts for the staleness bound
  bool has_asked = false;    // for a lease, ever
  Generation activated;      // the membership that made it active

  // Work.
  LeaseGrant last_grant;  // newest, train or evaluation; repeated when the answer was lost
  Step reported = 0;      // steps 1..reported are counted
  uint64_t samples_counted = 0;
  double step_seconds = 0;    // smoothed; 0: no step yet
  uint64_t lives_missed = 0;  // that shards have begun, and that it is not known to have found
  WorkerStats stats;

  // Where its machine is; empty: not known, or traffic has no price.
  std::string zone;
  // Bytes of its stats that JobState::traffic has.
  uint64_t pushed_counted = 0;
  uint64_t pulled_counted = 0;

  ProcessId process() const { return {launch, host, pid}; }
};

enum class LeaveKind : uint8_t {
  kLost,     // no notice
  kDrained,  // a notice, then a goodbye or the end
  kLeft,     // fenced by its own successor, or let go: at the end, or by a smaller fleet
  kFailed,   // ended by itself with an error, before it had counted a step or as a job's program
};

/// An incarnation that was removed: fenced everywhere once every shard has answered.
struct DepartureRecord {
  MemberRecord member;
  LeaveKind kind = LeaveKind::kLost;
  std::string reason;
  bool has_said_goodbye = false;
  std::map<ShardId, MembershipAck::Resolved> answers;
  bool is_resolved = false;  // its steps are counted, its leases returned
  // bsp: shards keep what it staged until this round is committed everywhere; 0: nothing staged.
  uint64_t kept_for_round = 0;
  Generation generation;  // the first that does not list it
};

/// What is remembered of those who are gone, for people.
struct GoneWorker {
  MemberRecord member;
  LeaveKind kind = LeaveKind::kLost;
  std::string reason;
};

struct MembershipState {
  Generation generation;
  Incarnation incarnation_max;
  std::map<Incarnation, MemberRecord> members;
  std::map<Incarnation, DepartureRecord> departures;
  std::map<ShardId, Generation> acknowledged;
  std::deque<GoneWorker> gone;  // newest last, bounded
  uint64_t gone_before = 0;     // these are forgotten
};

/// Workers of a seat that were lost in a row for one reason, none of them with a step.
struct FruitlessLosses {
  std::string why;  // without its numbers
  uint32_t times = 0;

  friend bool operator==(const FruitlessLosses&, const FruitlessLosses&) = default;
};

struct SeatsState {
  uint32_t next = 0;                     // seats 0 .. next - 1 exist
  std::map<WorkerId, uint32_t> added;    // by `add` faults: the fault's place in their order
  std::map<WorkerId, uint32_t> scaled;   // of a grown fleet: the group's place in the config
  std::set<WorkerId> expected;           // worker was started and has not asked for a lease yet
  std::set<WorkerId> returning;          // of those: it was there before, so nobody starts it
  std::map<WorkerId, std::string> ends;  // how the last worker of a seat failed, when it did
  // The launch of the process that has, or had, the seat last, or was started for it since. None:
  // it was started by hand.
  std::map<WorkerId, LaunchId> launches;
  std::map<WorkerId, FruitlessLosses> fruitless;
};

/// One server shard.
struct ShardRecord {
  bool is_registered = false;
  bool is_ready = false;
  std::string host;
  uint32_t port = 0;
  int64_t pid = 0;
  LaunchId launch;       // of the process that has the place, or was started to take it
  uint64_t life = 1;     // of its parameters
  RestoreOrder restore;  // what this life begins from
  // Another process that was started, and takes the place when the present one is gone.
  LaunchId successor;
  uint32_t restarts = 0;  // since it has worked for a while
  Duration start_due{};   // age of the job at which another process is started; 0: none is planned

  ProcessId process() const { return {launch, host, pid}; }
};

enum class JobPhase : uint8_t {
  kStarting,  // until the shards are set up and the first workers have asked for work
  kTraining,  // epochs and evaluations
  kStopping,  // workers hand over and leave
  kLeaving,   // the outcome is known; everybody is told to leave
  kFinished,
};

/// The planned end of a seat's worker. It stays until the worker is gone or was killed.
struct KillRecord {
  Incarnation incarnation;  // none: it had not joined when the end was planned
  Duration due{};           // age of the job at which the grace is over
  bool is_sudden = false;   // without a notice
  bool is_release = false;  // nobody wants it any more: when it goes, that is no revocation
};

/// A notice to a server: a checkpoint, then it leaves. It stays until the server's process is gone,
/// or the grace is over.
struct HandoverRecord {
  Duration due{};           // age of the job at which the grace is over
  uint64_t checkpoint = 0;  // that it waits for; 0: not open yet
  // Age of the job until which no train lease is granted, so that no step comes after the
  // checkpoint; 0: steps are not waited for any more.
  Duration holds_until{};
};

/// Chunks that one shard gives to another. They are there from placement `version` on.
struct ChunkMove {
  uint64_t version = 0;
  ShardId from;
  ShardId to;
  std::vector<ChunkKey> keys;
};

/// A chunk that is to be on this server, whatever the shares want.
struct PinnedChunk {
  ChunkKey key;
  uint32_t server = 0;

  friend bool operator==(const PinnedChunk&, const PinnedChunk&) = default;
};

/// The servers that are wanted, and the move of chunks to so many, some at a time, while training
/// goes on.
struct ServersState {
  uint32_t wanted = 0;
  uint64_t moves = 0;               // that were made
  std::string trouble;              // why the last change was given up
  bool is_spreading = false;        // chunks move, some at a time, until they are spread
  std::optional<ChunkMove> chunks;  // on their way
  // Chunks have moved since every earlier checkpoint, so who is lost takes all back to one.
  uint64_t settled_by = 0;
  // Parts of the parameters, in proportion, that the wanted ones are to have; empty: even.
  std::vector<uint32_t> shares;
  uint64_t gone_life = 0;  // the newest that a shard had which is no part of the job any more
  std::vector<PinnedChunk> pins;  // sorted by key
};

/// No train lease is granted until somebody says so.
struct PauseRecord {
  bool is_on = false;
  uint64_t checkpoint = 0;  // that has all that was done before; 0: not open yet
};

/// No worker trains: the servers are ended, and begin from the newest checkpoint when one comes.
struct ParkRecord {
  bool is_on = false;
};

/// A place, a type of machine in a zone, where starts of workers came to nothing.
struct PlaceRecord {
  std::string type;
  std::string zone;
  uint32_t failures = 0;  // in a row
  uint32_t times_left_out = 0;
  bool is_program = false;    // the last failure
  Duration left_out_until{};  // age of the job; 0: it is not
  std::string why;            // the last failure
};

/// train.mode_policy sync_switch_elastic: a worker that sits out of the rounds, or did.
struct SitOutRecord {
  Incarnation incarnation;
  bool is_out = false;    // else it takes part again
  bool is_trial = false;  // it takes part, and its next step decides
  uint32_t times = 0;     // that it was left out, trials that failed among them
  double usual_s = 0;     // its quickest step in rounds
  double slowdown = 0;    // how many times as long as usual rounds would take because of it
  Duration until{};       // age of the job at which it is tried again

  friend bool operator==(const SitOutRecord&, const SitOutRecord&) = default;
};

/// How the job trains. A switch: no train lease is granted any more, the steps under way end, the
/// mode changes, and leases are granted again when every shard knows it.
struct ModesState {
  ModeChoice in_force;
  ModeChoice wanted;
  bool is_wanted_by_policy = false;
  bool is_holding = false;             // train leases
  Generation since;                    // the membership that told the shards of in_force
  bool is_policy_over = false;         // train.mode_policy asks for nothing any more
  std::vector<ModeSwitch> switches;    // that were made: the last ones
  std::vector<SitOutRecord> sit_outs;  // sorted by incarnation
};

/// What the steps of new leases have, as people or the measured links have it.
struct StepsState {
  StepSettings in_force;
  StepSettings wanted;  // bsp: in force with the next round
  AutoSettings chosen;
  uint64_t changes = 0;        // that were made
  uint64_t since_samples = 0;  // that were counted at the last one
};

/// The last events of the job, and how many there were before them.
struct EventsState {
  std::deque<EventRow> last;
  uint64_t before = 0;
};

/// What the fleet's policy has to know when another coordinator goes on.
struct PolicyRecord {
  std::vector<uint32_t> available;  // spot machines that could be had, by interval: the last ones
  // The fleet that it has asked for, or that it has seen somebody else ask for since.
  bool has_wanted = false;
  uint32_t spot = 0;
  uint32_t on_demand = 0;
  double hand_until_s = 0;  // of training: what somebody else asked for is left alone until then

  friend bool operator==(const PolicyRecord&, const PolicyRecord&) = default;
};

/// A checkpoint that exists.
struct KeptCheckpoint {
  uint64_t checkpoint = 0;
  uint32_t shards = 0;   // that wrote it
  uint64_t steps = 0;    // counted when it was opened
  uint64_t samples = 0;  // likewise

  friend bool operator==(const KeptCheckpoint&, const KeptCheckpoint&) = default;
};

/// A checkpoint that has an epoch's model, and what that is worth.
struct EpochCheckpoint {
  uint32_t epoch = 0;
  uint64_t checkpoint = 0;
  double score = 0;  // checkpoint.best.metric of it; 0: it is not known yet

  friend bool operator==(const EpochCheckpoint&, const EpochCheckpoint&) = default;
};

/// The checkpoints of a job.
struct CheckpointsState {
  uint64_t next = 1;                 // the number of the next one
  std::vector<KeptCheckpoint> kept;  // those that exist, oldest first
  uint64_t committed = 0;            // by this run
  uint64_t failed = 0;
  uint64_t skipped = 0;
  uint64_t shards_restored = 0;  // after the loss of a server
  uint64_t steps_undone = 0;     // counted, and lost with servers, alone or all together
  uint64_t rollbacks = 0;        // of all servers together
  uint64_t samples_undone = 0;   // of the undone steps
  double seconds_undone = 0;     // of training, by rollbacks
  uint64_t damaged = 0;          // that could not be restored and were given up
  std::string damage;            // of the newest of them: what is broken
  Duration newest_at{};          // age of the job when the newest by this run was opened; 0: none
  // A server is lost, and all of them go back to the newest checkpoint: the state of the job that
  // belongs to it is being read.
  bool is_going_back = false;
  // checkpoint.best: begun with the evaluation of their epoch, whose result is not there yet.
  std::vector<EpochCheckpoint> candidates;
  std::vector<EpochCheckpoint> best;  // best first
  bool is_best_taken = false;         // the shards have the values of the best one

  /// None: all zeros.
  KeptCheckpoint newest() const { return kept.empty() ? KeptCheckpoint() : kept.back(); }
};

struct JobCounters {
  uint64_t steps_counted = 0;
  uint64_t steps_lost = 0;
  uint64_t steps_partial = 0;
  uint64_t samples_rejected = 0;
  uint64_t revocations_noticed = 0;
  uint64_t revocations_unnoticed = 0;
  uint64_t joins = 0;
};

/// The data of the run: that of the first worker who had read it.
struct RunData {
  DatasetFingerprint fingerprint;
  WorkerId worker;
};

/// Loss and accuracy, smoothed over the last minibatches.
struct MeterState {
  double loss = 0;
  double accuracy = 0;
  bool has_step = false;
};

/// What is still done when a job's training is over, or was ended, before it leaves.
enum class FinishStep : uint8_t {
  kNone,        // training goes on
  kSteps,       // those under way end
  kEvaluation,  // of the model as it is
  kCheckpoint,  // of it, before the best one takes its place
  kBest,        // the shards go back to the best epoch's checkpoint
  kTest,        // evaluation of the model that is left
  kDone,
};

struct FinishRecord {
  FinishStep step = FinishStep::kNone;
  bool is_early =
      false;        // train.stop_early ended it; else a stop was asked for, or all was trained
  std::string why;  // it was ended; empty: all was trained

  friend bool operator==(const FinishRecord&, const FinishRecord&) = default;
};

/// The model that a job leaves when its training is over.
struct ModelRecord {
  bool is_due = false;  // kLeaving: it is being read from the shards, which are not told yet
  std::string file;     // where it was left; empty: not yet, or not at all
  std::string problem;  // why there is none
};

/// Bytes between workers and servers that had a price, and what they have cost.
struct TrafficRecord {
  uint64_t pushed_bytes = 0;
  uint64_t pulled_bytes = 0;
  double usd = 0;

  friend bool operator==(const TrafficRecord&, const TrafficRecord&) = default;
};

/// All of it.
struct JobState {
  std::string config_json;  // PrintJobConfig of the job that this is the state of

  JobPhase phase = JobPhase::kStarting;
  Status outcome;
  std::string stop_reason;
  std::string leave_reason;
  bool is_told_shards = false;  // kLeaving: shards are told to leave, too
  uint32_t restarts = 0;        // of the coordinator

  Placement placement;
  std::vector<ShardRecord> shards;  // by ShardId
  MembershipState membership;
  SeatsState seats;
  LedgerState ledger;
  EvaluationsState evaluations;
  uint32_t epochs_finished = 0;  // counted in full, and their evaluation begun
  RoundsState rounds;
  uint32_t faults_fired = 0;
  std::map<WorkerId, KillRecord> kills;
  std::map<uint32_t, HandoverRecord> handovers;  // by server
  std::optional<RunData> data;
  uint32_t frozen_crc = 0;  // of the tensors that worker.program keeps; 0: none, or not known
  MeterState meter;
  JobCounters counters;
  LaunchId last_launch;
  ModelRecord model;
  CheckpointsState checkpoints;
  std::vector<uint32_t> wanted;  // workers of each group of the config
  ServersState servers;
  PauseRecord pause;
  ModesState modes;
  ParkRecord park;
  std::vector<PlaceRecord> places;  // sorted by type and zone
  PolicyRecord policy;
  EventsState events;
  std::optional<StepsState> steps;  // none: as the config says; in states of older programs
  FinishRecord finish;
  TrafficRecord traffic;

  Duration age{};                   // since the job was started
  Duration clock{};                 // TimeSource::Now() then, on this machine; 0: not known
  std::optional<Duration> trained;  // since the first lease; none: no lease yet
  bool is_trained = false;          // `trained` grows no more
  double usd = 0;                   // for the machines, so far
};

inline constexpr uint32_t kJobStateVersion = 17;

/// The state as bytes: a checksum over a FlatBuffer.
std::vector<std::byte> EncodeJobState(const JobState& state);

/// The opposite, for any bytes: reads nothing outside them and takes memory in proportion to them.
/// What the values mean together is for the coordinator to check. Errors: kCorruption (damaged),
/// kUnsupported (of another version).
Result<JobState> DecodeJobState(std::span<const std::byte> bytes);

}  // namespace ps::proto
