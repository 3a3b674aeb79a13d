#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/random.h"
#include "ps/base/tensor_spec.h"
#include "ps/base/time.h"
#include "ps/proto/job/job_config.h"
#include "tests/sim/network.h"

namespace ps::sim {

inline constexpr Duration kSimulatedMaxDetect = std::chrono::milliseconds(1200);
/// Where checkpoints are, in the simulated storage.
inline constexpr const char* kCheckpointPath = "checkpoints";

/// The most local steps that a change of them asks for.
inline constexpr uint32_t kSetStepsMax = 8;

/// What Outcome.log is to have.
enum class LogDetail : uint8_t { kNone, kEvents, kMessages };

/// A fault of the cores that is made on purpose, so that a test sees whether the oracle finds it.
enum class Sabotage : uint8_t {
  kNone,
  kOlderCheckpoint,    // a shard restores the one before the one that it was told
  kMissingPart,        // a shard says that it has written its part, and has not
  kMixedLives,         // a shard takes a step of an earlier life for one that was counted
  kHiddenLoss,         // the coordinator does not say what was lost
  kFirstLossAlone,     // it says so of the first loss alone
  kOtherCheckpoint,    // one shard goes back to an older checkpoint than the others
  kEarlierPush,        // shards take pushes of workers of before all went back
  kForgottenSteps,     // the coordinator goes back further than the shards
  kUndoneStep,         // it still counts steps that were undone
  kEarlierTerm,        // the third coordinator says that it is the first one
  kEarlierMode,        // shards stay in the mode that the run began with
  kModeOfOneServer,    // one shard changes its mode, and the others do not
  kOtherRound,         // shards number the rounds otherwise, from a switch to bsp on
  kForgottenAhead,     // a shard that takes chunks is not told of steps that only these have
  kStepTooMany,        // a shard takes chunks for one step further than they are
  kTakenNaN,           // shards take what is not finite for 0
  kHiddenRejection,    // the coordinator does not hear that a step was rejected
  kForgottenSlots,     // a shard that is restored begins with no optimizer state
  kForgottenClock,     // and its schedule anew; so does one that gets its first chunks
  kFleetNotSeen,       // shards take the workers that the job lists for those that take part
  kMissedLoss,         // nobody hears that a store has lost records
  kOldJournal,         // a coordinator goes on from a journal that fell behind
  kForgottenBehind,    // nobody but the mark remembers that
  kNobodyKilled,       // servers that are given up are not killed
  kSharedClock,        // it takes its predecessor's clock for its own
  kLivesNotSeen,       // it takes every step for one of the present lives of the shards
  kOlderState,         // a resumed job goes on as it was at the checkpoint before
  kUsedNumbers,        // it gives incarnations that were given
  kWholeStep,          // a worker passes off a step that it has ended early as a whole one
  kSpeaksInVain,       // a coordinator wakes before it is killed, and writes nothing down
  kDoubledResidual,    // workers add what encoding has held back twice
  kDoubledHandOver,    // and twice in the last push of one that leaves
  kDoubledDifference,  // workers add each difference twice
  kAnyBase,            // they add it to whatever they hold
  kStepsOfBefore,      // workers push by the local steps that the run began with
  kTakenWhenClosed,  // a shard that gives chunks takes the end of its connection for their arrival
  kEndlessPatience,  // workers that say nothing are never given up
};

/// What a simulated run is and what happens to it. Everything follows from it, seed included.
struct Scenario {
  uint64_t seed = 1;
  proto::Mode mode = proto::Mode::kAsync;
  uint32_t staleness_max = 2;
  bool overlap = true;
  uint32_t shards = 2;             // servers
  uint32_t shards_per_server = 1;  // which live and die together
  uint32_t workers = 3;
  uint32_t epochs = 2;
  uint64_t train_samples = 240;
  uint32_t chunk_kib = 1;  // more than a frame travels in parts
  uint32_t frame_kib = 1;
  uint32_t model_kib = 0;        // on top of the small tensors; a queue is of 1 MiB
  bool has_values = false;       // the coordinator has the initial values
  bool is_rounded = false;       // gradients travel as bf16, which has the oracle's exactly
  bool is_encoded = false;       // as int4, which has them, too
  bool is_held_back = false;     // as topk, of which the oracle knows what each step brings
  uint32_t difference_bits = 0;  // 8, 4: of pulls as differences; 0: they are f32
  uint32_t held_kib = 0;         // room of a shard for what workers hold; 0: enough
  uint32_t optimizer = 0;       // 0: sgd, 1: with momentum, 2: with Nesterov's, 3: adam, 4: adagrad
  bool has_schedule = false;    // the learning rate falls with every sample
  bool is_listed = false;       // and with each worker above `workers`; momentum follows them
  uint32_t local_steps = 1;     // minibatches of a step; optimizer is the outer one, 3: heloco
  bool has_bf16_slots = false;  // the optimizer's, in checkpoints
  uint32_t not_finite_every = 0;  // of so many steps one has NaN in some chunks; 0: none
  NetworkFaults network;

