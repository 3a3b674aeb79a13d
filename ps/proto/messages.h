#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"
#include "ps/codec/encoding.h"
#include "ps/proto/event.h"
#include "ps/proto/exchange.h"
#include "ps/proto/fleet_messages.h"
#include "ps/proto/frame.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/lease_messages.h"
#include "ps/proto/metric.h"
#include "ps/proto/mode_messages.h"
#include "ps/proto/move_messages.h"
#include "ps/proto/states.h"

namespace ps::proto {

// Every message of the protocol as a plain value. messages.fbs is the wire form of each; the flow
// is told in PROTOCOL.md. Times are durations, never points in time: processes share no clock.

enum class Role : uint8_t { kWorker = 0, kShard = 1, kControl = 2 };

// ---- Any connection ---------------------------------------------------------------------------

/// First frame from whoever connects.
struct Hello {
  Role role = Role::kControl;
  std::string token;        // the run's secret; a stranger is refused
  std::string node;         // name for logs, e.g. "w3"
  Incarnation incarnation;  // workers that have joined; else 0
  uint64_t term = 0;        // of the newest coordinator that it has met
};

/// Accepts. A refusal is a Refusal, and then the connection is closed.
struct HelloReply {
  std::string node;
  uint64_t term = 0;  // of a coordinator
};

/// The answer to any request that can't be served. The reaction is the code's (ps/base/status.h).
struct Refusal {
  StatusCode code = StatusCode::kInvalidArgument;
  std::string message;
  uint32_t retry_after_ms = 0;  // kOverloaded, kUnavailable: not before
  Step step = 0;                // the step it is about, when it is about one
};

// ---- Worker and shard -------------------------------------------------------------------------

struct ChunkVersion {
  ChunkKey key;
  Version version = 0;
};

/// Some chunks of one step's gradient. A step on a shard is `chunk_count` chunks, in as many frames
/// as the client likes, in any order; each is applied (async, ssp) or staged (bsp) when all of it
/// has come. The shard answers once, with PushReply, when all are in. Sent again after a lost
/// connection or a timeout: what is there already is not applied twice. Chunks that have moved away
/// since `placement` are left out without a word, and those that have come are waited for.
/// Payload: mean gradients over `samples`, chunks or parts back to back, each encoded by itself,
/// all in one encoding.
struct PushRequest {
  WorkerId worker;
  Incarnation incarnation;
  Step step = 0;  // previous step of this incarnation + 1
  LeaseId lease;
  uint64_t round = 0;        // bsp: the round this contributes to; else 0
  uint32_t samples = 0;      // behind the gradient, > 0
  uint32_t chunk_count = 0;  // chunks of this step on this shard, over all frames
  std::vector<ChunkRef> chunks;
  bool wants_pull = false;  // fused: once complete (bsp: once committed), PullReply frames follow
  std::vector<ChunkVersion> held;  // with wants_pull, as in PullRequest
  uint64_t held_life = 0;
  uint64_t placement = 0;  // the newest that the worker knows
  Encoding encoding;
  uint32_t local_steps = 1;  // of the job, when it was leased: the learning rate is for so many
  Encoding pull_encoding;    // with wants_pull, as in PullRequest
  Payload payload;
};

enum class PushOutcome : uint8_t {
  kApplied = 0,
  kStaged = 1,    // bsp: applied by CommitRound
  kRejected = 2,  // NaN or infinity in some chunks: those were left out; bsp: nothing is used
};

struct PushReply {
  Step step = 0;
  PushOutcome outcome = PushOutcome::kApplied;
  uint32_t rejected_chunks = 0;
  uint64_t life = 0;  // of the shard, which has the step in it
  // The placement in which the shard got or gave chunks last: it has the step in those that it has
  // then.
  uint64_t placement = 0;
};

/// Asks for the chunks of this shard that are newer than what the worker holds. ssp: answered when
/// the bound allows; bsp: when round `min_round` is committed. One outstanding per incarnation; a
/// newer one replaces it.
///
/// Between coordinator and shard, of no worker and no incarnation: the coordinator reads the model
/// at the end, between commits; a shard that is set up reads its initial values. `held` are the
/// chunks that need not come (again), whatever their version.
struct PullRequest {
  WorkerId worker;
  Incarnation incarnation;
  uint64_t min_round = 0;          // bsp; else 0
  bool is_evaluation = false;      // not held back by the staleness bound
  std::vector<ChunkVersion> held;  // chunks not listed are sent whatever their version
  uint64_t held_life = 0;          // the shard's life that they are of; of another: all are sent
  uint64_t placement = 0;          // as in PushRequest; chunks that have moved away are left out
  Encoding encoding;               // that the values are to have, but for an evaluation: f32
};

/// Values of some chunks; several frames may answer one pull. The request id is the pull's
/// (or the fused push's). Payload: values, chunks or parts back to back, each encoded by itself,
/// all in one encoding: that of the pull, or f32. Where a pull asks for int8 or int4, frames so
/// encoded have differences, to what the frame `base` has brought of that part, and all others have
/// values, f32 or bf16. A difference whose base is not what the worker holds is not used: it asks
/// anew, without the chunk in `held`, and gets its value.
struct PullReply {
  struct Chunk {
    ChunkKey key;
    Version version = 0;
    uint32_t element_count = 0;
    uint32_t element_begin = 0;
    uint64_t base = 0;  // the number of an earlier frame; 0: it is a value
  };

