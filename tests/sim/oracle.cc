#include "tests/sim/oracle.h"

#include <algorithm>
#include <cstring>
#include <optional>

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
  started_[incarnation] = step;
}

/// Whether somebody who takes part may compute with what a shard had in this life.
bool Oracle::MayKnow(const Life& life, Incarnation incarnation) const {
  const auto era = eras_.find(incarnation);
  return era == eras_.end() || era->second == life.number;
}

/// bsp: whether all chunks are of one round, in the life that the worker takes part in. They may be
/// on other shards by now than the worker knows.
bool Oracle::IsOfOneRound(
    Incarnation incarnation,
    const client::ChunkLayout& layout,
    std::span<const float> parameters) const {
  std::vector<const Life*> lives;
  std::set<uint64_t> rounds;
  for (const auto& [shard, its] : lives_) {
    for (const auto& life : its) {
      if (MayKnow(*life, incarnation)) {
        lives.push_back(life.get());
        for (const auto& [round, versions] : life->rounds) {
          rounds.insert(round);
        }
      }
    }
  }
  const auto has = [&](const Life& life, const client::ChunkLayout::Chunk& chunk, uint64_t round) {
    const auto versions = life.rounds.find(round);
    const auto known = life.parameters.history.find(chunk.key);
    if (versions == life.rounds.end() || known == life.parameters.history.end()) {
      return false;
    }
    const auto version = versions->second.find(chunk.key);
    return version != versions->second.end() && version->second < known->second.size() &&
           std::memcmp(
               known->second[version->second]->data(),
               parameters.data() + chunk.offset,
               chunk.element_count * sizeof(float)) == 0;
  };
  return std::any_of(rounds.rbegin(), rounds.rend(), [&](uint64_t round) {
    return std::ranges::all_of(layout.chunks(), [&](const auto& chunk) {
      return std::ranges::any_of(lives, [&](const Life* life) { return has(*life, chunk, round); });
    });
  });
}

/// Whether a part of a chunk had these values in a life, since the worker's own last step in it.
bool Oracle::IsKnown(
    const Life& life,
    Incarnation incarnation,
    const client::ChunkLayout::Chunk& chunk,
    uint64_t begin,
    std::span<const float> values) const {
  const Parameters& parameters = life.parameters;
  const auto known = parameters.history.find(chunk.key);
  if (known == parameters.history.end()) {
    return false;  // the chunk was elsewhere in that life
  }
  const std::vector<Values>& history = known->second;
  const auto own = parameters.own.find({incarnation, chunk.key});
  const Version first = life.begin.at(chunk.key);
  const Version oldest =
      options_.overlap || own == parameters.own.end() ? first : std::max(first, own->second);
  return MayKnow(life, incarnation) &&
         std::any_of(
             history.begin() + static_cast<std::ptrdiff_t>(oldest),
             history.end(),
             [&](const Values& v) {
               return std::memcmp(v->data() + begin, values.data(), values.size_bytes()) == 0;
             });
}

void Oracle::OnGrant(const proto::LeaseGrant& grant) {
  if (grant.kind == proto::LeaseKind::kTrain) {
    grants_[grant.incarnation][grant.lease] = grant;
  }
}

/// By the lease that its newest step is of.
proto::Mode Oracle::ModeOfStep(Incarnation incarnation) const {
  const StepRecord& step = steps_.at({incarnation, started_.at(incarnation)});
  const auto& grants = grants_.at(incarnation);
  const auto lease = std::find_if(grants.rbegin(), grants.rend(), [&](const auto& entry) {
    const proto::LeaseGrant& grant = entry.second;
    return grant.epoch == step.epoch && grant.begin <= step.begin && step.end <= grant.end;
  });
  return lease == grants.rend() ? proto::Mode::kAsync : lease->second.mode;
}

