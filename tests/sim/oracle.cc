#include "tests/sim/oracle.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <sstream>

#include "ps/proto/chunks.h"
#include "ps/proto/membership.h"

namespace ps::sim {
namespace {

std::string Name(const StepId& id) {
  return "step " + std::to_string(id.second) + " of incarnation " + std::to_string(id.first.value);
}

}  // namespace

void Oracle::Violation(const std::string& text) {
  violations_.push_back(text);
}

void Oracle::OnStepStarted(Incarnation incarnation, Step step, const StepRecord& record) {
  steps_[{incarnation, step}] = record;
}

void Oracle::OnSetup(ShardId shard, const proto::ShardSetup& setup) {
  ShardState& state = shards_.at(shard);
  for (const proto::ChunkAssignment& chunk : setup.placement.chunks) {
    if (chunk.shard != shard || state.values.contains(chunk.key)) {
      continue;  // another shard's, or a repeated set-up, which brings only the membership
    }
    const uint32_t tensor = TensorOf(chunk.key);
    std::vector<float> values(chunk.element_count);
    for (uint32_t i = 0; i < chunk.element_count; ++i) {
      values[i] = options_.initial_value(tensor, chunk.element_begin + i);
    }
    state.begins[chunk.key] = chunk.element_begin;
    state.history[chunk.key] = {values};
    state.values.emplace(chunk.key, std::move(values));
  }
  OnMembership(shard, setup.membership);
}

bool Oracle::WereOnShards(
    Version version, const client::ChunkLayout& layout, std::span<const float> parameters) const {
  return std::all_of(layout.chunks().begin(), layout.chunks().end(), [&](const auto& chunk) {
    const auto& history = shards_.at(chunk.shard).history.at(chunk.key);
    return version < history.size() && std::memcmp(
                                           history[version].data(),
                                           parameters.data() + chunk.offset,
                                           chunk.element_count * sizeof(float)) == 0;
  });
}

void Oracle::CheckParameters(
    Incarnation incarnation, const client::ChunkLayout& layout, std::span<const float> parameters) {
  const std::string name = "incarnation " + std::to_string(incarnation.value);
  if (options_.mode == proto::Mode::kBsp) {
    Version version = rounds_.size() + 1;
    while (version > 0 && !WereOnShards(version - 1, layout, parameters)) {
      --version;
    }
    if (version == 0) {
      Violation(name + " computes with parameters that are of no round");
    }
    return;
  }
  const proto::ChunkParts parts(options_.frame_bytes);
  for (const client::ChunkLayout::Chunk& chunk : layout.chunks()) {
    const ShardState& state = shards_.at(chunk.shard);
    const auto& history = state.history.at(chunk.key);
    const auto own = state.own.find({incarnation, chunk.key});
    const Version oldest = options_.overlap || own == state.own.end() ? 0 : own->second;
    for (uint32_t part = 0; part < parts.CountOf(chunk.element_count); ++part) {
      const proto::ChunkParts::Range range = parts.At(chunk.element_count, part);
      const float* const actual = parameters.data() + chunk.offset + range.element_begin;
      const bool is_known = std::any_of(
          history.begin() + static_cast<std::ptrdiff_t>(oldest),
          history.end(),
          [&](const std::vector<float>& values) {
            return std::memcmp(
                       values.data() + range.element_begin,
                       actual,
                       range.element_count * sizeof(float)) == 0;
          });
      if (!is_known) {
        Violation(
            name + " computes with values of chunk " + std::to_string(chunk.key.value) +
            " that no shard had" + (oldest > 0 ? " since the worker's own last step" : ""));
      }
    }
  }
}

void Oracle::OnMembership(ShardId shard, const proto::Membership& membership) {
  ShardState& state = shards_.at(shard);
  if (membership.generation <= state.generation || state.values.empty()) {
    return;
  }
  if (membership.base > state.generation) {
    Violation("a membership builds on one that shard " + std::to_string(shard.value) + " lacks");
  }
  proto::ApplyMembership(membership, &state.membership);
  state.generation = membership.generation;
  state.incarnation_max = membership.incarnation_max;
  std::set<Incarnation> members;
  std::set<Incarnation> active;
  for (const proto::Member& member : state.membership.members) {
    members.insert(member.incarnation);
    if (member.is_active) {
      active.insert(member.incarnation);
    }
  }
  // Who becomes active starts where the slowest of those is that were active before and still are,
  // or where the slowest was when it was last seen.
  std::optional<uint64_t> slowest;
  std::optional<uint64_t> slowest_that_stays;
  for (const Incarnation i : state.active) {
    slowest = std::min(slowest.value_or(UINT64_MAX), state.clocks[i]);
    if (active.contains(i)) {
      slowest_that_stays = std::min(slowest_that_stays.value_or(UINT64_MAX), state.clocks[i]);
    }
  }
  state.floor = std::max({state.floor, slowest.value_or(0), slowest_that_stays.value_or(0)});
  for (const Incarnation i : active) {
    if (!state.active.contains(i)) {
      state.clocks[i] = std::max(state.clocks[i], state.floor);
    }
  }
  state.members = std::move(members);
  state.active = std::move(active);
}

void Oracle::BeforePush(ShardId shard, const proto::PushRequest& push) {
  ShardState& state = shards_.at(shard);
  state.before.clear();
  if (state.values.empty()) {
    return;
  }
  for (const proto::ChunkRef& chunk : push.chunks) {
    state.before[chunk.key] = state.view->VersionOf(chunk.key);
  }
}

void Oracle::AfterPush(ShardId shard, const proto::PushRequest& push) {
  ShardState& state = shards_.at(shard);
  if (state.values.empty()) {
    return;
  }
  ++pushes_checked_;
  const StepId id{push.incarnation, push.step};
  for (const proto::ChunkRef& chunk : push.chunks) {
    const Version grown = state.view->VersionOf(chunk.key) - state.before[chunk.key];
    if (grown == 0) {
      CheckChunk(shard, state, chunk.key);
      continue;
    }
    if (options_.mode == proto::Mode::kBsp) {
      Violation("a push changed a chunk under bsp: " + Name(id));
      continue;
    }
    if (grown > 1 || !state.applied[id].insert(chunk.key).second) {
      Violation(Name(id) + " was applied twice to a chunk of shard " + std::to_string(shard.value));
    }
    if (!state.members.contains(push.incarnation)) {
      Violation(Name(id) + " was applied though its incarnation is fenced");
    }
    const StepRecord& record = steps_.at(id);
    const ChunkGradient gradient(chunk.key, record.epoch, record.begin);
    std::vector<float>& values = state.values[chunk.key];
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] -= static_cast<float>(push.samples) * gradient.At(i);
    }
    state.own[{push.incarnation, chunk.key}] = state.history[chunk.key].size();
    state.history[chunk.key].push_back(values);
    CheckChunk(shard, state, chunk.key);
  }
  if (options_.mode != proto::Mode::kBsp && state.applied[id].size() == state.values.size() &&
      state.complete.insert(id).second) {
    ++state.clocks[push.incarnation];
  }
}