  std::vector<Chunk> chunks;  // parts of one chunk may be of several versions, growing
  // Chunks in all frames of this answer, the same in each: it is complete when that many have come,
  // in whatever order. 0 in the single empty frame of a worker that holds everything.
  uint32_t chunk_total = 0;
  uint64_t staleness_steps = 0;  // this worker's lead over the slowest active one
  uint64_t life = 0;             // the shard's, that the versions are of
  uint64_t placement = 0;        // as in PushReply
  Encoding encoding;
  // This frame's, among those of the incarnation in the shard's life, growing; 0 where no frame
  // has differences.
  uint64_t number = 0;
  Payload payload;
};

// ---- Shard and coordinator --------------------------------------------------------------------

/// Which process it is. `launch` says which start; host and pid tell two processes apart that have
/// none, or that a launcher has made of one start.
struct ProcessId {
  LaunchId launch;
  std::string host;
  int64_t pid = 0;

  /// Else nobody can say whether it is another one.
  bool is_known() const { return launch != LaunchId() || pid != 0; }

  friend auto operator<=>(const ProcessId&, const ProcessId&) = default;
};

/// A shard's first message to the coordinator after Hello.
struct RegisterShard {
  ShardId shard;
  std::string host;  // where workers reach it
  uint32_t port = 0;
  int64_t pid = 0;
  uint64_t life = 0;  // 0: it has no parameters
  LaunchId launch;    // none: it was started by hand

  ProcessId process() const { return {launch, host, pid}; }
};

struct ChunkAssignment {
  ChunkKey key;
  uint32_t element_count = 0;
  int64_t element_begin = 0;  // within its tensor
  ShardId shard;
};

/// Which shard owns which chunk. `version` grows when chunks move.
struct Placement {
  uint64_t version = 0;
  std::vector<ChunkAssignment> chunks;  // ordered by key
};

struct Member {
  WorkerId worker;
  Incarnation incarnation;
  bool is_active = true;  // has work; an inactive one holds no staleness bound
};

/// Who takes part: all of it, or what has changed since generation `base`, which the shard has
/// acknowledged. Any incarnation that is no member and not newer than `incarnation_max` is fenced:
/// its pushes are refused with kStale from now on. Sent again until acknowledged.
struct Membership {
  Generation generation;
  Generation base;              // 0: `members` are all
  Incarnation incarnation_max;  // newest ever granted
  std::vector<Member> members;  // with a base: who joined, or became active or inactive
  // Fenced ones whose last complete step is asked for; with a base: those fenced since.
  std::vector<Incarnation> resolve;
  std::vector<Incarnation> forgotten;  // with a base: nobody asks for these any more
  ModeChoice mode;                     // in force from this generation on
  uint64_t round = 0;                  // the last that was committed before
};

/// Said of a shard without chunks: it has all steps, as there is nothing of them to have.
inline constexpr Step kEveryStep = UINT64_MAX;

/// For each of Membership.resolve: its last step that is complete on this shard, 0 if none. The
/// answer can't change any more. A shard forgets an incarnation once a Membership of all neither
/// lists nor resolves it, or one of changes says so.
struct MembershipAck {
  struct Resolved {
    Incarnation incarnation;
    Step last_complete_step = 0;
    PushOutcome outcome = PushOutcome::kApplied;  // of that step
  };

