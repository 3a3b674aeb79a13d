#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "ps/base/ids.h"
#include "ps/base/random.h"
#include "ps/base/tensor_spec.h"
#include "ps/client/chunk_layout.h"
#include "ps/proto/messages.h"
#include "ps/proto/state/job_state.h"
#include "tests/sim/oracle/held_back.h"
#include "tests/sim/oracle/held_copies.h"
#include "tests/sim/oracle/loss_book.h"
#include "tests/sim/oracle/optimizer_model.h"

namespace ps::sim {

/// One step as the worker that computed it saw it.
struct StepRecord {
  uint32_t epoch = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  // Of its lease; the oracle fills them in.
  proto::Mode mode = proto::Mode::kAsync;
  proto::StepSettings settings{};
};

/// The gradient of one chunk in a simulated step: small integers, so that sums in f32 are exact.
class ChunkGradient {
 public:
  ChunkGradient(ChunkKey key, uint32_t epoch, uint64_t begin)
      : base_(static_cast<uint32_t>(
            Mix64(key.value ^ (uint64_t{epoch} << 48) ^ (begin << 8)) % kValues)) {}

  float At(uint32_t element) const {
    return static_cast<float>((base_ + element * 131) % kValues) - 3.0F;
  }

 private:
  static constexpr uint32_t kValues = 7;

  uint32_t base_;
};

/// What a shard lets the oracle look at.
class ShardView {
 public:
  virtual ~ShardView() = default;
  virtual Version VersionOf(ChunkKey key) const = 0;
  virtual std::span<const float> ValuesOf(ChunkKey key) const = 0;
  virtual std::span<const float> SlotOf(ChunkKey key, size_t slot) const = 0;
  /// The schedule's clock.
  virtual uint64_t SamplesDone() const = 0;
  virtual bool HasChunk(ChunkKey key) const = 0;
  /// All of a member's step has come for the chunk.
  virtual bool HasStep(Incarnation incarnation, Step step, ChunkKey key) const = 0;
  /// Its parameters have their values.
  virtual bool IsSetUp() const = 0;
  virtual bool IsShutDown() const = 0;
  /// A round is being committed: some values are of it already, and others are not.
  virtual bool IsBetweenVersions() const = 0;
};

/// Knows from the messages alone what the parameters must be, and checks after every delivery that
/// they are just that:
/// - no push is applied twice, and none of a fenced incarnation (async, ssp);
/// - what a shard acknowledges has been applied in full, in the life that it names;
/// - values and optimizer state are what the optimizer makes of what was applied one after the
/// other
///   (async, ssp), or of the committed rounds (bsp), bit for bit, with the learning rate of a
///   schedule by the samples that the shard has had, in whatever life or place; the start of a
///   later life is what the shard had when it began the checkpoint that the life is restored from;
/// - a committed checkpoint has every step that was counted when it was opened;
/// - where all servers go back together, they begin from one checkpoint, nothing of who took part
///   before changes a parameter after, and who takes part after computes with nothing of before;
/// - a round has one gradient of everybody who computes for it (bsp);
/// - a gradient that is not finite changes nothing: its chunk is left out (async, ssp), or all of
///   the step (bsp), which counts all the same;
/// - a step is made in the mode of its lease, and what a worker computes with has been on the
/// shards,
///   in whatever life: in bsp all of it in one round, in the other modes every chunk, and of a
///   large one every part, in one version, with the worker's own steps (without overlap);
/// - where pulls are differences, that is as it was sent to this worker, difference by difference;
///   and what is sent comes as near to the parameters as its encoding says (HeldCopies);
/// - a pull that passes the staleness bound is within it, by the oracle's own clocks (ssp);
/// - a counted step that a checkpoint or, at the end, a shard lacks was reported as undone with the
///   loss of that life (LossBook);
/// and at the end that the counted steps tile every epoch: each sample exactly once; and, where all
/// servers go back, that just those steps count of before that the checkpoint counts, and that
/// every shard has them, in bsp no others. A process of a server is known by its node. A violation
/// is a text in `violations`; the first one is the one to look at.
class Oracle {
 public:
  struct Options {
    uint32_t epochs = 0;
    uint64_t train_samples = 0;
    uint64_t frame_bytes = 0;
    bool overlap = false;
    bool goes_back = false;    // all servers together, whenever one is lost
    bool is_only_bsp = false;  // no other mode is ever in force
    uint32_t shards_per_server = 1;
    uint32_t not_finite_every = 0;     // of so many steps one has NaN in some chunks; 0: none
    proto::OptimizerConfig optimizer;  // of the servers
    // async, ssp: with more workers than so many the rate falls; 0: it does not
    uint32_t workers_at_full_rate = 0;
    bool is_every_live = false;    // as OptimizerModel
    uint32_t local_steps = 1;      // minibatches of a step at most, each of one sample or more
    bool has_bf16_slots = false;   // in checkpoints
    bool holds_back = false;       // encoding may lose something of gradients
    bool has_differences = false;  // pulls are differences
    std::function<float(uint32_t tensor, int64_t element)> initial_value;
  };