void Oracle::CheckParameters(
    Incarnation incarnation, const client::ChunkLayout& layout, std::span<const float> parameters) {
  const std::string name = "incarnation " + std::to_string(incarnation.value);
  if (ModeOfStep(incarnation) == proto::Mode::kBsp) {
    if (!IsOfOneRound(incarnation, layout, parameters)) {
      Violation(name + " computes with parameters that are of no round");
    }
    return;
  }
  const proto::ChunkParts parts(options_.frame_bytes);
  for (const client::ChunkLayout::Chunk& chunk : layout.chunks()) {
    for (uint32_t part = 0; part < parts.CountOf(chunk.element_count); ++part) {
      const proto::ChunkParts::Range range = parts.At(chunk.element_count, part);
      const std::span<const float> values = parameters.subspan(
          static_cast<size_t>(chunk.offset) + range.element_begin, range.element_count);
      // It may be on another shard by now than the worker knows.
      const bool is_known = std::ranges::any_of(lives_, [&](const auto& shard) {
        return std::ranges::any_of(shard.second, [&](const auto& life) {
          return IsKnown(*life, incarnation, chunk, range.element_begin, values);
        });
      });
      if (!is_known) {
        Violation(
            name + " computes with values of chunk " + std::to_string(chunk.key.value) +
            " that no shard had since the worker's own last step");
      }
    }
  }
}

void Oracle::OnMembership(int node, const proto::Membership& membership) {
  const Process& process = processes_.at(node);
  if (process.life == nullptr || !process.view->IsSetUp()) {
    return;
  }
  if (membership.base > process.life->generation) {
    Violation(
        "a membership builds on one that shard " + std::to_string(process.shard.value) + " lacks");
  }
  TakeMembership(process.life, membership);
}

Oracle::Versions Oracle::Parameters::NewestVersions() const {
  Versions versions;
  for (const auto& [key, values] : history) {
    versions[key] = values.size() - 1;
  }
  return versions;
}

/// Nobody has a train lease then: rounds go on where they were, and under ssp all are level.
void Oracle::TakeMode(Life* life, const proto::ModeChoice& before) {
  const proto::ModeChoice& now = life->membership.mode;
  if (now.mode == proto::Mode::kBsp && before.mode != proto::Mode::kBsp) {
    life->parameters.round = life->membership.round;
    life->rounds[life->parameters.round] = life->parameters.NewestVersions();
  }
  if (now.mode == proto::Mode::kSsp && now != before) {
    for (const auto& [incarnation, clock] : life->clocks) {
      life->floor = std::max(life->floor, clock);
    }
    for (auto& [incarnation, clock] : life->clocks) {
      clock = life->floor;
    }
  }
}

void Oracle::TakeMembership(Life* life, const proto::Membership& membership) {
  if (membership.generation <= life->generation) {
    return;
  }
  const proto::ModeChoice mode = life->membership.mode;
  proto::ApplyMembership(membership, &life->membership);
  TakeMode(life, mode);
  life->generation = membership.generation;
  std::set<Incarnation> members;
  std::set<Incarnation> active;
  for (const proto::Member& member : life->membership.members) {
    members.insert(member.incarnation);
    if (options_.goes_back) {
      eras_.emplace(member.incarnation, life->number);
    }
    if (member.is_active) {
      active.insert(member.incarnation);
    }
  }
  // Who becomes active starts where the slowest of those is that were active before and still are,
  // or where the slowest was when it was last seen.
  std::optional<uint64_t> slowest;
  std::optional<uint64_t> slowest_that_stays;
  for (const Incarnation i : life->active) {
    slowest = std::min(slowest.value_or(UINT64_MAX), life->clocks[i]);
    if (active.contains(i)) {
      slowest_that_stays = std::min(slowest_that_stays.value_or(UINT64_MAX), life->clocks[i]);
    }
  }
  life->floor = std::max({life->floor, slowest.value_or(0), slowest_that_stays.value_or(0)});
  for (const Incarnation i : active) {
    if (!life->active.contains(i)) {
      life->clocks[i] = std::max(life->clocks[i], life->floor);
    }
  }
  life->members = std::move(members);
  life->active = std::move(active);
}

void Oracle::BeforePush(int node, const proto::PushRequest& push) {
  const Process& process = processes_.at(node);
  if (process.life == nullptr) {
    return;
  }
  process.life->before.clear();
  for (const proto::ChunkRef& chunk : push.chunks) {
    process.life->before[chunk.key] = process.view->VersionOf(chunk.key);
  }
}