  ShardId shard;
  Generation generation;  // the newest that the shard has
  std::vector<Resolved> resolved;
};

/// A checkpoint to begin from, as `shards` shards wrote it.
struct RestoreOrder {
  uint64_t checkpoint = 0;  // 0: none, the values are the initial ones
  uint32_t shards = 0;
};

/// The last step of an incarnation that counts.
struct CountedStep {
  Incarnation incarnation;
  Step step = 0;
};

/// Answer to RegisterShard: everything a shard needs. It initialises or restores its chunks and
/// answers ShardReady. A life that is newer than the shard's own begins with it; within a life only
/// the membership is new.
struct ShardSetup {
  std::string config_json;  // PrintJobConfig of the resolved config
  std::vector<TensorSpec> tensors;
  Placement placement;         // all chunks; a shard takes its own
  uint64_t total_samples = 0;  // of the whole job: the schedule's length
  Membership membership;
  // The coordinator has the initial values: the shard pulls them before it answers. Else they
  // follow from tensors and seed.
  bool has_values = false;
  uint64_t life = 1;  // of a shard's parameters: grows when it begins from older ones
  RestoreOrder restore;
  std::vector<CountedStep> counted;  // of members in an earlier life: their next steps are later
};

struct ShardReady {
  ShardId shard;
  uint64_t life = 0;
};

/// bsp: apply these staged contributions, weighted by samples and summed in this order, drop the
/// rest of the round, then let pulls that wait for `round` go. Sent again until acknowledged.
struct CommitRound {
  struct Contribution {
    WorkerId worker;
    Incarnation incarnation;
    Step step = 0;
    uint32_t samples = 0;
  };