  explicit Oracle(Options options)
      : options_(std::move(options)),
        optimizer_(options_.optimizer, options_.is_every_live),
        held_back_(options_.frame_bytes),
        losses_(options_.shards_per_server, &violations_) {}

  /// A process of the shard has begun. `view` outlives the oracle.
  void AddProcess(int node, ShardId shard, const ShardView* view);

  /// Whether the gradient of these samples is finite in the chunk.
  bool IsFinite(ChunkKey key, uint32_t epoch, uint64_t begin) const;

  // A worker's process.
  void OnStepStarted(Incarnation incarnation, Step step, const StepRecord& record);
  /// It was ended early, before sample `end`.
  void OnStepCut(Incarnation incarnation, Step step, uint64_t end);
  /// It is the last one of a worker that leaves, and may bring what was held back: its frames say
  /// of which chunks it does.
  void OnHandOver(Incarnation incarnation, Step step);
  void CheckParameters(
      Incarnation incarnation,
      const client::ChunkLayout& layout,
      std::span<const float> parameters);

  /// The worker gets it.
  void OnGrant(const proto::LeaseGrant& grant);

  // A server's process, by messages.
  void BeforePush(int node, const proto::PushRequest& push);
  void BeforeCommit(int node);
  void AfterPush(int node, const proto::PushRequest& push);
  void OnSetup(int node, const proto::ShardSetup& setup);
  void OnMembership(int node, const proto::Membership& membership);
  void AfterCommit(int node, const proto::CommitRound& commit);
  /// The process offers chunks, by a number of its own.
  void OnOfferSent(int node, uint64_t offer_id, const proto::ChunksOffer& offer);
  /// What the process `from` has offered comes to `node`.
  void OnOffer(int node, int from, uint64_t offer_id);
  /// After anything else than a push: chunks may have come to it, or left.
  void NoteChunks(int node);
  /// The coordinator sends the commit; `job` is its state.
  void OnCommitSent(const proto::CommitRound& commit, const proto::JobState& job);
  /// Compares every chunk, when nothing is between two versions.
  void CheckShard(int node);
  void OnPushReply(int node, Incarnation to, const proto::PushReply& reply);
  void OnPullReply(int node, Incarnation to, const proto::PullReply& reply = {});
  void OnPullRequest(int node, const proto::PullRequest& pull);

  // Its disk, and the coordinator's.
  /// The process writes down what it has now.
  void OnSnapshot(int node, uint64_t checkpoint);
  /// Its part of the checkpoint is on the disk.
  void OnPartCommitted(int node, uint64_t checkpoint);
  /// The checkpoint exists from now on. `job` is what it has of the coordinator.
  void OnManifest(const checkpoint::Manifest& manifest, const proto::JobState& job);
  /// The run is gone on with from the checkpoint, with which `saved` was saved, by other processes:
  /// what came later never was.
  void OnResume(uint64_t checkpoint, const proto::JobState& saved);
  /// A chunk as a checkpoint must have it; null: it has no such chunk.
  const ChunkState* StateAt(uint64_t checkpoint, ShardId shard, ChunkKey key) const;

  /// The coordinator has dealt with something. `undone`: what it reports as such.
  void AfterCoordinatorEvent(const proto::JobState& job, uint64_t undone) {
    losses_.AfterEvent(job, undone);
  }

  /// Of this run, if it goes on with others.
  bool has_steps() const { return has_steps_; }

  /// The run is over, or was stopped: then the epochs need not be complete.
  void CheckFinalState(const proto::JobState& job, bool is_stopped);
  /// What the run has left as its model, by tensor, is what the shards had at the end.
  void CheckModel(const std::vector<std::vector<float>>& model, bool is_stopped);

  const std::vector<std::string>& violations() const { return violations_; }

  uint64_t pushes_checked() const { return pushes_checked_; }

  /// Steps of which a frame has brought what was held back.
  uint64_t hand_overs() const { return handed_over_.size(); }

 private:
  using Values = std::shared_ptr<const ChunkState>;

  /// Of all chunks, between two rounds of bsp.
  using Versions = std::map<ChunkKey, Version>;