  // Faults, at random times within disturbed_for unless said otherwise.
  uint32_t kills = 0;             // without notice
  uint32_t kills_at_message = 0;  // in the act of sending or receiving a random message
  uint32_t multi_kills = 0;       // instants at which a random number of workers dies together
  uint32_t notices = 0;
  uint32_t partitions = 0;       // between random nodes, shorter or longer than max_detect
  uint32_t one_way_cuts = 0;     // from or to a worker: the other direction stays
  uint32_t hangs = 0;            // a worker is cut off from everybody, then comes back
  uint32_t pauses = 0;           // a process, whichever, does nothing for a while
  uint32_t faults_at_join = 0;   // a worker dies, or loses the connection, as it joins
  uint32_t faults_at_leave = 0;  // the same as it says goodbye
  uint32_t extra_joins = 0;      // workers that nobody started come without a seat
  uint32_t planned_faults = 0;   // by the job's config: add, notice, kill
  uint32_t restarts = 0;         // of the coordinator, from its journal
  uint32_t freezes = 0;          // a worker does nothing any more, for ever
  uint32_t journal_faults = 0;   // its disk is full for a while; in half of them a restart, too
  Duration clock_skew{};         // of processes: the most that one's clock is ahead of another's
  uint32_t stops = 0;            // `psctl stop`, now and then twice, at once or not
  // The run ends with all its processes, and is resumed from its newest checkpoint, as it is when
  // it ends otherwise before it is done; with checkpoints only.
  uint32_t resumes = 0;
  // The coordinator stands still until somebody kills it; its supervisor starts no other one
  // before.
  uint32_t coordinator_freezes = 0;

  // Checkpoints, and what becomes of servers.
  Duration checkpoint_every{};  // zero: none
  uint32_t checkpoint_keep = 2;
  bool is_consistent = false;  // async, ssp: when one server is lost, all go back, as in bsp
  bool is_compressed = false;  // chunks of checkpoints
  Duration disk_delay_max = std::chrono::milliseconds(5);  // of each thing that it does
  Duration server_detect{};                                // zero: ten times max_detect
  uint32_t server_kills = 0;                               // at any time
  uint32_t server_kills_at_checkpoint = 0;                 // while it is under way
  uint32_t server_kills_at_restore = 0;                    // of one that is coming back
  uint32_t server_stalls = 0;                              // for longer than server_detect
  uint32_t faults_at_return = 0;                           // of any kind, while all go back
  uint32_t disk_faults = 0;                                // a disk, whichever, is full for a while
  uint32_t server_multi_kills = 0;                         // instants at which several die
  uint32_t server_kills_with_coordinator = 0;              // both die in one instant
  uint32_t server_kills_with_damage = 0;                   // and a bit on the disk is another one
  uint32_t server_notices = 0;       // by a person, which leave the time to hand over
  uint32_t server_revocations = 0;   // notices by their machines, whether or not these go then
  uint32_t server_freezes = 0;       // it does nothing any more, for ever
  uint32_t store_losses = 0;         // a store loses what is not flushed, and can't be opened soon
  uint32_t server_cuts = 0;          // of one from the coordinator or another server
  uint32_t server_one_way_cuts = 0;  // the same in one direction

  // The fleet that is wanted.
  bool is_replacing = false;   // the coordinator replaces workers, not the launcher
  uint32_t scales = 0;         // of the fleet, up, down, or by one worker; is_replacing only
  bool has_few_seats = false;  // one more than workers
  uint32_t server_scales = 0;  // `psctl scale servers=N`; with checkpoints only
  uint32_t mode_switches = 0;  // `psctl mode`, to whichever
  uint32_t sets = 0;           // `psctl set`, of what steps have
  bool sets_pulls = false;     // of what pulls bring, too
  uint32_t job_pauses = 0;     // `psctl pause`, and `psctl continue` a while later
  // Instants of several of these: modes, servers, a pause; the coordinator ends in half of them.
  uint32_t joint_changes = 0;
  uint32_t scales_to_none = 0;  // no worker is wanted, the coordinator ends, and all are again
  uint32_t chunk_moves = 0;     // `psctl move`, of a tensor's chunks; with checkpoints only
  uint32_t kills_at_move = 0;   // of giver, taker or coordinator, in the act of moving chunks
  Duration park_after{};        // without a worker servers are ended; zero: they stay
  // bsp: who straggles sits out of the rounds, or the job is async meanwhile (train.mode_policy).
  bool sits_out = false;
  bool is_greedy = false;
  uint32_t straggles = 0;  // workers whose steps take longer for a while