  uint64_t round = 0;
  std::vector<Contribution> contributions;
  uint32_t local_steps = 1;  // minibatches behind what each has observed
};

struct CommitAck {
  ShardId shard;
  uint64_t round = 0;
};

/// Write down what you have as checkpoint `checkpoint`, as it is now; in bsp as it is when round
/// `round` is committed, and before any later one. Training goes on meanwhile. Sent again until
/// there is a report.
struct CheckpointRequest {
  uint64_t checkpoint = 0;
  uint64_t round = 0;          // bsp; else 0
  std::vector<uint64_t> kept;  // earlier checkpoints that can still be asked for
};

/// How much of a checkpoint was written, by one shard or by all.
struct CheckpointSizes {
  uint64_t logical_bytes = 0;  // values and optimizer state
  uint64_t written_bytes = 0;  // records of chunks
  uint64_t shared_bytes = 0;   // of the records that earlier checkpoints have, too
  uint64_t chunks_written = 0;
  uint64_t chunks_shared = 0;  // with an earlier checkpoint: not changed since
  uint64_t copied_bytes = 0;   // of memory at most, for chunks that changed meanwhile
};

/// The shard's part of the checkpoint is on its disk, or why not.
struct CheckpointReport {
  ShardId shard;
  uint64_t checkpoint = 0;
  StatusCode code = StatusCode::kOk;
  std::string message;
  uint32_t part_crc = 0;  // CRC-32C of the part's record
  uint64_t part_bytes = 0;
  std::string directory;  // of the part, in the checkpoint path; empty: the usual one
  CheckpointSizes sizes;
};

/// The checkpoint that the set-up of this life names can't be restored here, or not in full. The
/// shard waits for the set-up of a newer life.
struct RestoreFailed {
  ShardId shard;
  uint64_t life = 0;
  uint64_t checkpoint = 0;
  StatusCode code = StatusCode::kCorruption;
  std::string message;  // what is broken
};

/// Somebody waits for somebody: what `psctl why` prints.
struct Wait {
  std::string who;        // "w2"
  std::string for_whom;   // "w0 (clock 11), w3 (clock 12)"
  std::string what;       // "staleness bound 3 at shard 1"
  double since_s = 0;     // for how long already
  Generation generation;  // the membership in force when the wait began
};

struct WorkerAtShard {
  WorkerId worker;
  Incarnation incarnation;
  uint64_t clock = 0;  // steps completed here, as the staleness bound counts them
  Step last_step = 0;
  // Steps of all that the parameters had got between its read of them and its push; smoothed.
  float staleness = 0;
};

/// Counters since the shard started.
struct ShardStats {
  uint64_t chunk_count = 0;
  uint64_t parameter_bytes = 0;
  uint64_t steps_applied = 0;
  uint64_t samples_applied = 0;
  uint64_t chunks_applied = 0;
  uint64_t chunks_duplicate = 0;  // pushed again and acknowledged, not applied
  uint64_t chunks_rejected = 0;   // NaN or infinity
  // Left out although the gradient was finite: parameters or state would not have been.
  uint64_t chunks_overflowed = 0;
  uint64_t pushes_fenced = 0;   // refused as kStale
  uint64_t bytes_received = 0;  // payload
  uint64_t bytes_sent = 0;
  uint64_t staged_bytes = 0;  // bsp, now
  uint64_t held_bytes = 0;    // of what workers hold, for differences, now
  uint64_t round = 0;         // bsp: last committed
  double lr = 0;              // now
  std::vector<uint64_t>
      staleness_histogram;  // pulls answered at a lead of i steps; last = that or more
  std::vector<WorkerAtShard> workers;
};

struct ShardHeartbeat {
  ShardId shard;
  ShardStats stats;
  std::vector<Wait> waits;
};

// ---- Worker and coordinator -------------------------------------------------------------------

struct JoinRequest {
  WorkerId seat;          // asked for by the launcher, or held before
  bool has_seat = false;  // false: any free one
  std::string host;
  int64_t pid = 0;
  uint32_t minibatch = 0;  // 0 = the config's for this seat
  float slowdown = 0;      // 0 = the config's for this seat
  // It was a member before and was fenced: it wants its seat back, and displaces nobody for it.
  bool is_returning = false;
  LaunchId launch;  // none: it was started by hand

  ProcessId process() const { return {launch, host, pid}; }
};

/// Sent once every shard knows the new incarnation.
struct JoinReply {
  WorkerId worker;
  Incarnation incarnation;
  Generation generation;
  std::string config_json;  // PrintJobConfig of the resolved config
  std::vector<ShardAddress> shards;
  Placement placement;
  uint32_t minibatch = 0;
  float slowdown = 1;
  uint32_t threads = 1;
  std::string device;               // as in the config
  std::vector<TensorSpec> tensors;  // of a job with worker.program, whose config has no model
};

/// What WorkerStats::wait_s was for, in seconds, each in its time alone; and what is held back.
struct WorkerTimes {
  double push_s = 0;      // gradients travel
  double pull_s = 0;      // parameters travel
  double others_s = 0;    // ssp, bsp: the slowest workers are waited for
  double lease_s = 0;     // the coordinator has no work, or is slow
  double evaluate_s = 0;  // arithmetic of evaluations; part of neither compute_s nor wait_s
  /// Norm of what error feedback holds back after the newest step, as a share of the norm of that
  /// step's gradient; 0: nothing is held back.
  double held_back = 0;

  friend bool operator==(const WorkerTimes&, const WorkerTimes&) = default;
};

struct WorkerStats {
  uint64_t steps = 0;
  uint64_t samples = 0;
  double samples_per_s = 0;   // over the last seconds
  double compute_s = 0;       // totals
  double wait_s = 0;          // between two computations: pulls, pushes, leases, threads
  uint64_t bytes_pushed = 0;  // payload
  uint64_t bytes_pulled = 0;
  uint64_t retries = 0;
  uint64_t steps_dropped = 0;  // computed, not pushed in time on a notice
  // Begun without what the own step before the last had made of the parameters, since its pull was
  // not answered yet; all of them without overlap.
  uint64_t steps_late = 0;
  WorkerTimes times;
};

/// What a worker's program tells of its training besides the loss: "accuracy", "perplexity".
struct Figure {
  std::string name;
  double value = 0;