  /// What a shard has of the training, and a checkpoint of it.
  struct Parameters {
    std::map<ChunkKey, std::vector<Values>> history;          // by version, the newest last
    std::map<StepId, std::set<ChunkKey>> under_way;           // applied to some chunks
    std::set<StepId> complete;                                // applied to all
    std::map<std::pair<Incarnation, ChunkKey>, Version> own;  // after a worker's newest update
    uint64_t round = 0;
    uint64_t samples = 0;  // of the steps that are complete: the schedule's clock
    uint32_t moves = 0;    // of chunks, to and fro

    Versions NewestVersions() const;
  };

  /// A shard from a set-up that begins anew to the next one.
  struct Life {
    uint64_t number = 0;
    const ShardView* view = nullptr;
    Parameters parameters;
    Versions begin;                       // that it began with
    std::map<uint64_t, Versions> rounds;  // bsp: after each of them
    std::map<Incarnation, Step> counted;  // before it began
    proto::Membership membership;         // all of it, from what came
    Generation generation;
    std::set<Incarnation> members;
    std::set<Incarnation> active;
    std::map<Incarnation, uint64_t> clocks;
    std::set<Incarnation> who_pushed;  // to chunks that have left since
    uint64_t floor = 0;                // of the active ones' clocks, at the newest membership
    Versions before;                   // of the push under way
    uint64_t samples_before = 0;       // the shard's clock, before the commit under way
    std::map<StepId, std::vector<float>> rates;  // that a step may be applied with
    std::set<ChunkKey> restored;                 // kept as they were, or read from the disk
    std::set<ChunkKey> alike;                    // of these, kept and read ones can't be told apart
    std::set<StepId> again;  // complete once, and under way again since a chunk came without it
    // It has taken chunks of a life that is over, or in its sleep: its clocks are not known.
    bool has_strayed = false;
    std::set<ChunkKey> given_to_sleepers;       // taken by a process that another has the place of
    std::map<Incarnation, bool> is_evaluation;  // of the newest pull
    std::map<uint64_t, Parameters> snapshots;   // by checkpoint, on their way to the disk
  };

  /// What a shard had of everybody's steps when it offered chunks. Who takes them goes by this: a
  /// membership that comes meanwhile changes clocks where they come from alone.
  struct Offer {
    ShardId from;
    uint64_t placement = 0;  // that the chunks are of
    const Life* life = nullptr;
    std::set<Incarnation> members;
    std::set<Incarnation> active;
    std::map<Incarnation, uint64_t> clocks;  // where each is, or would start
    uint64_t samples = 0;
    bool are_known = true;
    std::set<StepId> complete;
    std::set<StepId> again;    // as Life::again
    std::set<StepId> to_come;  // those of them that clocks and samples do not count
  };

  struct Process {
    ShardId shard;
    const ShardView* view = nullptr;
    Life* life = nullptr;
    std::map<uint64_t, std::shared_ptr<const Offer>> offers{};  // that it has made
    std::shared_ptr<const Offer> offered{};                     // to it, the last one that came
  };

  /// Where a chunk is in its tensor.
  struct Place {
    ShardId shard;
    int64_t begin = 0;
    uint32_t count = 0;
  };

  void Violation(const std::string& text);
  Parameters InitialParameters(ShardId shard, const proto::Placement& placement) const;
  std::optional<Parameters> RestoredParameters(
      ShardId shard, const proto::Placement& placement, const proto::RestoreOrder& restore) const;
  Life* BeginLife(int node, const proto::ShardSetup& setup);
  void NoteReturn(ShardId shard, const proto::ShardSetup& setup);
  const proto::LeaseGrant* GrantOfStep(Incarnation incarnation) const;
  proto::Mode ModeOfStep(Incarnation incarnation) const;
  void CheckSettings(const StepId& id, const proto::PushRequest& push);
  bool MayKnow(const Life& life, Incarnation incarnation) const;
  void TakeMembership(Life* life, const proto::Membership& membership);
  static void TakeMode(Life* life, const proto::ModeChoice& before);
  void CheckChunk(ShardId shard, const Life& life, ChunkKey key);
  void CheckClock(ShardId shard, const Life& life);
  static bool IsHere(const Life& life, ChunkKey key, const ChunkState& state);
  void TakeRestoredSlots(Life* life);
  std::vector<float> ComputedOf(const StepId& id, ChunkKey key);
  void HoldBack(const StepId& id);
  void TakeEncoding(const StepId& id, const proto::PushRequest& push);
  std::vector<float> ArrivesOf(const StepId& id, ChunkKey key);
  std::vector<float> GradientOf(const StepId& id, ChunkKey key);
  float RateAt(uint64_t samples, double weight, uint32_t workers) const;
  double WeightOf(const proto::PushRequest& push);