void Oracle::AfterCommit(ShardId shard, const proto::CommitRound& commit) {
  ShardState& state = shards_.at(shard);
  if (state.values.empty() || commit.round != state.round + 1) {
    return;
  }
  state.round = commit.round;
  const auto [it, is_first] = rounds_.emplace(commit.round, commit.contributions);
  if (!is_first) {
    const auto same = [](const auto& a, const auto& b) {
      return a.incarnation == b.incarnation && a.step == b.step && a.samples == b.samples;
    };
    if (!std::equal(
            it->second.begin(),
            it->second.end(),
            commit.contributions.begin(),
            commit.contributions.end(),
            same)) {
      Violation("round " + std::to_string(commit.round) + " was committed in two ways");
    }
  }
  float total = 0;
  for (const auto& c : commit.contributions) {
    total += static_cast<float>(c.samples);
    state.complete.insert({c.incarnation, c.step});
  }
  std::vector<float> sums;
  for (auto& [key, values] : state.values) {
    // Sequential SGD on the union of the contributions' samples, learning rate 1.
    sums.assign(values.size(), 0);
    for (const auto& c : commit.contributions) {
      const StepRecord& record = steps_.at({c.incarnation, c.step});
      const ChunkGradient gradient(key, record.epoch, record.begin);
      for (size_t i = 0; i < values.size(); ++i) {
        sums[i] += static_cast<float>(c.samples) * gradient.At(i);
      }
    }
    if (!commit.contributions.empty()) {
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] -= sums[i] / total;
      }
      state.history[key].push_back(values);
    }
    CheckChunk(shard, state, key);
  }
}

