#include "tests/sim/oracle/oracle.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "ps/proto/chunks.h"
#include "ps/proto/job/optimizer_rules.h"
#include "ps/proto/membership.h"
#include "ps/server/shard_settings.h"

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
  has_steps_ = true;
  started_[incarnation] = step;
  steps_[{incarnation, step}].mode = ModeOfStep(incarnation);
  if (const proto::LeaseGrant* const grant = GrantOfStep(incarnation); grant != nullptr) {
    steps_[{incarnation, step}].settings = grant->settings;
  }
  if (options_.holds_back) {
    HoldBack({incarnation, step});
  }
  if (const auto last = last_steps_.find(incarnation);
      last != last_steps_.end() && last->second < step) {
    Violation(Name({incarnation, step}) + " was begun after the last one of its worker");
  }
}

void Oracle::OnHandOver(Incarnation incarnation, Step step) {
  last_steps_[incarnation] = step;
}

/// The gradient of a chunk as its worker has it.
std::vector<float> Oracle::ComputedOf(const StepId& id, ChunkKey key) {
  std::vector<float> gradient = GradientOf(id, key);
  if (IsLeftOut(id, key)) {
    gradient.back() = std::numeric_limits<float>::quiet_NaN();
  }
  return gradient;
}

/// The worker encodes the gradient of the step.
void Oracle::HoldBack(const StepId& id) {
  for (const auto& [key, place] : places_) {
    held_back_.Take(id.first, id.second, key, ComputedOf(id, key), RecordOf(id).settings);
  }
}

/// A frame is as the lease says, or as f32, of the last step of a worker that leaves.
void Oracle::TakeEncoding(const StepId& id, const proto::PushRequest& push) {
  const codec::Encoding& leased = RecordOf(id).settings.push;
  if (push.encoding == leased) {
    return;
  }
  const auto last = last_steps_.find(id.first);
  if (push.encoding.is_lossy() || last == last_steps_.end() || last->second != id.second) {
    Violation(
        Name(id) + " came as " + push.encoding.ToText() + ", and was leased for " +
        leased.ToText());
    return;
  }
  handed_over_.insert(id);
  for (const proto::ChunkRef& chunk : push.chunks) {
    if (options_.holds_back) {
      held_back_.HandOver(id.first, id.second, chunk.key, ComputedOf(id, chunk.key));
    }
  }
}

void Oracle::OnStepCut(Incarnation incarnation, Step step, uint64_t end) {
  steps_[{incarnation, step}].end = end;
}

bool Oracle::IsFinite(ChunkKey key, uint32_t epoch, uint64_t begin) const {
  const uint64_t step = Mix64((uint64_t{epoch} << 48) ^ (begin << 8) ^ 0xbad);
  return options_.not_finite_every == 0 || step % options_.not_finite_every != 0 ||
         Mix64(step ^ key.value) % 4 == 0;
}

/// The chunk's gradient in the step is not finite.
bool Oracle::IsLeftOut(const StepId& id, ChunkKey key) const {
  const auto step = steps_.find(id);
  return step != steps_.end() && !IsFinite(key, step->second.epoch, step->second.begin);
}