  friend bool operator==(const Figure&, const Figure&) = default;
};

enum class WorkerState : uint8_t { kJoining = 0, kComputing = 1, kWaiting = 2, kDraining = 3 };

struct WorkerHeartbeat {
  Incarnation incarnation;
  WorkerState state = WorkerState::kJoining;
  WorkerStats stats;
  std::vector<Wait> waits;
  uint64_t placement = 0;    // the newest that it knows
  bool is_at_risk = false;   // its provider advises to move: the machine may go soon
  uint64_t minibatches = 0;  // computed in local steps, those of the step under way included
  std::vector<Figure> figures;
  std::string ignored;  // what its provider announces and it takes for no notice, with the reason
};

/// Answer to both heartbeats.
struct HeartbeatReply {
  Generation generation;
};

/// The worker leaves of its own will (notice, end of job). Answered by GoodbyeReply when its steps
/// are resolved; the rest of its lease is back in the queue then.
struct Goodbye {
  Incarnation incarnation;
  std::string reason;
  WorkerStats stats;
};

struct GoodbyeReply {
  Incarnation incarnation;
};

/// Coordinator to worker: a notice has come, be gone in time.
struct Drain {
  std::string reason;
  uint32_t grace_ms = 0;
};

/// Coordinator to worker or shard: the job is over, leave.
struct Shutdown {
  std::string reason;
};

// ---- Control ----------------------------------------------------------------------------------

struct WorkerRow {
  WorkerId worker;
  Incarnation incarnation;
  WorkerRowState state = WorkerRowState::kStarting;
  std::string host;
  int64_t pid = 0;
  uint32_t minibatch = 0;
  float slowdown = 1;
  WorkerStats stats;
  LeaseId lease;
  uint64_t clock = 0;
  float staleness = 0;           // as WorkerAtShard, at the shard where it is highest
  double silent_s = 0;           // since the last heartbeat
  uint64_t samples_counted = 0;  // by the ledger
  std::string reason;            // why it takes part no more, or sits out of the rounds
  std::string device;            // as the job asks for it, until the worker has said its own
  std::string type;              // of machine, as the config names it
  double usd_per_hour = 0;       // of its machine
  double age_s = 0;              // since its process joined first; 0: not known

