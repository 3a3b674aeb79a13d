#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/shard_store.h"
#include "kernels/cpu/alignment.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/optimizer_combine.h"
#include "ps/base/buffer.h"
#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"
#include "ps/proto/chunks.h"
#include "ps/proto/job/tensor_treatment.h"
#include "ps/proto/messages.h"
#include "ps/server/shard_settings.h"

namespace ps::server {

/// One chunk that this shard owns: its value, its optimizer state, and how often it was updated.
struct Chunk {
  // Constant after construction.
  ChunkKey key;
  int64_t element_count = 0;
  UpdateRule rule = UpdateRule::kOptimizer;
  float average_rate = 0;  // of what a minibatch has observed
  float weight_decay = 0;  // 0 where the tensor has none
  float lr_factor = 1;     // of the learning rate
  bool is_frozen = false;  // updates leave it and its version as they are
  size_t first_part = 0;   // of the parts of all chunks, in order: those it travels in
  uint32_t part_count = 1;

  bool is_leaving = false;  // on its way to another shard: it stays as it is
  bool has_moved = false;   // kAverage: by the update that is being made
  uint32_t every = 0;       // SetEvery's since the momentum has moved; 0: no update was made since
  Buffer value;             // [element_count] f32
  std::array<Buffer, kernels::kOptimizerSlotsMax> slots;  // the same, those that the rule needs
  Version version = 0;
};

/// The value of a chunk and the buffers of its optimizer.
constexpr uint32_t kBuffersMax = 1 + kernels::kOptimizerSlotsMax;

/// A chunk's value, and those buffers of its optimizer that it has.
template <typename C>
auto BuffersOf(C& chunk) {
  std::vector<decltype(&chunk.value)> buffers = {&chunk.value};
  for (auto& slot : chunk.slots) {
    if (slot.size() > 0) {
      buffers.push_back(&slot);
    }
  }
  return buffers;
}

/// How much a piece of an update moves.
struct UpdateRate {
  float lr = 0;              // with the push's weight
  uint32_t local_steps = 1;  // minibatches behind an observation
  kernels::Turn turn = {};   // of the whole chunk's gradient, where IsTurned
};

/// The parameters of one shard. Thread: the shard's.
class ChunkStore {
 public:
  ChunkStore() = default;

  /// Takes the shard's own chunks out of the placement and gives them their initial values, unless
  /// these come from a checkpoint or a file: then Restore or Initialize is to give them all.
  /// Errors: kInvalidArgument when the placement does not fit the tensors.
  static Result<ChunkStore> Make(
      ShardId shard, const ShardSettings& settings, const proto::ShardSetup& setup);

  size_t size() const { return chunks_.size(); }

  /// A chunk of the model that is not here, with room for its values; its parts are counted from
  /// `first_part` on. Errors: kInvalidArgument when there is none, or it is here.
  Result<Chunk> MakeChunk(ChunkKey key, size_t first_part) const;
  /// Takes chunks of MakeChunk, which have their values now, by the placement `version`. Indices
  /// are others afterwards, as they are after Remove.
  void Insert(std::vector<Chunk> chunks, uint64_t version);
  /// Requires: all are here. No other chunk is on its way any more.
  void Remove(std::span<const ChunkKey> keys, uint64_t version);

  void SetLeaving(size_t index) { chunks_[index].is_leaving = true; }

  /// The placement in which chunks came or left last.
  uint64_t placement() const { return placement_; }

  /// Whether a chunk that is not here may have been here in the placement that a sender knows.
  bool MayHaveMoved(uint64_t known_placement) const { return known_placement < placement_; }

  /// By key, ascending.
  const std::vector<Chunk>& chunks() const { return chunks_; }

  std::optional<size_t> IndexOf(ChunkKey key) const;

  /// Null when it is not here.
  const Chunk* Find(ChunkKey key) const {
    const std::optional<size_t> index = IndexOf(key);
    return index ? &chunks_[*index] : nullptr;
  }

  std::span<const float> ValuesOf(size_t index) const { return chunks_[index].value.floats(); }

  /// Gives elements of a chunk from `begin` on their initial values, before its first update.
  void Initialize(size_t index, uint32_t begin, std::span<const float> values);

  const proto::ChunkParts& parts() const { return parts_; }

  /// Parts of all chunks together.
  size_t part_count() const { return part_count_; }

  proto::ChunkParts::Range RangeOf(const Chunk& chunk, uint32_t part) const {
    return parts_.At(static_cast<uint64_t>(chunk.element_count), part);
  }