/// bsp: nothing of the step is used, since some of it is not finite.
bool Oracle::IsVoid(const StepId& id) const {
  const auto step = steps_.find(id);
  return step != steps_.end() && step->second.mode == proto::Mode::kBsp &&
         std::ranges::any_of(places_, [&](const auto& place) {
           return !IsFinite(place.first, step->second.epoch, step->second.begin);
         });
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
  for (const auto& [shard, its] : lives_) {
    for (const auto& life : its) {
      if (MayKnow(*life, incarnation)) {
        lives.push_back(life.get());
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
           IsOfVersion(
               life,
               incarnation,
               chunk,
               version->second,
               parameters.subspan(static_cast<size_t>(chunk.offset), chunk.element_count));
  };
  const auto is_of = [&](uint64_t round) {
    return std::ranges::all_of(layout.chunks(), [&](const auto& chunk) {
      return std::ranges::any_of(lives, [&](const Life* life) { return has(*life, chunk, round); });
    });
  };
  // From the newest round on: it is one of the last.
  std::optional<uint64_t> round = RoundBefore(lives, UINT64_MAX);
  while (round && !is_of(*round)) {
    round = RoundBefore(lives, *round);
  }
  return round.has_value();
}

/// Whether a chunk is what the worker has to have of it in this version.
bool Oracle::IsOfVersion(
    const Life& life,
    Incarnation incarnation,
    const client::ChunkLayout::Chunk& chunk,
    Version version,
    std::span<const float> values) const {
  if (!options_.has_differences) {
    const std::vector<Values>& history = life.parameters.history.at(chunk.key);
    return std::memcmp(history[version]->value.data(), values.data(), values.size_bytes()) == 0;
  }
  const proto::ChunkParts parts(options_.frame_bytes);
  for (uint32_t part = 0; part < parts.CountOf(chunk.element_count); ++part) {
    const auto [begin, count] = parts.At(chunk.element_count, part);
    if (!held_copies_.Has(
            &life, incarnation, chunk.key, begin, values.subspan(begin, count), version, version)) {
      return false;
    }
  }
  return true;
}

/// The newest round before that one that any of the lives has.
std::optional<uint64_t> Oracle::RoundBefore(const std::vector<const Life*>& lives, uint64_t round) {
  std::optional<uint64_t> newest;
  for (const Life* life : lives) {
    const auto next = life->rounds.lower_bound(round);
    if (next != life->rounds.begin()) {
      newest = std::max(newest.value_or(0), std::prev(next)->first);
    }
  }
  return newest;
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
  if (options_.has_differences) {
    return MayKnow(life, incarnation) && held_copies_.Has(
                                             &life,
                                             incarnation,
                                             chunk.key,
                                             static_cast<uint32_t>(begin),
                                             values,
                                             oldest,
                                             UINT64_MAX);
  }
  return MayKnow(life, incarnation) &&
         std::any_of(  // mostly one of the newest
             history.rbegin(),
             history.rend() - static_cast<std::ptrdiff_t>(oldest),
             [&](const Values& v) {
               return std::memcmp(v->value.data() + begin, values.data(), values.size_bytes()) == 0;
             });
}

void Oracle::OnGrant(const proto::LeaseGrant& grant) {
  if (grant.kind == proto::LeaseKind::kTrain) {
    grants_[grant.incarnation][grant.lease] = grant;
  }
}

/// The lease that its newest step is of.
const proto::LeaseGrant* Oracle::GrantOfStep(Incarnation incarnation) const {
  const StepRecord& step = steps_.at({incarnation, started_.at(incarnation)});
  const auto& grants = grants_.at(incarnation);
  const auto lease = std::find_if(grants.rbegin(), grants.rend(), [&](const auto& entry) {
    const proto::LeaseGrant& grant = entry.second;
    return grant.epoch == step.epoch && grant.begin <= step.begin && step.end <= grant.end;
  });
  return lease == grants.rend() ? nullptr : &lease->second;
}

proto::Mode Oracle::ModeOfStep(Incarnation incarnation) const {
  const proto::LeaseGrant* const grant = GrantOfStep(incarnation);
  return grant == nullptr ? proto::Mode::kAsync : grant->mode;
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
  Life& life = *process.life;
  TakeRestoredSlots(&life);
  TakeEncoding({push.incarnation, push.step}, push);
  life.before.clear();
  for (const proto::ChunkRef& chunk : push.chunks) {
    life.before[chunk.key] = process.view->VersionOf(chunk.key);
  }
  if (!HasRates()) {
    return;
  }
  // It is fixed with the first frame that is taken.
  const float rate = RateAt(process.view->SamplesDone(), WeightOf(push), LiveWorkers(life));
  std::vector<float>& rates = life.rates[{push.incarnation, push.step}];
  if (std::ranges::find(rates, rate) == rates.end()) {
    rates.push_back(rate);
  }
}

void Oracle::BeforeCommit(int node) {
  const Process& process = processes_.at(node);
  if (process.life != nullptr) {
    TakeRestoredSlots(process.life);
    process.life->samples_before = process.view->SamplesDone();
  }
}

/// The learning rate of an update that stands for so many samples, or for a round (no workers).
float Oracle::RateAt(uint64_t samples, double weight, uint32_t workers) const {
  const double total = static_cast<double>(options_.epochs * options_.train_samples);
  const double done = static_cast<double>(samples) / total;
  const double most = options_.workers_at_full_rate;
  const double share = most > 0 && workers > most ? most / workers : 1;
  return static_cast<float>(proto::ScheduledLr(options_.optimizer, done) * weight * share);
}

/// Those that a shard reckons its rate with; 0 in rounds.
uint32_t Oracle::LiveWorkers(const Life& life) {
  const bool is_bsp = life.membership.mode.mode == proto::Mode::kBsp;
  return is_bsp ? 0 : static_cast<uint32_t>(std::max<size_t>(life.members.size(), 1));
}

/// How much a push counts, by the local steps that its lease had.
double Oracle::WeightOf(const proto::PushRequest& push) {
  const StepRecord& record = RecordOf({push.incarnation, push.step});
  return static_cast<double>(push.samples) / record.settings.local_steps;
}

/// What steps have may change from lease to lease, and from no step to another.
void Oracle::CheckSettings(const StepId& id, const proto::PushRequest& push) {
  const StepRecord& record = RecordOf(id);
  if (push.samples != record.end - record.begin) {
    Violation(
        Name(id) + " was pushed as " + std::to_string(push.samples) + " samples, and is of " +
        std::to_string(record.end - record.begin));
  }
  if (push.local_steps != record.settings.local_steps) {
    Violation(
        Name(id) + " was pushed for " + std::to_string(push.local_steps) +
        " local steps, and leased for " + std::to_string(record.settings.local_steps));
  }
}

/// The chunk is on the shard with these bits.
bool Oracle::IsHere(const Life& life, ChunkKey key, const ChunkState& state) {
  const auto is_same = [](std::span<const float> actual, const std::vector<float>& expected) {
    return actual.size() == expected.size() &&
           (actual.empty() ||
            std::memcmp(actual.data(), expected.data(), actual.size_bytes()) == 0);
  };
  return is_same(life.view->ValuesOf(key), state.value) &&
         is_same(life.view->SlotOf(key, 0), state.slots[0]) &&
         is_same(life.view->SlotOf(key, 1), state.slots[1]);
}

/// A shard that goes back keeps what has not changed since, and reads the rest from the disk.
void Oracle::TakeRestoredSlots(Life* life) {
  if (life->restored.empty() || !life->view->IsSetUp()) {
    return;
  }
  for (const ChunkKey key : std::exchange(life->restored, {})) {
    const auto history = life->parameters.history.find(key);
    if (history == life->parameters.history.end()) {
      continue;
    }
    Values& newest = history->second.back();
    uint32_t count = 0;
    for (ChunkState& state : optimizer_.KeptOrRead(*newest, options_.has_bf16_slots)) {
      if (IsHere(*life, key, state) && ++count == 1) {
        newest = std::make_shared<const ChunkState>(std::move(state));
      }
    }
    if (count > 1) {
      life->alike.insert(key);
    }
  }
}

/// The chunk's next version. A step whose first frames came twice, or before a chunk that moved,
/// may have been begun at one of several times.
void Oracle::Update(
    Life* life, ChunkKey key, std::span<const float> gradient, std::span<const float> rates) {
  std::vector<Values>& history = life->parameters.history.at(key);
  std::vector<ChunkState> before = {*history.back()};
  if (life->alike.erase(key) > 0) {
    before.push_back(optimizer_.Taken(before[0]));
  }
  std::shared_ptr<ChunkState> next;
  for (size_t i = 0; i < before.size() * rates.size(); ++i) {
    next = std::make_shared<ChunkState>(before[i / rates.size()]);
    optimizer_.Apply(
        gradient, {rates[i % rates.size()], LiveWorkers(*life)}, history.size(), next.get());
    if (before.size() * rates.size() == 1 || IsHere(*life, key, *next)) {
      break;
    }
  }
  history.push_back(std::move(next));
}

/// Not of a shard without chunks: it gets the time with the first ones. Two things are not known
/// once chunks have moved: whether anything of a step counts that had a chunk which was not finite;
/// and of how many samples a step was that a server had before it was lost, and that is complete by
/// the move alone. docs/simulation.md says so of the core.
void Oracle::CheckClock(ShardId shard, const Life& life) {
  if (!life.view->IsSetUp() || life.view->IsBetweenVersions() || life.has_strayed ||
      life.parameters.history.empty()) {
    return;
  }
  constexpr uint64_t kMinibatchMax = 8;
  const uint64_t actual = life.view->SamplesDone();
  const uint64_t expected = life.parameters.samples;
  const bool is_exact =
      options_.not_finite_every == 0 && std::ranges::none_of(lives_, [](const auto& lives) {
        return !lives.second.empty() && lives.second.back()->number > 1;
      });
  const uint64_t most =
      is_exact ? 0 : life.parameters.moves * kMinibatchMax * options_.local_steps * started_.size();
  if (std::max(actual, expected) - std::min(actual, expected) > most) {
    Violation(
        "the schedule of shard " + std::to_string(shard.value) + " is at sample " +
        std::to_string(actual) + ", and its steps are of " + std::to_string(expected));
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
    if (IsLeftOut(id, chunk.key)) {
      if (grown > 0) {
        Violation(Name(id) + " is not finite and changed a chunk" + where);
      } else if (
          life.membership.mode.mode != proto::Mode::kBsp && !parameters.complete.contains(id) &&
          !IsVoid(id) &&  // else it comes once more, of a round of bsp that was before
          process.view->HasStep(push.incarnation, push.step, chunk.key)) {
        parameters.under_way[id].insert(chunk.key);
        ever_applied_[id].insert(chunk.key);
      }
    }
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
    if (options_.goes_back && !MayKnow(life, push.incarnation)) {
      Violation(Name(id) + " was applied though all servers have gone back since");
    }
    ever_applied_[id].insert(chunk.key);
    CheckSettings(id, push);
    const auto history = parameters.history.find(chunk.key);
    if (history == parameters.history.end()) {
      if (!life.has_strayed) {
        Violation(Name(id) + " was applied to a chunk that is not here" + where);
      }
      continue;
    }
    parameters.own[{push.incarnation, chunk.key}] = history->second.size();
    const std::vector<float> usual = {RateAt(0, WeightOf(push), 0)};
    Update(&life, chunk.key, ArrivesOf(id, chunk.key), HasRates() ? life.rates[id] : usual);
    CheckChunk(process.shard, life, chunk.key);
  }
  const auto under_way = parameters.under_way.find(id);
  if (under_way != parameters.under_way.end() &&
      under_way->second.size() == parameters.history.size()) {
    parameters.under_way.erase(under_way);
    Complete(&life, id);
    life.rates.erase(id);
  }
  CheckClock(process.shard, life);
}

/// What a shard gets of a chunk's gradient in a step.
std::vector<float> Oracle::ArrivesOf(const StepId& id, ChunkKey key) {
  return options_.holds_back ? held_back_.ArrivesOf(id.first, id.second, key) : GradientOf(id, key);
}

/// The gradient of a chunk in a step.
std::vector<float> Oracle::GradientOf(const StepId& id, ChunkKey key) {
  const StepRecord& record = RecordOf(id);
  const ChunkGradient gradient(key, record.epoch, record.begin);
  std::vector<float> values(places_.at(key).count);
  for (uint32_t i = 0; i < values.size(); ++i) {
    values[i] = gradient.At(i);
  }
  return values;
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
  const std::vector<float> rates = {RateAt(process.life->samples_before, 1, 0)};
  for (const auto& [key, history] : parameters.history) {
    // One step on the union of the contributions' samples. The gradient of one worker alone is
    // taken as it is: weighing it would round what is no integer.
    const bool is_alone = commit.contributions.size() == 1;
    std::vector<float> mean(places_.at(key).count);
    for (const auto& c : commit.contributions) {
      const std::vector<float> gradient = ArrivesOf({c.incarnation, c.step}, key);
      for (size_t i = 0; i < mean.size(); ++i) {
        mean[i] += (is_alone ? 1 : static_cast<float>(c.samples)) * gradient[i];
      }
      ever_applied_[{c.incarnation, c.step}].insert(key);
    }
    for (float& value : mean) {
      value /= is_alone ? 1 : total;
    }
    if (!commit.contributions.empty()) {
      Update(process.life, key, mean, rates);
    }
    CheckChunk(process.shard, *process.life, key);
  }
  parameters.samples += static_cast<uint64_t>(total);
  process.life->rounds[commit.round] = parameters.NewestVersions();
}

/// Who has begun a step that is not counted yet computes for the open round, unless it is leaving.
void Oracle::OnCommitSent(const proto::CommitRound& commit, const proto::JobState& job) {
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
    if (IsVoid({c.incarnation, c.step})) {
      Violation(round + " has " + Name({c.incarnation, c.step}) + ", which is not finite");
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
  const ChunkState& newest = *it->second.back();
  const bool may_be_read = life.restored.contains(key);
  if (!IsHere(life, key, newest) &&
      !(may_be_read && std::ranges::any_of(
                           optimizer_.KeptOrRead(newest, options_.has_bf16_slots),
                           [&](const ChunkState& state) { return IsHere(life, key, state); }))) {
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
  if (process.life->has_strayed) {
    return;  // maybe of chunks that are not known here; nobody counts on this life
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

void Oracle::TakeCopies(const Process& process, Incarnation to, const proto::PullReply& reply) {
  const Life& life = *process.life;
  if (!options_.has_differences || reply.life != life.number) {
    return;
  }
  const std::string wrong = held_copies_.Take(
      &life, to, reply, [&](ChunkKey key, Version version) -> std::span<const float> {
        const auto history = life.parameters.history.find(key);
        const bool is_known = history != life.parameters.history.end() && !life.has_strayed &&
                              version < history->second.size();
        return is_known ? std::span<const float>(history->second[version]->value)
                        : std::span<const float>();
      });
  if (!wrong.empty()) {
    Violation("shard " + std::to_string(process.shard.value) + " sends " + wrong);
  }
}

void Oracle::OnPullReply(int node, Incarnation to, const proto::PullReply& reply) {
  const Process& process = processes_.at(node);
  TakeCopies(process, to, reply);
  Life& life = *process.life;
  const proto::ModeChoice& mode = life.membership.mode;
  if (mode.mode != proto::Mode::kSsp || !life.active.contains(to) || life.is_evaluation[to] ||
      life.has_strayed) {
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
    CheckClock(process.shard, *process.life);
  }
}

}  // namespace ps::sim
