#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/random.h"
#include "ps/base/tensor_spec.h"
#include "ps/client/chunk_layout.h"
#include "ps/proto/messages.h"

namespace ps::sim {

/// One step as the worker that computed it saw it.
struct StepRecord {
  uint32_t epoch = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

using StepId = std::pair<Incarnation, Step>;

/// The gradient of one chunk in a simulated step: small integers, so that sums in f32 are exact.
class ChunkGradient {
 public:
  ChunkGradient(ChunkKey key, uint32_t epoch, uint64_t begin)
      : base_(Mix64(key.value ^ (uint64_t{epoch} << 48) ^ (begin << 8))) {}

  float At(uint64_t element) const {
    return static_cast<float>((base_ + element * 131) % 7) - 3.0F;
  }

 private:
  uint64_t base_;
};

/// What a shard lets the oracle look at.
class ShardView {
 public:
  virtual ~ShardView() = default;
  virtual Version VersionOf(ChunkKey key) const = 0;
  virtual std::span<const float> ValuesOf(ChunkKey key) const = 0;
  /// A round is being committed: some values are of it already, and others are not.
  virtual bool IsBetweenVersions() const = 0;
};

/// Knows from the messages alone what the parameters must be, and checks after every delivery that
/// they are just that:
/// - no push is applied twice, and none of a fenced incarnation (async, ssp);
/// - what a shard acknowledges has been applied in full;
/// - values equal the start minus the sum of what was applied (async, ssp), or the sequential
/// replay of
///   the committed rounds (bsp), bit for bit;
/// - what a worker computes with has been on the shards: in bsp all of it in one round, in the
/// other
///   modes every chunk, and of a large one every part, in one version, with the worker's own steps
///   (without overlap);
/// - a pull that passes the staleness bound is within it, by the oracle's own clocks (ssp);
/// and at the end that the applied steps tile every epoch: each sample exactly once.
/// A violation is a text in `violations`; the first one is the one to look at.
class Oracle {
 public:
  struct Options {
    proto::Mode mode = proto::Mode::kAsync;
    uint32_t staleness_max = 0;
    uint32_t epochs = 0;
    uint64_t train_samples = 0;
    uint64_t frame_bytes = 0;
    bool overlap = false;
    std::function<float(uint32_t tensor, int64_t element)> initial_value;
  };

  explicit Oracle(Options options) : options_(std::move(options)) {}

  void AddShard(ShardId shard, const ShardView* view) { shards_[shard].view = view; }

  void OnStepStarted(Incarnation incarnation, Step step, const StepRecord& record);
  /// A worker begins to compute with these values.
  void CheckParameters(
      Incarnation incarnation,
      const client::ChunkLayout& layout,
      std::span<const float> parameters);

  // Deliveries to and answers from a shard.
  void BeforePush(ShardId shard, const proto::PushRequest& push);
  void AfterPush(ShardId shard, const proto::PushRequest& push);
  void OnSetup(ShardId shard, const proto::ShardSetup& setup);
  void OnMembership(ShardId shard, const proto::Membership& membership);
  void AfterCommit(ShardId shard, const proto::CommitRound& commit);
  /// Compares every chunk, when nothing is between two versions.
  void CheckShard(ShardId shard);
  void OnPushReply(ShardId shard, Incarnation to, const proto::PushReply& reply);
  void OnPullReply(ShardId shard, Incarnation to);
  void OnPullRequest(ShardId shard, const proto::PullRequest& pull);

  void CheckFinalState();
  /// What the run has left as its model, by tensor, is what the shards had at the end.
  void CheckModel(const std::vector<std::vector<float>>& model);

  const std::vector<std::string>& violations() const { return violations_; }

  uint64_t pushes_checked() const { return pushes_checked_; }

 private:
  struct ShardState {
    const ShardView* view = nullptr;
    std::map<ChunkKey, std::vector<float>> values;
    std::map<ChunkKey, int64_t> begins;                           // in their tensors
    std::map<ChunkKey, std::vector<std::vector<float>>> history;  // by version
    std::map<StepId, std::set<ChunkKey>> applied;
    std::map<std::pair<Incarnation, ChunkKey>, Version> own;  // after a worker's newest update
    std::set<StepId> complete;
    std::map<ChunkKey, Version> before;  // of the push under way
    proto::Membership membership;        // all of it, from what came
    Generation generation;
    Incarnation incarnation_max;
    std::set<Incarnation> members;
    std::set<Incarnation> active;
    std::map<Incarnation, uint64_t> clocks;
    uint64_t floor = 0;  // of the active ones' clocks, at the newest membership
    std::map<Incarnation, bool> is_evaluation;  // of the newest pull
    uint64_t round = 0;
  };

  void Violation(const std::string& text);
  void CheckChunk(ShardId shard, const ShardState& state, ChunkKey key);
  bool WereOnShards(
      Version version, const client::ChunkLayout& layout, std::span<const float> parameters) const;

  const Options options_;
  std::map<ShardId, ShardState> shards_;
  std::map<StepId, StepRecord> steps_;
  std::map<uint64_t, std::vector<proto::CommitRound::Contribution>> rounds_;
  std::vector<std::string> violations_;
  uint64_t pushes_checked_ = 0;
};

}  // namespace ps::sim