  /// This incarnation takes part no more.
  bool is_gone() const { return state >= WorkerRowState::kLost; }
};

struct ShardRow {
  ShardId shard;
  std::string address;
  int64_t pid = 0;
  ShardRowState state = ShardRowState::kMissing;
  ShardStats stats;
  double received_bytes_per_s = 0;  // between its last two heartbeats
  double sent_bytes_per_s = 0;
};

struct LedgerRow {
  uint32_t epoch = 0;
  uint64_t samples_total = 0;
  uint64_t samples_counted = 0;
  uint64_t samples_leased = 0;    // out, not yet counted
  uint64_t samples_returned = 0;  // given back by lost or drained workers, so far
};

struct EvaluationRow {
  uint32_t epoch = 0;   // after this many epochs
  double accuracy = 0;  // or what JobStatus::metric says; at most 1
  double loss = 0;
  uint64_t samples = 0;
  double at_s = 0;  // since training began
};

/// The checkpoints of a run.
struct CheckpointStatus {
  bool is_on = false;
  uint64_t newest = 0;     // committed; 0: none
  double age_s = 0;        // of the newest, or since training began
  uint64_t open = 0;       // under way; 0: none
  uint64_t committed = 0;  // by this run
  uint64_t failed = 0;
  uint64_t skipped = 0;  // due while one was under way
  std::string trouble;   // why the newest attempt failed; empty once one was committed
  uint64_t shards_restored = 0;
  uint64_t steps_undone = 0;    // counted, and lost with servers, alone or all together
  CheckpointSizes sizes;        // of the newest
  uint64_t rollbacks = 0;       // of all servers together
  uint64_t samples_undone = 0;  // of the undone steps
  double seconds_undone = 0;    // of training, by rollbacks
  uint64_t damaged = 0;         // checkpoints that could not be restored and were given up
  std::string damage;           // of the newest of them: what is broken
  uint64_t best = 0;            // that of the best epoch; 0: there is none
  uint32_t best_epoch = 0;
  double best_score = 0;
  std::string best_metric;    // what best_score is: accuracy or loss; empty: nothing decides
  bool is_best_left = false;  // the model that is left is that of best_epoch
};

/// The coordinator's journal, from which another one goes on when this one is killed.
struct JournalStatus {
  bool is_on = false;
  uint32_t restarts = 0;  // of the coordinator, from its journal
  uint64_t failures = 0;  // events whose rows could not be written at once
  std::string trouble;    // why, while it lasts: nobody could go on from the journal
};

/// What bytes between workers and servers cost by the job's `traffic`, beside its machines.
struct TrafficStatus {
  double usd = 0;
  double usd_per_hour = 0;  // over the last minutes
  uint64_t bytes = 0;       // that had a price, both ways
};

/// Copies of checkpoints in another place.
struct CopyStatus {
  std::string target;       // where they go; empty: nowhere
  uint64_t newest = 0;      // checkpoint that is there; 0: none
  uint64_t copied = 0;      // by this run
  uint64_t failed = 0;      // attempts
  uint64_t sent_bytes = 0;  // by this run
  std::string trouble;      // why the newest attempt failed; empty once one succeeded
};

/// Everything that a person or a program may want to know of a run, now.
struct JobStatus {
  std::string name;
  std::string run_directory;
  RunState state = RunState::kStarting;
  std::string detail;  // why it waits or failed
  Mode mode = Mode::kAsync;
  uint32_t epochs = 0;
  uint64_t samples_total = 0;  // of the job
  uint64_t samples_counted = 0;
  uint64_t samples_rejected = 0;
  uint64_t steps_counted = 0;
  uint64_t steps_lost = 0;     // computed or begun by lost workers and not counted
  uint64_t steps_partial = 0;  // of those, applied on some shards and not on all
  uint64_t revocations_noticed = 0;
  uint64_t revocations_unnoticed = 0;
  uint64_t joins = 0;
  double elapsed_s = 0;      // since training began
  double samples_per_s = 0;  // last seconds
  double eta_s = -1;         // -1: not known
  double train_loss = 0;     // smoothed, mean per sample
  double train_accuracy = 0;
  Generation generation;
  uint64_t round = 0;
  double max_detect_s = 0;
  std::vector<WorkerRow> workers;  // members first, then the gone ones
  std::vector<ShardRow> shards;
  std::vector<LedgerRow> ledger;  // epochs begun
  std::vector<EvaluationRow> evaluations;
  std::vector<Wait> waits;
  std::string model_file;     // where the model was left at the end; empty: not yet, or not at all
  std::string model_problem;  // why there is none
  uint32_t workers_wanted = 0;  // of all groups
  double server_max_detect_s = 0;
  CheckpointStatus checkpoints;
  JournalStatus journal;
  CopyStatus copies;
  std::vector<FleetRow> fleet;  // a row for each type of worker in the config
  ServersStatus servers;
  double usd_spent = 0;          // by the job, at the prices that the config names
  double usd_per_hour = 0;       // of the machines that are held now
  std::vector<EventRow> events;  // the last ones
  ModesStatus modes;
  bool has_diverged = false;  // training has
  StepsStatus steps;
  // What evaluations tell besides loss and metric ("test_mae"), then the means over the members of
  // what their programs tell.
  std::vector<Figure> figures;
  Metric metric = Metric::kAccuracy;  // what `accuracy` of evaluations and train_accuracy are
  // Training samples that are kept out of training: what `evaluations` are of; 0: the tests are.
  uint64_t validation_samples = 0;
  bool has_last_evaluation = false;  // the last row of `evaluations` is of the model that is left
  std::string stopped_early;         // why training ended before its last epoch; empty: it did not
  TrafficStatus traffic;
};

struct StatusRequest {};

struct StatusReply {
  JobStatus status;
};

/// Ends the run: after the steps under way, or at once.
struct StopRequest {
  bool is_immediate = false;
};

struct StopReply {};

// ---- All --------------------------------------------------------------------------------------

/// The order is the wire's MessageType (index + 1): append only.
using MessageKinds = std::variant<
    Hello,
    HelloReply,
    Refusal,
    PushRequest,
    PushReply,
    PullRequest,
    PullReply,
    RegisterShard,
    ShardSetup,
    ShardReady,
    Membership,
    MembershipAck,
    CommitRound,
    CommitAck,
    ShardHeartbeat,
    JoinRequest,
    JoinReply,
    LeaseRequest,
    LeaseGrant,
    StepReport,
    StepAck,
    EvaluateReport,
    EvaluateAck,
    WorkerHeartbeat,
    HeartbeatReply,
    Goodbye,
    GoodbyeReply,
    Drain,
    Shutdown,
    StatusRequest,
    StatusReply,
    StopRequest,
    StopReply,
    ShardAddresses,
    CheckpointRequest,
    CheckpointReport,
    NoticeRequest,
    NoticeReply,
    RestoreFailed,
    ScaleRequest,
    ScaleReply,
    PauseRequest,
    PauseReply,
    ModeRequest,
    ModeReply,
    GiveChunks,
    ChunksGiven,
    ChunksOffer,
    ChunkPart,
    ChunksTaken,
    ServerNotice,
    CutLease,
    LeaseCut,
    SetRequest,
    SetReply>;

template <typename T, typename Kinds>
inline constexpr bool kIsOneOf = false;
template <typename T, typename... Kinds>
inline constexpr bool kIsOneOf<T, std::variant<Kinds...>> = (std::is_same_v<T, Kinds> || ...);

template <typename T>
concept MessageKind = kIsOneOf<T, MessageKinds>;

/// What a connection carries. A class with members of its own, since those of a variant of 60 kinds
/// are compiled, for seconds, in every file that makes, moves or drops one.
class Message : public MessageKinds {
 public:
  Message() noexcept;
  template <MessageKind Kind>
  Message(Kind kind) noexcept;  // NOLINT(google-explicit-constructor)
  Message(const Message& other);
  Message(Message&& other) noexcept;
  Message& operator=(const Message& other);
  Message& operator=(Message&& other) noexcept;
  ~Message();
};

/// A number per message, equal to its index in Message plus one.
inline uint16_t MessageTypeOf(const Message& message) {
  return static_cast<uint16_t>(message.index() + 1);
}

inline constexpr uint16_t kMessageTypeMax =
    static_cast<uint16_t>(std::variant_size_v<MessageKinds>);

/// "PushRequest", ...; "unknown" for numbers of no message.
std::string_view MessageTypeName(uint16_t type);

/// The bytes in front of a message's payload, in one buffer: frame header, FlatBuffers part,
/// padding. The payload goes after it as it is.
struct EncodedMessage {
  std::vector<std::byte> head;
  Payload payload;
  FrameHeader header;      // as it is in `head`
  bool is_sealed = false;  // the body CRC covers the payload

  uint64_t size() const { return head.size() + payload.size(); }

  /// Takes the payload's CRC, unless that is done.
  void Seal();
};

/// Sealed, so that it can be sent.
EncodedMessage EncodeMessage(const Message& message, uint64_t request_id);

/// Leaves the payload unread, for whoever seals it just before sending: the frames in front of it
/// need not wait for its CRC, and it is read once from memory, not twice.
EncodedMessage EncodeUnsealed(const Message& message, uint64_t request_id);

/// The opposite, from a header that DecodeFrameHeader accepted. Checks the body CRC, verifies the
/// FlatBuffer, and that the payload has exactly the bytes that the message says.
/// Errors: kCorruption (CRC), kInvalidArgument (FlatBuffer or payload does not fit the type).
Result<Message> DecodeMessage(
    const FrameHeader& header, std::span<const std::byte> flatbuffer, Payload payload);

/// The same, for whoever has computed the CRC of the body (FlatBuffer, then payload) as it came in.
Result<Message> DecodeMessage(
    const FrameHeader& header,
    std::span<const std::byte> flatbuffer,
    Payload payload,
    uint32_t body_crc);

/// The status as JSON for programs, by the schema.
std::string StatusToJson(const JobStatus& status);

}  // namespace ps::proto