void Oracle::CheckChunk(ShardId shard, const ShardState& state, ChunkKey key) {
  const auto it = state.values.find(key);
  if (it == state.values.end() || state.view->IsBetweenVersions()) {
    return;
  }
  const std::span<const float> actual = state.view->ValuesOf(key);
  if (actual.size() != it->second.size() ||
      std::memcmp(actual.data(), it->second.data(), actual.size_bytes()) != 0) {
    Violation(
        "chunk " + std::to_string(key.value) + " of shard " + std::to_string(shard.value) +
        " is not what the applied pushes make it");
  }
}

void Oracle::OnPushReply(ShardId shard, Incarnation to, const proto::PushReply& reply) {
  const ShardState& state = shards_.at(shard);
  const StepId id{to, reply.step};
  if (reply.outcome == proto::PushOutcome::kApplied && !state.complete.contains(id)) {
    Violation(
        Name(id) + " was acknowledged by shard " + std::to_string(shard.value) +
        " before it was applied in full");
  }
}

void Oracle::OnPullRequest(ShardId shard, const proto::PullRequest& pull) {
  shards_.at(shard).is_evaluation[pull.incarnation] = pull.is_evaluation;
}

void Oracle::OnPullReply(ShardId shard, Incarnation to) {
  ShardState& state = shards_.at(shard);
  if (options_.mode != proto::Mode::kSsp || !state.active.contains(to) || state.is_evaluation[to]) {
    return;
  }
  uint64_t slowest = state.clocks[to];
  for (const Incarnation i : state.active) {
    slowest = std::min(slowest, state.clocks[i]);
  }
  if (state.clocks[to] - slowest > options_.staleness_max) {
    Violation(
        "incarnation " + std::to_string(to.value) + " was served by shard " +
        std::to_string(shard.value) + " while " + std::to_string(state.clocks[to] - slowest) +
        " steps ahead");
  }
}

void Oracle::CheckShard(ShardId shard) {
  const ShardState& state = shards_.at(shard);
  for (const auto& [key, values] : state.values) {
    CheckChunk(shard, state, key);
  }
}

void Oracle::CheckModel(const std::vector<std::vector<float>>& model) {
  for (const auto& [shard, state] : shards_) {
    for (const auto& [key, values] : state.values) {
      const std::vector<float>& tensor = model.at(TensorOf(key));
      if (!std::equal(values.begin(), values.end(), tensor.begin() + state.begins.at(key))) {
        Violation("the model's file has other values of chunk " + std::to_string(key.value));
      }
    }
  }
}

void Oracle::CheckFinalState() {
  for (const auto& [shard, state] : shards_) {
    CheckShard(shard);
  }
  std::map<uint32_t, std::map<uint64_t, uint64_t>> ranges;  // epoch -> begin -> end
  for (const auto& [id, record] : steps_) {
    const bool is_complete = std::all_of(shards_.begin(), shards_.end(), [&](const auto& entry) {
      return entry.second.values.empty() || entry.second.complete.contains(id);
    });
    if (!is_complete) {
      continue;
    }
    if (!ranges[record.epoch].emplace(record.begin, record.end).second) {
      std::ostringstream text;
      text << "samples from " << record.begin << " of epoch " << record.epoch
           << " were applied twice, the second time by " << Name(id);
      Violation(text.str());
    }
  }
  for (uint32_t epoch = 0; epoch < options_.epochs; ++epoch) {
    uint64_t next = 0;
    for (const auto& [begin, end] : ranges[epoch]) {
      if (begin != next) {
        Violation(
            "epoch " + std::to_string(epoch) + ": samples from " + std::to_string(next) + " to " +
            std::to_string(begin) + " are missing or counted twice");
      }
      next = end;
    }
    if (next != options_.train_samples) {
      Violation(
          "epoch " + std::to_string(epoch) + " ends at sample " + std::to_string(next) + " of " +
          std::to_string(options_.train_samples));
    }
  }
}

}  // namespace ps::sim