  // What RandomScenario does not draw: tests of their own have these.
  uint32_t failed_start_every = 0;    // of so many starts of workers one never runs; is_replacing
  uint32_t doubled_starts = 0;        // of workers: the first ones are of two processes each
  uint32_t disasters = 0;             // instants at which all workers and a server die
  uint32_t scales_at_checkpoint = 0;  // of workers and of servers, while it is under way
  uint32_t late_notices = 0;          // of workers that have just died
  uint32_t several_notices = 0;       // instants at which a random number of workers gets one each
  uint32_t zones = 0;                 // that workers are started in, by name; is_replacing
  uint32_t zones_out = 0;             // of these: all their machines go at one instant
  Duration zones_out_for{};           // then they have machines again
  Duration disturbed_for = std::chrono::seconds(4);

  /// Nothing happens by which a worker might be lost: some come, messages are late or repeated,
  /// and connections break.
  bool is_gentle() const {
    return network.loss == 0 && kills == 0 && kills_at_message == 0 && multi_kills == 0 &&
           notices == 0 && partitions == 0 && one_way_cuts == 0 && hangs == 0 && pauses == 0 &&
           freezes == 0 && faults_at_join == 0 && faults_at_leave == 0 && planned_faults == 0 &&
           stops == 0 && doubled_starts == 0 && late_notices == 0 && several_notices == 0 &&
           zones_out == 0 && resumes == 0 && coordinator_freezes == 0 && !may_lose_servers();
  }

  /// Pulls may bring something else than the parameters.
  bool has_inexact_pulls() const { return difference_bits > 0 || (sets > 0 && sets_pulls); }

  /// In async and ssp the uses of the outer momentum follow the workers that are there.
  bool has_live_every() const {
    return is_listed && local_steps > 1 && optimizer == 2 && mode != proto::Mode::kBsp;
  }

  bool has_checkpoints() const { return checkpoint_every > Duration::zero(); }

  /// All servers together, whenever one is lost: in no mode that the run may get into, one alone.
  bool goes_back() const { return is_consistent || (mode == proto::Mode::kBsp && !changes_mode()); }

  bool changes_mode() const {
    return mode_switches > 0 || joint_changes > 0 || sits_out || is_greedy;
  }

  bool may_lose_servers() const {
    return server_kills > 0 || server_kills_at_checkpoint > 0 || server_kills_at_restore > 0 ||
           server_stalls > 0 || server_multi_kills > 0 || server_kills_with_coordinator > 0 ||
           server_kills_with_damage > 0 || disasters > 0 || server_notices > 0 ||
           server_revocations > 0 || kills_at_move > 0 || server_cuts > 0 ||
           server_one_way_cuts > 0 || server_freezes > 0;
  }