void Oracle::AfterPush(int node, const proto::PushRequest& push) {
  const Process& process = processes_.at(node);
  if (process.life == nullptr) {
    return;
  }
  Life& life = *process.life;
  Parameters& parameters = life.parameters;
  const std::string where = " of shard " + std::to_string(process.shard.value);
  ++pushes_checked_;
  const StepId id{push.incarnation, push.step};
  for (const proto::ChunkRef& chunk : push.chunks) {
    const Version grown = process.view->VersionOf(chunk.key) - life.before[chunk.key];
    if (grown == 0) {
      CheckChunk(process.shard, life, chunk.key);
      continue;
    }
    if (life.membership.mode.mode == proto::Mode::kBsp) {
      Violation("a push changed a chunk under bsp: " + Name(id));
      continue;
    }
    if (grown > 1 || parameters.complete.contains(id) ||
        !parameters.under_way[id].insert(chunk.key).second) {
      Violation(Name(id) + " was applied twice to a chunk" + where);
    }
    if (!life.members.contains(push.incarnation)) {
      Violation(Name(id) + " was applied though its incarnation is fenced");
    }
    if (const auto counted = life.counted.find(push.incarnation);
        counted != life.counted.end() && push.step <= counted->second) {
      Violation(Name(id) + " was applied though it counted in an earlier life" + where);
    }
    std::vector<Values>& history = parameters.history.at(chunk.key);
    if (options_.goes_back && !MayKnow(life, push.incarnation)) {
      Violation(Name(id) + " was applied though all servers have gone back since");
    }
    const StepRecord& record = RecordOf(id);
    const ChunkGradient gradient(chunk.key, record.epoch, record.begin);
    auto values = std::make_shared<std::vector<float>>(*history.back());
    for (size_t i = 0; i < values->size(); ++i) {
      (*values)[i] -= static_cast<float>(push.samples) * gradient.At(i);
    }
    ever_applied_[id].insert(chunk.key);
    parameters.own[{push.incarnation, chunk.key}] = history.size();
    history.push_back(std::move(values));
    CheckChunk(process.shard, life, chunk.key);
  }
  const auto under_way = parameters.under_way.find(id);
  if (under_way != parameters.under_way.end() &&
      under_way->second.size() == parameters.history.size()) {
    parameters.under_way.erase(under_way);
    Complete(&life, id);
  }
}

void Oracle::AfterCommit(int node, const proto::CommitRound& commit) {
  const Process& process = processes_.at(node);
  // A shutdown may overtake the last round of a run that is ended at once.
  if (process.life == nullptr || !process.view->IsSetUp() || process.view->IsShutDown() ||
      commit.round != process.life->parameters.round + 1) {
    return;
  }
  Parameters& parameters = process.life->parameters;
  parameters.round = commit.round;
  const auto [it, is_first] =
      rounds_.emplace(std::pair(process.life->number, commit.round), commit.contributions);
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
    const StepId id{c.incarnation, c.step};
    if (!parameters.complete.insert(id).second || !MayKnow(*process.life, c.incarnation)) {
      Violation(Name(id) + " is in two rounds, or of before all servers went back");
    }
  }
  for (auto& [key, history] : parameters.history) {
    // Sequential SGD on the union of the contributions' samples, learning rate 1.
    std::vector<float> sums(history.back()->size());
    for (const auto& c : commit.contributions) {
      const StepRecord& record = RecordOf({c.incarnation, c.step});
      const ChunkGradient gradient(key, record.epoch, record.begin);
      for (size_t i = 0; i < sums.size(); ++i) {
        sums[i] += static_cast<float>(c.samples) * gradient.At(i);
      }
    }
    if (!commit.contributions.empty()) {
      auto values = std::make_shared<std::vector<float>>(*history.back());
      for (size_t i = 0; i < values->size(); ++i) {
        (*values)[i] -= sums[i] / total;
      }
      history.push_back(std::move(values));
    }
    CheckChunk(process.shard, *process.life, key);
    for (const auto& c : commit.contributions) {
      ever_applied_[{c.incarnation, c.step}].insert(key);
    }
  }
  process.life->rounds[commit.round] = parameters.NewestVersions();
}