  /// Not all updates have the same rate.
  bool HasRates() const {
    return options_.optimizer.schedule.kind != proto::ScheduleKind::kConstant ||
           options_.workers_at_full_rate > 0;
  }

  void Update(
      Life* life, ChunkKey key, std::span<const float> gradient, std::span<const float> rates);
  static uint32_t LiveWorkers(const Life& life);
  bool IsKnown(
      const Life& life,
      Incarnation incarnation,
      const client::ChunkLayout::Chunk& chunk,
      uint64_t begin,
      std::span<const float> values) const;
  void TakeCopies(const Process& process, Incarnation to, const proto::PullReply& reply);
  bool IsOfVersion(
      const Life& life,
      Incarnation incarnation,
      const client::ChunkLayout::Chunk& chunk,
      Version version,
      std::span<const float> values) const;
  static std::optional<uint64_t> RoundBefore(const std::vector<const Life*>& lives, uint64_t round);
  bool IsOfOneRound(
      Incarnation incarnation,
      const client::ChunkLayout& layout,
      std::span<const float> parameters) const;
  void TakeChunks(const Process& process, const std::vector<ChunkKey>& keys);
  void ForgetChunks(const Process& process, const std::vector<ChunkKey>& keys);
  static bool IsToComeAgain(const Life& life, const StepId& step);
  void SetClocks(const Life& from, Offer* offer);
  uint64_t SamplesOf(const Life& life, const StepId& step);
  static void LevelClocks(
      const std::set<Incarnation>& members, const std::set<Incarnation>& active, Life* life);
  void Complete(Life* life, const StepId& step);

  /// As ForEachCounted, with those of runs before.
  template <typename Visit>
  void ForEachThatCounts(const proto::JobState& job, const Visit& visit) const {
    for (const auto& [incarnation, steps] : losses_.inherited()) {
      visit(incarnation, steps);
    }
    ForEachCounted(job, visit);
  }

  bool HasAll(const proto::JobState& job) const;
  void CheckKept(const proto::JobState& job, uint64_t life);
  void CheckAllCount(const proto::JobState& job, bool is_stopped);
  const StepRecord& RecordOf(const StepId& id);
  bool IsLeftOut(const StepId& id, ChunkKey key) const;
  bool IsVoid(const StepId& id) const;
  void CheckRejected(const proto::JobState& job);
  /// Counted steps of `job` that one of the parameters lacks.
  std::vector<StepId> MissingOf(
      const proto::JobState& job, const std::map<ShardId, const Parameters*>& parameters) const;
  void CheckUndone(const std::string& who, const std::vector<StepId>& missing);
  void CheckTiles(const proto::JobState& job, bool is_stopped);

  const Options options_;
  const OptimizerModel optimizer_;
  std::map<ChunkKey, Place> places_;                             // by the newest placement
  uint64_t placement_ = 0;                                       // its version
  std::map<int, Process> processes_;                             // by node
  std::map<ShardId, std::vector<std::unique_ptr<Life>>> lives_;  // by number
  std::map<std::pair<uint64_t, ShardId>, Parameters> parts_;     // on the disk, by checkpoint
  std::map<StepId, std::set<ChunkKey>> ever_applied_;            // in any life (async, ssp)
  std::map<StepId, StepRecord> steps_;
  std::map<Incarnation, Step> started_;                                 // the newest step
  std::map<Incarnation, std::map<LeaseId, proto::LeaseGrant>> grants_;  // to train
  /// By life and number.
  std::map<std::pair<uint64_t, uint64_t>, std::vector<proto::CommitRound::Contribution>> rounds_;
  std::pair<uint64_t, uint64_t> commit_sent_;  // life and number of the newest
  // Where all servers go back together.
  std::map<Incarnation, uint64_t> eras_;                        // the life in which it takes part
  std::map<uint64_t, uint64_t> returns_;                        // life -> checkpoint it begins from
  std::map<uint64_t, std::map<Incarnation, Step>> counted_at_;  // by checkpoint
  std::map<uint64_t, uint64_t> undone_at_;  // steps that were reported until then, in all runs
  uint64_t undone_before_ = 0;              // in runs that this one goes on with
  bool has_steps_ = false;
  Incarnation inherited_max_;                      // of those who have taken part in these
  std::vector<std::unique_ptr<Life>> past_lives_;  // of these
  std::vector<std::string> violations_;
  HeldBack held_back_;
  std::map<Incarnation, Step> last_steps_;  // of who was told to hand over with it
  std::set<StepId> handed_over_;
  HeldCopies held_copies_;
  LossBook losses_;
  uint64_t pushes_checked_ = 0;
};

}  // namespace ps::sim