  LogDetail log_detail = LogDetail::kEvents;
  Sabotage sabotage = Sabotage::kNone;
  Duration time_limit = std::chrono::seconds(600);  // virtual
};

/// Calls `visit(name, value)` for each field that says what happens, the network's included.
template <typename S, typename Visit>
void ForEachField(S& s, const Visit& visit) {
  visit("seed", s.seed);
  visit("mode", s.mode);
  visit("staleness_max", s.staleness_max);
  visit("overlap", s.overlap);
  visit("shards", s.shards);
  visit("shards_per_server", s.shards_per_server);
  visit("workers", s.workers);
  visit("epochs", s.epochs);
  visit("train_samples", s.train_samples);
  visit("chunk_kib", s.chunk_kib);
  visit("frame_kib", s.frame_kib);
  visit("model_kib", s.model_kib);
  visit("has_values", s.has_values);
  visit("is_rounded", s.is_rounded);
  visit("is_encoded", s.is_encoded);
  visit("is_held_back", s.is_held_back);
  visit("difference_bits", s.difference_bits);
  visit("held_kib", s.held_kib);
  visit("optimizer", s.optimizer);
  visit("has_schedule", s.has_schedule);
  visit("is_listed", s.is_listed);
  visit("local_steps", s.local_steps);
  visit("has_bf16_slots", s.has_bf16_slots);
  visit("not_finite_every", s.not_finite_every);
  visit("network.loss", s.network.loss);
  visit("network.duplication", s.network.duplication);
  visit("network.reorder", s.network.reorder);
  visit("network.stall", s.network.stall);
  visit("network.stall_max", s.network.stall_max);
  visit("network.break_connection", s.network.break_connection);
  visit("kills", s.kills);
  visit("kills_at_message", s.kills_at_message);
  visit("multi_kills", s.multi_kills);
  visit("notices", s.notices);
  visit("partitions", s.partitions);
  visit("one_way_cuts", s.one_way_cuts);
  visit("hangs", s.hangs);
  visit("pauses", s.pauses);
  visit("faults_at_join", s.faults_at_join);
  visit("faults_at_leave", s.faults_at_leave);
  visit("extra_joins", s.extra_joins);
  visit("planned_faults", s.planned_faults);
  visit("restarts", s.restarts);
  visit("freezes", s.freezes);
  visit("journal_faults", s.journal_faults);
  visit("clock_skew", s.clock_skew);
  visit("stops", s.stops);
  visit("resumes", s.resumes);
  visit("coordinator_freezes", s.coordinator_freezes);
  visit("checkpoint_every", s.checkpoint_every);
  visit("checkpoint_keep", s.checkpoint_keep);
  visit("is_consistent", s.is_consistent);
  visit("is_compressed", s.is_compressed);
  visit("disk_delay_max", s.disk_delay_max);
  visit("server_detect", s.server_detect);
  visit("server_kills", s.server_kills);
  visit("server_kills_at_checkpoint", s.server_kills_at_checkpoint);
  visit("server_kills_at_restore", s.server_kills_at_restore);
  visit("server_stalls", s.server_stalls);
  visit("faults_at_return", s.faults_at_return);
  visit("disk_faults", s.disk_faults);
  visit("server_multi_kills", s.server_multi_kills);
  visit("server_kills_with_coordinator", s.server_kills_with_coordinator);
  visit("server_kills_with_damage", s.server_kills_with_damage);
  visit("server_notices", s.server_notices);
  visit("server_revocations", s.server_revocations);
  visit("server_freezes", s.server_freezes);
  visit("store_losses", s.store_losses);
  visit("server_cuts", s.server_cuts);
  visit("server_one_way_cuts", s.server_one_way_cuts);
  visit("is_replacing", s.is_replacing);
  visit("scales", s.scales);
  visit("has_few_seats", s.has_few_seats);
  visit("server_scales", s.server_scales);
  visit("mode_switches", s.mode_switches);
  visit("sets", s.sets);
  visit("sets_pulls", s.sets_pulls);
  visit("job_pauses", s.job_pauses);
  visit("joint_changes", s.joint_changes);
  visit("scales_to_none", s.scales_to_none);
  visit("chunk_moves", s.chunk_moves);
  visit("kills_at_move", s.kills_at_move);
  visit("sits_out", s.sits_out);
  visit("is_greedy", s.is_greedy);
  visit("straggles", s.straggles);
  visit("park_after", s.park_after);
  visit("failed_start_every", s.failed_start_every);
  visit("doubled_starts", s.doubled_starts);
  visit("disasters", s.disasters);
  visit("scales_at_checkpoint", s.scales_at_checkpoint);
  visit("late_notices", s.late_notices);
  visit("several_notices", s.several_notices);
  visit("zones", s.zones);
  visit("zones_out", s.zones_out);
  visit("zones_out_for", s.zones_out_for);
  visit("disturbed_for", s.disturbed_for);
}

/// The fields that differ from their defaults, as C++ that sets them: "s.seed = 7; s.kills = 2;".
/// Doubles have all their digits, so the text repeats the run.
std::string Describe(const Scenario& scenario);

/// What all scenarios of a campaign have.
enum class Only : uint8_t {
  kAny,
  kMoves,        // many moves of chunks, in a third of them to servers with hardly any room (bsp)
  kResumes,      // runs that are resumed
  kFrozen,       // coordinators that stand still
  kLocal,        // steps of several minibatches, some of which end early
  kDifferences,  // pulls as differences to what workers hold, with chunks that move
};

/// A scenario drawn from the seed: any mode, any mix of faults.
Scenario RandomScenario(uint64_t seed, Only only = Only::kAny);

/// What somebody changes with `psctl set` while the scenario trains, in the order of its keys.
std::vector<proto::ConfigOverride> DrawSettings(const Scenario& scenario, Random* random);

/// The job that a scenario trains: small integer values.
proto::JobConfig SimulatedJob(const Scenario& scenario);
/// Its model.
std::vector<TensorSpec> SimulatedTensors(const Scenario& scenario);
/// The names of the first `count` zones.
std::vector<std::string> SimulatedZones(uint32_t count);
/// By how much the clock of a process is ahead; `number`: any of its own.
Duration ClockAheadOf(const Scenario& scenario, uint64_t number);
/// The initial value of an element of it.
float SimulatedValue(const Scenario& scenario, uint32_t tensor, int64_t element);

}  // namespace ps::sim