/// Who has begun a step that is not counted yet computes for the open round, unless it is leaving.
void Oracle::OnCommitSent(
    const proto::CommitRound& commit, const std::function<proto::JobState()>& state) {
  const proto::JobState job = state();
  uint64_t life = 0;
  for (const proto::ShardRecord& shard : job.shards) {
    life = std::max(life, shard.life);
  }
  if (std::pair(life, commit.round) <= commit_sent_) {
    return;  // a repetition
  }
  commit_sent_ = {life, commit.round};
  const std::string round = "round " + std::to_string(commit.round);
  std::set<Incarnation> contributors;
  for (const auto& c : commit.contributions) {
    if (!contributors.insert(c.incarnation).second) {
      Violation(round + " has two gradients of incarnation " + std::to_string(c.incarnation.value));
    }
  }
  for (const auto& [incarnation, member] : job.membership.members) {
    const auto started = started_.find(incarnation);
    if (!contributors.contains(incarnation) && !member.is_draining && started != started_.end() &&
        started->second > member.reported) {
      Violation(round + " lacks the gradient of incarnation " + std::to_string(incarnation.value));
    }
  }
}

void Oracle::CheckChunk(ShardId shard, const Life& life, ChunkKey key) {
  const auto it = life.parameters.history.find(key);
  if (it == life.parameters.history.end() || !life.view->IsSetUp() ||
      life.view->IsBetweenVersions()) {
    return;
  }
  const std::vector<float>& expected = *it->second.back();
  const std::span<const float> actual = life.view->ValuesOf(key);
  if (actual.size() != expected.size() ||
      std::memcmp(actual.data(), expected.data(), actual.size_bytes()) != 0) {
    Violation(
        "chunk " + std::to_string(key.value) + " of shard " + std::to_string(shard.value) +
        " is not what the applied pushes make it");
  }
}

void Oracle::OnPushReply(int node, Incarnation to, const proto::PushReply& reply) {
  const Process& process = processes_.at(node);
  if (process.life == nullptr || reply.life != process.life->number) {
    Violation("a push was acknowledged as of life " + std::to_string(reply.life));
    return;
  }
  const auto counted = process.life->counted.find(to);
  if (counted != process.life->counted.end() && reply.step <= counted->second) {
    return;  // an earlier life had it
  }
  const StepId id{to, reply.step};
  if (reply.outcome == proto::PushOutcome::kApplied &&
      !process.life->parameters.complete.contains(id)) {
    Violation(
        Name(id) + " was acknowledged by shard " + std::to_string(process.shard.value) +
        " before it was applied in full");
  }
}

void Oracle::OnPullRequest(int node, const proto::PullRequest& pull) {
  if (Life* const life = processes_.at(node).life; life != nullptr) {
    life->is_evaluation[pull.incarnation] = pull.is_evaluation;
  }
}

void Oracle::OnPullReply(int node, Incarnation to) {
  const Process& process = processes_.at(node);
  Life& life = *process.life;
  const proto::ModeChoice& mode = life.membership.mode;
  if (mode.mode != proto::Mode::kSsp || !life.active.contains(to) || life.is_evaluation[to]) {
    return;
  }
  uint64_t slowest = life.clocks[to];
  for (const Incarnation i : life.active) {
    slowest = std::min(slowest, life.clocks[i]);
  }
  if (life.clocks[to] - slowest > mode.staleness_max) {
    Violation(
        "incarnation " + std::to_string(to.value) + " was served by shard " +
        std::to_string(process.shard.value) + " while " +
        std::to_string(life.clocks[to] - slowest) + " steps ahead");
  }
}

void Oracle::CheckShard(int node) {
  const Process& process = processes_.at(node);
  if (process.life != nullptr) {
    for (const auto& [key, history] : process.life->parameters.history) {
      CheckChunk(process.shard, *process.life, key);
    }
  }
}

}  // namespace ps::sim
