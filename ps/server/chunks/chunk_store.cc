#include "ps/server/chunks/chunk_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "kernels/optimizer_slots.h"

namespace ps::server {
namespace {

Buffer MakeZeros(int64_t element_count) {
  Buffer buffer(static_cast<size_t>(element_count) * sizeof(float));
  std::memset(buffer.data(), 0, buffer.size());
  return buffer;
}

/// The weight of `steps` observations together, each of which has the weight `rate` when it comes.
float RateOver(float rate, uint32_t steps) {
  return steps == 1 ? rate : static_cast<float>(1 - std::pow(1 - double{rate}, steps));
}

}  // namespace

Result<ChunkStore> ChunkStore::Make(
    ShardId shard, const ShardSettings& settings, const proto::ShardSetup& setup) {
  ChunkStore store;
  store.parts_ = proto::ChunkParts(settings.frame_bytes);
  store.rule_ = settings.optimizer;
  store.momentum_ = settings.optimizer.momentum;
  store.every_ = settings.optimizer.every;
  store.is_every_live_ = settings.lr_policy.is_every_live();
  store.slot_count_ = kernels::OptimizerSlotCount(store.rule_);
  store.weight_decay_ = settings.optimizer.weight_decay;
  store.tensors_ = setup.tensors;
  store.model_ = setup.placement.chunks;
  store.placement_ = setup.placement.version;
  std::vector<int64_t> tensor_elements;
  for (const TensorSpec& tensor : setup.tensors) {
    tensor_elements.push_back(tensor.element_count());
    store.treatments_.push_back(proto::TreatmentOf(settings.parameters, tensor));
  }
  PS_TRY(proto::CheckChunks(setup.placement, tensor_elements));
  // Values that come from elsewhere replace all: drawing takes longer than reading them.
  const bool is_restored = setup.restore.checkpoint != 0;
  const bool is_drawn = !is_restored && !setup.has_values;
  for (const proto::ChunkAssignment& assignment : setup.placement.chunks) {
    if (assignment.shard != shard) {
      continue;
    }
    const uint32_t tensor = TensorOf(assignment.key);
    const TensorSpec& spec = setup.tensors[tensor];
    Chunk chunk = store.Describe(assignment);
    chunk.value = Buffer(assignment.element_count * sizeof(float));
    if (is_drawn) {
      InitializeTensor(
          spec,
          tensor,
          settings.seed,
          assignment.element_begin,
          chunk.value.floats().data(),
          chunk.element_count);
    }
    for (int slot = 0; slot < store.slot_count_ && chunk.rule == UpdateRule::kOptimizer; ++slot) {
      chunk.slots[static_cast<size_t>(slot)] =
          is_restored ? Buffer(chunk.value.size()) : MakeZeros(chunk.element_count);
    }
    store.chunks_.push_back(std::move(chunk));
  }
  store.Renumber();
  return store;
}

Chunk ChunkStore::Describe(const proto::ChunkAssignment& assignment) const {
  const TensorSpec& spec = tensors_[TensorOf(assignment.key)];
  Chunk chunk;
  chunk.key = assignment.key;
  chunk.element_count = assignment.element_count;
  chunk.rule = spec.rule;
  chunk.average_rate = spec.average_rate;
  const proto::TensorTreatment& treatment = treatments_[TensorOf(assignment.key)];
  chunk.weight_decay = treatment.has_weight_decay ? weight_decay_ : 0;
  chunk.lr_factor = treatment.lr_factor;
  chunk.is_frozen = treatment.is_frozen;
  chunk.part_count = parts_.CountOf(assignment.element_count);
  return chunk;
}

void ChunkStore::Renumber() {
  part_count_ = 0;
  parameter_bytes_ = 0;
  for (Chunk& chunk : chunks_) {
    chunk.first_part = part_count_;
    part_count_ += chunk.part_count;
    parameter_bytes_ += chunk.value.size();
  }
}

Result<Chunk> ChunkStore::MakeChunk(ChunkKey key, size_t first_part) const {
  const auto it = std::ranges::lower_bound(model_, key, {}, &proto::ChunkAssignment::key);
  if (it == model_.end() || it->key != key || IndexOf(key)) {
    return Status::InvalidArgument(
        fmt::format("chunk {} is none of the model, or is here already", key.value));
  }
  Chunk chunk = Describe(*it);
  chunk.first_part = first_part;
  chunk.value = Buffer(it->element_count * sizeof(float));
  for (int slot = 0; slot < slot_count_ && chunk.rule == UpdateRule::kOptimizer; ++slot) {
    chunk.slots[static_cast<size_t>(slot)] = Buffer(chunk.value.size());
  }
  return chunk;
}

void ChunkStore::Insert(std::vector<Chunk> chunks, uint64_t version) {
  placement_ = std::max(placement_, version);
  for (Chunk& chunk : chunks) {
    ForgetGathered(&chunk);
  }
  std::ranges::move(chunks, std::back_inserter(chunks_));
  std::ranges::sort(chunks_, {}, &Chunk::key);
  Renumber();
}

void ChunkStore::Remove(std::span<const ChunkKey> keys, uint64_t version) {
  placement_ = version;
  std::erase_if(chunks_, [&](const Chunk& chunk) {
    return std::ranges::find(keys, chunk.key) != keys.end();
  });
  for (Chunk& chunk : chunks_) {
    chunk.is_leaving = false;
  }
  Renumber();
}

std::optional<size_t> ChunkStore::IndexOf(ChunkKey key) const {
  const auto it = std::lower_bound(
      chunks_.begin(), chunks_.end(), key, [](const Chunk& chunk, ChunkKey wanted) {
        return chunk.key < wanted;
      });
  if (it == chunks_.end() || it->key != key) {
    return std::nullopt;
  }
  return static_cast<size_t>(it - chunks_.begin());
}

void ChunkStore::Initialize(size_t index, uint32_t begin, std::span<const float> values) {
  Chunk& chunk = chunks_[index];
  PS_CHECK(chunk.version == 0 && begin + values.size() <= chunk.value.floats().size())
      << values.size() << " values from " << begin << " at version " << chunk.version;
  std::memcpy(chunk.value.floats().data() + begin, values.data(), values.size_bytes());
}

bool ChunkStore::Apply(
    size_t index,
    uint32_t part,
    uint64_t begin,
    std::span<const float> gradient,
    const UpdateRate& rate) {
  Chunk& chunk = chunks_[index];
  if (chunk.is_frozen) {
    return true;
  }
  const proto::ChunkParts::Range range = RangeOf(chunk, part);
  PS_CHECK(begin + gradient.size() <= range.element_count)
      << gradient.size() << " elements from " << begin << " for a part of " << range.element_count;
  const auto at = [first = range.element_begin + begin](Buffer& buffer) {
    return buffer.size() == 0 ? nullptr : buffer.floats().data() + first;
  };
  const auto count = static_cast<int64_t>(gradient.size());
  if (IsObserved(index, part, begin, gradient.data(), gradient.size())) {
    return true;
  }
  if (before_update_) {
    before_update_(index);
  }
  if (chunk.rule == UpdateRule::kAverage) {
    chunk.has_moved = true;
    const float weight = RateOver(chunk.average_rate, rate.local_steps);
    return kernels::MoveTowards(gradient.data(), weight, at(chunk.value), count);
  }
  return kernels::ApplyUpdate(
      RuleOf(&chunk),
      {rate.lr * chunk.lr_factor, chunk.weight_decay, chunk.version + 1, rate.turn},
      {gradient.data(), at(chunk.value), {at(chunk.slots[0]), at(chunk.slots[1])}, count});
}

bool ChunkStore::ApplyParts(
    size_t index, std::span<const std::span<const float>> parts, const UpdateRate& rate) {
  if (chunks_[index].is_frozen) {
    return true;
  }
  UpdateRate turned = rate;
  if (IsTurned(index)) {
    kernels::Alignment alignment;
    for (uint32_t part = 0; part < parts.size(); ++part) {
      Measure(index, part, 0, parts[part], &alignment);
    }
    turned.turn = alignment.HelocoTurn();
  }
  bool is_finite = true;
  for (uint32_t part = 0; part < parts.size(); ++part) {
    is_finite = (parts[part].empty() || Apply(index, part, 0, parts[part], turned)) && is_finite;
  }
  return is_finite;
}

bool ChunkStore::IsObserved(
    size_t index, uint32_t part, uint64_t begin, const float* values, uint64_t count) const {
  const Chunk& chunk = chunks_[index];
  const float* const own = chunk.value.floats().data() + RangeOf(chunk, part).element_begin + begin;
  return chunk.rule == UpdateRule::kAverage && std::memcmp(values, own, count * sizeof(float)) == 0;
}

const kernels::OptimizerRule& ChunkStore::RuleOf(Chunk* chunk) {
  if (!is_every_live_) {
    return rule_;
  }
  if (chunk->every == 0) {
    chunk->every = std::max(rule_.every, 1U);
  }
  chunk_rule_ = rule_;
  chunk_rule_.every = chunk->every;
  return chunk_rule_;
}

void ChunkStore::FinishUpdate(size_t index) {
  Chunk& chunk = chunks_[index];
  const bool has_moved = std::exchange(chunk.has_moved, false);
  const bool stays = chunk.is_frozen || (chunk.rule == UpdateRule::kAverage && !has_moved);
  chunk.version += stays ? 0 : 1;
  if (chunk.every != 0 && chunk.version % chunk.every == 0) {
    chunk.every = 0;  // its momentum has moved, with all that was gathered for it
  }
}

void ChunkStore::Measure(
    size_t index,
    uint32_t part,
    uint64_t begin,
    std::span<const float> gradient,
    kernels::Alignment* alignment) const {
  const Chunk& chunk = chunks_[index];
  const uint64_t first = RangeOf(chunk, part).element_begin + begin;
  alignment->Add(gradient, chunk.slots[0].floats().subspan(first, gradient.size()));
}

Status ChunkStore::Restore(size_t index, checkpoint::ChunkData data) {
  Chunk& chunk = chunks_[index];
  bool is_same = data.value.size() == chunk.value.size();
  for (size_t slot = 0; slot < chunk.slots.size(); ++slot) {
    is_same = is_same && data.slots[slot].size() == chunk.slots[slot].size();
  }
  if (!is_same) {
    return Status::InvalidArgument(fmt::format(
        "chunk {} was written with {} bytes and other optimizer state than the job has ({} bytes); "
        "the checkpoint is of another model or optimizer",
        chunk.key.value,
        data.value.size(),
        chunk.value.size()));
  }
  chunk.value = std::move(data.value);
  chunk.slots = std::move(data.slots);
  chunk.version = data.version;
  ForgetGathered(&chunk);
  return Status::Ok();
}

void ChunkStore::ForgetGathered(Chunk* chunk) const {
  chunk->every = 0;
  if (is_every_live_ && chunk->rule == UpdateRule::kOptimizer) {
    std::ranges::fill(chunk->slots[1].floats(), 0.0F);
  }
}

checkpoint::ChunkData ChunkStore::Take(size_t index) {
  Chunk& chunk = chunks_[index];
  return {chunk.version, std::move(chunk.value), std::move(chunk.slots)};
}

std::span<const float> ChunkStore::MeanOf(
    std::span<const kernels::WeightedPart> gradients, uint64_t count) {
  if (gradients.size() == 1) {
    return {gradients[0].x, count};
  }
  if (mean_.size() < count * sizeof(float)) {
    mean_ = Buffer(count * sizeof(float));
  }
  kernels::WeightedMean(gradients, mean_.floats().data(), static_cast<int64_t>(count));
  return mean_.floats().first(count);
}

}  // namespace ps::server