  /// Without optimizer state.
  uint64_t parameter_bytes() const { return parameter_bytes_; }

  /// A piece of one update: a finite gradient (or observation, see UpdateRule) of the elements of
  /// that part of the chunk from `begin` on. FinishUpdate follows when every element had its turn.
  /// Returns false when elements were left out because they or their state would not have stayed
  /// finite.
  bool Apply(
      size_t index,
      uint32_t part,
      uint64_t begin,
      std::span<const float> gradient,
      const UpdateRate& rate);

  /// The same with a whole part.
  bool Apply(size_t index, uint32_t part, std::span<const float> gradient, const UpdateRate& rate) {
    return Apply(index, part, 0, gradient, rate);
  }

  /// A whole update but for FinishUpdate: `parts` are all of the chunk, in order. Those that are
  /// empty stay as they are.
  bool ApplyParts(
      size_t index, std::span<const std::span<const float>> parts, const UpdateRate& rate);

  /// Whether the rule looks at the whole gradient of this chunk before it applies a piece: then
  /// each piece goes to Measure first, in order, and what HelocoTurn says to Apply.
  bool IsTurned(size_t index) const {
    return rule_.kind == kernels::OptimizerKind::kHeloco &&
           chunks_[index].rule == UpdateRule::kOptimizer;
  }

  /// Arguments as of Apply. Requires: IsTurned.
  void Measure(
      size_t index,
      uint32_t part,
      uint64_t begin,
      std::span<const float> gradient,
      kernels::Alignment* alignment) const;

  /// The mean of several gradients, `count` elements of each; one is taken as it is. Valid until
  /// the next call. Requires: at least one.
  std::span<const float> MeanOf(std::span<const kernels::WeightedPart> gradients, uint64_t count);

  /// Whether these are a chunk's values as they are, which an observer has: of rule average alone.
  bool IsObserved(
      size_t index, uint32_t part, uint64_t begin, const float* values, uint64_t count) const;

  /// Its version grows unless it is as it was: frozen, or an average that nothing has moved, such
  /// as a constant of a program's model.
  void FinishUpdate(size_t index);

  /// The momentum of updates from now on, as a factor of the config's. Requires: above 0.
  void SetMomentumFactor(float factor) { rule_.momentum = momentum_ * factor; }

  /// Updates from one use of a delayed momentum to the next; 0: as in the config. Each chunk takes
  /// it when its momentum has moved, so that what was gathered for that is divided by its number.
  void SetEvery(uint32_t every) { rule_.every = every == 0 ? every_ : every; }

  /// Called before each piece of an update, with the index of its chunk. May be null.
  void SetBeforeUpdate(std::function<void(size_t)> before_update) {
    before_update_ = std::move(before_update);
  }

  /// Values, optimizer state and version as they were written. Errors: kInvalidArgument when they
  /// are not of this chunk's shape.
  Status Restore(size_t index, checkpoint::ChunkData data);
  /// The reverse: afterwards the chunk has no values any more.
  checkpoint::ChunkData Take(size_t index);

 private:
  /// A chunk as the model describes it, without buffers.
  Chunk Describe(const proto::ChunkAssignment& chunk) const;
  void Renumber();
  /// Drops what a chunk that comes from elsewhere had gathered for a delayed momentum, where nobody
  /// knows of how many workers it is.
  void ForgetGathered(Chunk* chunk) const;
  /// The rule of an update that is being made. Valid until the next call.
  const kernels::OptimizerRule& RuleOf(Chunk* chunk);

  proto::ChunkParts parts_;
  std::vector<TensorSpec> tensors_;                 // of the model
  std::vector<proto::TensorTreatment> treatments_;  // of each
  std::vector<proto::ChunkAssignment> model_;       // all chunks, by key
  float weight_decay_ = 0;
  int slot_count_ = 0;  // of a chunk that the optimizer updates
  size_t part_count_ = 0;
  kernels::OptimizerRule rule_;
  float momentum_ = 0;  // of the config
  uint32_t every_ = 0;  // of the config
  bool is_every_live_ = false;
  kernels::OptimizerRule chunk_rule_;
  std::vector<Chunk> chunks_;
  uint64_t placement_ = 0;
  uint64_t parameter_bytes_ = 0;
  std::function<void(size_t)> before_update_;
  Buffer mean_;  // of the longest piece's size, once needed
};

}  // namespace ps::server
