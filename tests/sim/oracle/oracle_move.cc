// Chunks that move from shard to shard: what a shard gets is what the other one had.

#include <algorithm>
#include <utility>

#include "tests/sim/oracle/oracle.h"

namespace ps::sim {
namespace {

/// The member has made a step in this life of the shard's parameters, to chunks that may have left
/// since: a checkpoint does not say of how many samples a step was.
template <typename Life>
bool HasPushedInThisLife(const Life& life, Incarnation who) {
  return life.who_pushed.contains(who) || std::ranges::any_of(life.begin, [&](const auto& chunk) {
           const auto own = life.parameters.own.find({who, chunk.first});
           return own != life.parameters.own.end() && own->second > chunk.second;
         });
}

}  // namespace

void Oracle::OnOfferSent(int node, uint64_t offer_id, const proto::ChunksOffer& offer) {
  Process& process = processes_.at(node);
  if (process.life == nullptr) {
    return;
  }
  auto made = std::make_shared<Offer>();
  made->from = offer.from;
  made->placement = offer.version;
  made->life = process.life;
  made->members = process.life->members;
  made->complete = process.life->parameters.complete;
  made->again = process.life->again;
  for (const proto::OfferedMember& member : offer.members) {
    if (member.is_active) {
      made->active.insert(member.incarnation);
    }
  }
  SetClocks(*process.life, made.get());
  process.offers[offer_id] = std::move(made);
}

void Oracle::OnOffer(int node, int from, uint64_t offer_id) {
  processes_.at(node).offered = processes_.at(from).offers.at(offer_id);
}

void Oracle::NoteChunks(int node) {
  const Process& process = processes_.at(node);
  if (process.life == nullptr || !process.view->IsSetUp() || process.view->IsShutDown()) {
    return;
  }
  TakeRestoredSlots(process.life);
  const auto& history = process.life->parameters.history;
  std::vector<ChunkKey> come;
  std::vector<ChunkKey> left;
  for (const auto& [key, place] : places_) {
    if (process.view->HasChunk(key) && !history.contains(key)) {
      come.push_back(key);
    } else if (!process.view->HasChunk(key) && history.contains(key)) {
      left.push_back(key);
    }
  }
  if (!come.empty()) {
    TakeChunks(process, come);
  }
  if (!left.empty()) {
    ForgetChunks(process, left);
  }
}

/// A step that the shard had in all of its chunks is under way again when a chunk comes without it.
void Oracle::TakeChunks(const Process& process, const std::vector<ChunkKey>& keys) {
  Life& life = *process.life;
  Parameters& to = life.parameters;
  const Offer& offer = *process.offered;
  Life& giver = *lives_.at(offer.from).back();
  const Parameters& from = giver.parameters;
  // A process that has slept may take what was sent to it long ago; nobody asks it any more. All
  // servers have gone back since, so the giver may lose the chunks: it begins a new life, too.
  if (&life != lives_.at(process.shard).back().get()) {
    giver.given_to_sleepers.insert(keys.begin(), keys.end());
    life.has_strayed = true;
    return;
  }
  const bool is_present = std::ranges::all_of(keys, [&](ChunkKey key) {
    const auto known = from.history.find(key);
    return known != from.history.end() && process.view->VersionOf(key) == known->second.size() - 1;
  });
  if (!is_present) {
    life.has_strayed = true;
    return;
  }
  const auto has = [&](const StepId& step, ChunkKey key) {
    const auto part = from.under_way.find(step);
    return from.complete.contains(step) ||
           (part != from.under_way.end() && part->second.contains(key));
  };
  const bool was_empty = to.history.empty();
  if (was_empty) {
    to.complete.clear();
    to.under_way.clear();
    life.again.clear();
    life.clocks = offer.clocks;
    life.has_strayed = life.has_strayed || !offer.are_known || offer.life != &giver;
    for (const auto& [incarnation, step] : giver.counted) {
      life.counted[incarnation] = std::max(life.counted[incarnation], step);
    }
  }
  std::set<ChunkKey> others;
  for (const auto& [key, history] : to.history) {
    others.insert(key);
  }
  std::map<StepId, std::set<ChunkKey>> applied = std::move(to.under_way);
  to.under_way.clear();
  for (const StepId& step : to.complete) {
    if (!std::ranges::all_of(keys, [&](ChunkKey key) { return has(step, key); })) {
      applied[step] = others;
      life.again.insert(step);
    }
  }
  std::erase_if(to.complete, [&](const StepId& step) { return applied.contains(step); });
  const auto add = [&](const StepId& step) {
    for (const ChunkKey key : keys) {
      if (!to.complete.contains(step) && has(step, key)) {
        applied[step].insert(key);
      }
    }
  };
  for (const StepId& step : from.complete) {
    add(step);
  }
  for (const auto& [step, chunks] : from.under_way) {
    add(step);
  }
  if (was_empty) {
    to.round = from.round;
    to.samples = offer.samples;
    to.moves = from.moves;
  }
  ++to.moves;
  for (const auto& [round, versions] : giver.rounds) {
    for (const ChunkKey key : keys) {
      if (const auto version = versions.find(key); version != versions.end()) {
        life.rounds[round].insert(*version);
      }
    }
  }
  for (const ChunkKey key : keys) {
    to.history[key] = from.history.at(key);
    Values& newest = to.history[key].back();
    newest = std::make_shared<const ChunkState>(optimizer_.Taken(*newest));
    life.begin[key] = giver.begin.at(key);
    places_.at(key).shard = process.shard;
    held_copies_.Move(&giver, &life, key);
  }
  placement_ = std::max(placement_, offer.placement);
  for (const auto& [who, version] : from.own) {
    if (std::ranges::find(keys, who.second) != keys.end()) {
      to.own[who] = version;
    }
  }
  std::vector<StepId> complete;  // here, and not where they come from: the clocks lack them
  for (auto& [step, chunks] : applied) {
    const bool is_again = was_empty && offer.again.contains(step);
    if (chunks.size() < to.history.size()) {
      to.under_way[step] = std::move(chunks);
      if (is_again && !offer.to_come.contains(step)) {
        life.again.insert(step);  // it is in the clocks that have come
      }
    } else if (was_empty ? offer.complete.contains(step) : from.complete.contains(step)) {
      to.complete.insert(step);
    } else if (is_again) {
      to.complete.insert(step);
      if (offer.to_come.contains(step) && life.members.contains(step.first)) {
        ++life.clocks[step.first];
        to.samples += SamplesOf(life, step);
      }
    } else {
      complete.push_back(step);
    }
  }
  for (const StepId& step : complete) {
    Complete(&life, step);
  }
  if (was_empty) {
    LevelClocks(offer.members, offer.active, &life);
  }
  for (const ChunkKey key : keys) {
    CheckChunk(process.shard, life, key);
  }
}

/// Whether a step that was complete may still be made for the chunks that came without it.
/// It begins a step when the one before is everywhere, so a chunk that lacks one before its newest
/// has lost it with an earlier life of a shard: that one stays counted.
bool Oracle::IsToComeAgain(const Life& life, const StepId& step) {
  const auto complete = life.parameters.complete.upper_bound(step);
  const auto under_way = life.parameters.under_way.upper_bound(step);
  return (complete == life.parameters.complete.end() || complete->first != step.first) &&
         (under_way == life.parameters.under_way.end() || under_way->first.first != step.first);
}

void Oracle::SetClocks(const Life& from, Offer* offer) {
  offer->clocks = from.clocks;
  offer->samples = from.parameters.samples;
  for (const StepId& step : from.again) {
    if (!from.members.contains(step.first) || !IsToComeAgain(from, step)) {
      continue;
    }
    offer->to_come.insert(step);
    offer->samples -= std::min(offer->samples, SamplesOf(from, step));
    uint64_t& clock = offer->clocks[step.first];
    offer->are_known = offer->are_known && clock > 0;  // else it was in no clock that is known here
    clock -= clock > 0 ? 1 : 0;                        // it counts when it is complete
  }
  for (const Incarnation i : from.members) {
    uint64_t& clock = offer->clocks[i];
    clock = offer->active.contains(i) ? clock : std::max(clock, from.floor);
  }
}

/// Who was not active there, and is here, starts where the slowest is that is both; when nobody is,
/// where the slowest of all is.
void Oracle::LevelClocks(
    const std::set<Incarnation>& members, const std::set<Incarnation>& active, Life* life) {
  std::optional<uint64_t> slowest;
  std::optional<uint64_t> slowest_of_all;
  for (const Incarnation i : members) {
    if (const uint64_t clock = life->clocks[i]; life->members.contains(i)) {
      slowest_of_all = std::min(slowest_of_all.value_or(clock), clock);
    }
  }
  for (const Incarnation i : life->active) {
    if (active.contains(i)) {
      slowest = std::min(slowest.value_or(UINT64_MAX), life->clocks[i]);
    }
  }
  life->floor = slowest.value_or(slowest_of_all.value_or(0));
  for (const Incarnation i : life->active) {
    if (!active.contains(i)) {
      life->clocks[i] = std::max(life->clocks[i], life->floor);
    }
  }
}

void Oracle::ForgetChunks(const Process& process, const std::vector<ChunkKey>& keys) {
  Life& life = *process.life;
  Parameters& parameters = life.parameters;
  ++parameters.moves;
  for (const ChunkKey key : keys) {
    if (places_.at(key).shard == process.shard && !life.given_to_sleepers.contains(key)) {
      Violation("chunk " + std::to_string(key.value) + " left, and is nowhere else");
    }
    for (const auto& [who, version] : parameters.own) {
      if (who.second == key && version > life.begin.at(key)) {
        life.who_pushed.insert(who.first);
      }
    }
    parameters.history.erase(key);
    life.begin.erase(key);
  }
  for (auto it = parameters.under_way.begin(); it != parameters.under_way.end();) {
    for (const ChunkKey key : keys) {
      it->second.erase(key);
    }
    if (it->second.size() == parameters.history.size() && !parameters.history.empty()) {
      Complete(&life, it->first);
      it = parameters.under_way.erase(it);
    } else {
      ++it;
    }
  }
}

void Oracle::Complete(Life* life, const StepId& step) {
  const auto place = life->parameters.complete.insert(step).first;
  // An earlier step may miss no chunk any more, after one that lost it with an earlier life left.
  const auto next = std::next(place);
  const bool is_newest = (next == life->parameters.complete.end() || next->first != step.first) &&
                         step.second > life->counted[step.first] &&
                         life->members.contains(step.first);  // of who is gone nothing counts anew
  if (life->again.erase(step) == 0 && is_newest) {
    ++life->clocks[step.first];
    life->parameters.samples += SamplesOf(*life, step);
  }
}

/// By which the step makes the schedule's clock grow: none where nothing of it was finite, or where
/// it is of a checkpoint.
uint64_t Oracle::SamplesOf(const Life& life, const StepId& step) {
  if (!HasPushedInThisLife(life, step.first)) {
    return 0;
  }
  const bool is_left_out = std::ranges::all_of(
      life.parameters.history, [&](const auto& chunk) { return IsLeftOut(step, chunk.first); });
  const StepRecord& record = RecordOf(step);
  return is_left_out ? 0 : record.end - record.begin;
}

}  // namespace ps::sim
