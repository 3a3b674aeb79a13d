// Lives that begin from checkpoints, what checkpoints have, and what a run has counted at its end.

#include <algorithm>
#include <iterator>
#include <utility>

#include "ps/proto/chunks.h"
#include "tests/sim/oracle/oracle.h"

namespace ps::sim {

/// Nobody who has taken part is forgotten.
bool Oracle::HasAll(const proto::JobState& job) const {
  uint64_t count = 0;
  ForEachThatCounts(job, [&](Incarnation /*incarnation*/, Step /*steps*/) { ++count; });
  return count == job.membership.incarnation_max.value;
}

void Oracle::AddProcess(int node, ShardId shard, const ShardView* view) {
  processes_[node] = {shard, view, nullptr};
  lives_.try_emplace(shard);
}

Oracle::Parameters Oracle::InitialParameters(
    ShardId shard, const proto::Placement& placement) const {
  Parameters parameters;
  for (const proto::ChunkAssignment& chunk : placement.chunks) {
    if (chunk.shard != shard) {
      continue;
    }
    std::vector<float> values(chunk.element_count);
    for (uint32_t i = 0; i < chunk.element_count; ++i) {
      values[i] = options_.initial_value(TensorOf(chunk.key), chunk.element_begin + i);
    }
    parameters.history[chunk.key] = {
        std::make_shared<const ChunkState>(optimizer_.Begin(std::move(values)))};
  }
  return parameters;
}

/// What the parts of the checkpoint, by whatever shards, have of the shard's chunks. Nothing: one
/// of them is nowhere.
std::optional<Oracle::Parameters> Oracle::RestoredParameters(
    ShardId shard, const proto::Placement& placement, const proto::RestoreOrder& restore) const {
  const uint64_t checkpoint = restore.checkpoint;
  Parameters parameters;
  std::map<StepId, std::set<ChunkKey>> applied;
  std::optional<uint32_t> nearest;  // its own part first: that has the schedule's clock
  for (const proto::ChunkAssignment& chunk : placement.chunks) {
    if (chunk.shard != shard) {
      continue;
    }
    auto part = parts_.lower_bound({checkpoint, ShardId(0)});
    while (part != parts_.end() && part->first.first == checkpoint &&
           !part->second.history.contains(chunk.key)) {
      ++part;
    }
    if (part == parts_.end() || part->first.first != checkpoint) {
      return std::nullopt;
    }
    const Parameters& from = part->second;
    parameters.history[chunk.key] = from.history.at(chunk.key);
    parameters.round = from.round;
    const uint32_t distance =
        (part->first.second.value + restore.shards - shard.value % restore.shards) % restore.shards;
    if (!nearest || distance < *nearest) {
      nearest = distance;
      parameters.samples = from.samples;
      parameters.moves = from.moves;
    }
    for (const auto& [key, version] : from.own) {
      if (key.second == chunk.key) {
        parameters.own[key] = version;
      }
    }
    for (const StepId& step : from.complete) {
      applied[step].insert(chunk.key);
    }
    for (const auto& [step, chunks] : from.under_way) {
      if (chunks.contains(chunk.key)) {
        applied[step].insert(chunk.key);
      }
    }
  }
  for (auto& [step, chunks] : applied) {
    if (chunks.size() == parameters.history.size()) {
      parameters.complete.insert(step);
    } else {
      parameters.under_way[step] = std::move(chunks);
      // Whether these chunks of it were finite is not in the checkpoint: as after a move.
      parameters.moves += options_.not_finite_every > 0 ? 1 : 0;
    }
  }
  return parameters;
}

/// All shards that begin a life begin it from one checkpoint.
void Oracle::NoteReturn(ShardId shard, const proto::ShardSetup& setup) {
  const uint64_t checkpoint = setup.restore.checkpoint;
  const uint64_t known = returns_.emplace(setup.life, checkpoint).first->second;
  if (options_.goes_back && known != checkpoint) {
    Violation(
        "shard " + std::to_string(shard.value) + " is to go back to checkpoint " +
        std::to_string(checkpoint) + ", and another one to " + std::to_string(known));
  }
}

Oracle::Life* Oracle::BeginLife(int node, const proto::ShardSetup& setup) {
  Process& process = processes_.at(node);
  if (setup.placement.version >= placement_) {
    placement_ = setup.placement.version;
    for (const proto::ChunkAssignment& chunk : setup.placement.chunks) {
      places_[chunk.key] = {chunk.shard, chunk.element_begin, chunk.element_count};
    }
  }
  auto life = std::make_unique<Life>();
  life->number = setup.life;
  life->view = process.view;
  std::optional<Parameters> restored =
      RestoredParameters(process.shard, setup.placement, setup.restore);
  if (setup.restore.checkpoint == 0) {
    life->parameters = InitialParameters(process.shard, setup.placement);
  } else if (restored) {
    life->parameters = *std::move(restored);
    for (const auto& [key, history] : life->parameters.history) {
      life->restored.insert(key);
    }
  } else {
    Violation(
        "shard " + std::to_string(process.shard.value) + " is to go back to checkpoint " +
        std::to_string(setup.restore.checkpoint) + ", of which it has no part");
    life->parameters = InitialParameters(process.shard, setup.placement);
  }
  if (!life->parameters.history.empty()) {
    NoteReturn(process.shard, setup);
  }
  for (const auto& [key, history] : life->parameters.history) {
    life->begin[key] = history.size() - 1;
  }
  process.life = life.get();
  // A process that was given up may begin an earlier life late.
  auto& lives = lives_.at(process.shard);
  const auto place = std::ranges::upper_bound(
      lives, setup.life, {}, [](const auto& other) { return other->number; });
  lives.insert(place, std::move(life));
  return process.life;
}

void Oracle::OnSetup(int node, const proto::ShardSetup& setup) {
  const Process& process = processes_.at(node);
  Life* life = process.life;
  if (life != nullptr && setup.life < life->number) {
    return;  // overtaken
  }
  if (life != nullptr && setup.life == life->number && process.view->IsSetUp()) {
    TakeMembership(life, setup.membership);  // a repetition brings no more than that
    return;
  }
  if (life == nullptr || setup.life != life->number) {
    life = BeginLife(node, setup);
  }
  life->counted.clear();
  for (const proto::CountedStep& counted : setup.counted) {
    life->counted[counted.incarnation] = counted.step;
  }
  life->membership = proto::Membership();
  life->generation = Generation();
  life->active.clear();
  life->clocks.clear();
  life->floor = 0;
  TakeMembership(life, setup.membership);
}

void Oracle::OnSnapshot(int node, uint64_t checkpoint) {
  Life& life = *processes_.at(node).life;
  TakeRestoredSlots(&life);
  life.snapshots[checkpoint] = life.parameters;
}

void Oracle::OnPartCommitted(int node, uint64_t checkpoint) {
  const Process& process = processes_.at(node);
  const auto snapshot = process.life->snapshots.find(checkpoint);
  if (snapshot != process.life->snapshots.end()) {
    parts_[{checkpoint, process.shard}] = snapshot->second;
    process.life->snapshots.erase(
        process.life->snapshots.begin(), process.life->snapshots.upper_bound(checkpoint));
  }
}

const ChunkState* Oracle::StateAt(uint64_t checkpoint, ShardId shard, ChunkKey key) const {
  const auto part = parts_.find({checkpoint, shard});
  if (part == parts_.end()) {
    return nullptr;
  }
  const auto history = part->second.history.find(key);
  return history == part->second.history.end() ? nullptr : history->second.back().get();
}

/// Counted steps of `job` that one of the parameters lacks.
std::vector<StepId> Oracle::MissingOf(
    const proto::JobState& job, const std::map<ShardId, const Parameters*>& parameters) const {
  std::vector<StepId> missing;
  ForEachThatCounts(job, [&](Incarnation incarnation, Step steps) {
    for (Step step = 1; step <= steps; ++step) {
      const StepId id{incarnation, step};
      const bool is_there =
          std::all_of(parameters.begin(), parameters.end(), [&](const auto& entry) {
            return entry.second->history.empty() || entry.second->complete.contains(id);
          });
      if (!is_there && !IsVoid(id)) {
        missing.push_back(id);
      }
    }
  });
  return missing;
}

/// Where all go back, nothing that counts is lacking.
void Oracle::CheckUndone(const std::string& who, const std::vector<StepId>& missing) {
  for (const auto& [incarnation, step] : missing) {
    if (options_.goes_back || !losses_.IsUndone({incarnation, step})) {
      Violation(
          who + " lacks step " + std::to_string(step) + " of incarnation " +
          std::to_string(incarnation.value) + ", which counts and was not reported as undone");
      return;
    }
  }
}

/// Of those who took part before all servers went back to begin the life, just what the checkpoint
/// counted counts.
void Oracle::CheckKept(const proto::JobState& job, uint64_t life) {
  const auto checkpoint = returns_.find(life);
  if (!options_.goes_back || life <= 1 || checkpoint == returns_.end()) {
    return;
  }
  const std::map<Incarnation, Step>& kept = counted_at_[checkpoint->second];
  ForEachThatCounts(job, [&](Incarnation incarnation, Step steps) {
    const auto era = eras_.find(incarnation);
    const auto it = kept.find(incarnation);
    const Step expected = it == kept.end() ? 0 : it->second;
    if (era != eras_.end() && era->second < life && steps != expected) {
      Violation(
          std::to_string(steps) + " steps of incarnation " + std::to_string(incarnation.value) +
          " count, and checkpoint " + std::to_string(checkpoint->second) +
          ", to which all went back, has " + std::to_string(expected));
    }
  });
}

void Oracle::OnManifest(const checkpoint::Manifest& manifest, const proto::JobState& job) {
  const std::string name = "checkpoint " + std::to_string(manifest.id);
  ForEachThatCounts(job, [&](Incarnation incarnation, Step steps) {
    counted_at_[manifest.id][incarnation] = steps;
  });
  CheckKept(job, job.shards.front().life);
  std::map<ShardId, const Parameters*> parameters;
  for (const checkpoint::ManifestPart& part : manifest.parts) {
    const auto it = parts_.find({manifest.id, part.shard});
    if (it == parts_.end()) {
      Violation(name + " exists without a part of shard " + std::to_string(part.shard.value));
      return;
    }
    parameters[part.shard] = &it->second;
  }
  CheckUndone(name, MissingOf(job, parameters));
  losses_.OnCheckpoint(manifest.id, job);
  undone_at_[manifest.id] = undone_before_ + job.checkpoints.steps_undone;
}

/// Who takes part from now on gets numbers that later ones may have had. In async and ssp the
/// parts of a checkpoint have also steps that it does not count, of later ones, too.
void Oracle::OnResume(uint64_t checkpoint, const proto::JobState& saved) {
  losses_.OnResume(checkpoint, saved.membership.incarnation_max);
  undone_before_ = undone_at_[checkpoint];
  inherited_max_ = saved.membership.incarnation_max;
  const auto is_later = [this](const auto& entry) { return entry.first > inherited_max_; };
  const auto is_of_later = [this](const auto& entry) { return entry.first.first > inherited_max_; };
  held_back_.OnResume(inherited_max_);
  last_steps_.clear();
  std::erase_if(steps_, is_of_later);
  std::erase_if(ever_applied_, is_of_later);
  std::erase_if(started_, is_later);
  std::erase_if(grants_, is_later);
  std::erase_if(eras_, is_later);
  for (auto& [place, parameters] : parts_) {
    std::erase_if(parameters.complete, is_later);
    std::erase_if(parameters.under_way, is_of_later);
    std::erase_if(parameters.own, is_of_later);
  }
  for (auto& [shard, lives] : lives_) {
    std::ranges::move(lives, std::back_inserter(past_lives_));
    lives.clear();
  }
  rounds_.clear();
  commit_sent_ = {};
  returns_.clear();
  placement_ = 0;
  has_steps_ = false;
}

void Oracle::CheckModel(const std::vector<std::vector<float>>& model, bool is_stopped) {
  for (const auto& [shard, lives] : lives_) {
    if (lives.empty()) {
      continue;  // it never had any chunks
    }
    for (const auto& [key, history] : lives.back()->parameters.history) {
      if (places_.at(key).shard != shard) {
        continue;  // it has moved
      }
      const auto begin = model.at(TensorOf(key)).begin() + places_.at(key).begin;
      const auto is_in_model = [&](const auto& values) {
        return std::equal(values->value.begin(), values->value.end(), begin);
      };
      // A stop does not wait for ever, so a push that nobody counts may come after the model is
      // read.
      if (is_stopped ? std::ranges::none_of(history, is_in_model) : !is_in_model(history.back())) {
        Violation("the model's file has other values of chunk " + std::to_string(key.value));
      }
    }
  }
}

const StepRecord& Oracle::RecordOf(const StepId& id) {
  if (!steps_.contains(id)) {
    Violation(
        "step " + std::to_string(id.second) + " of incarnation " + std::to_string(id.first.value) +
        " was never computed");
  }
  return steps_[id];
}

/// What is counted is each sample once; when the run was stopped, each at most once.
void Oracle::CheckTiles(const proto::JobState& job, bool is_stopped) {
  std::map<uint32_t, std::map<uint64_t, uint64_t>> ranges;  // epoch -> begin -> end
  ForEachThatCounts(job, [&](Incarnation incarnation, Step steps) {
    for (Step step = 1; step <= steps; ++step) {
      const StepRecord& record = RecordOf({incarnation, step});
      if (!ranges[record.epoch].emplace(record.begin, record.end).second) {
        Violation(
            "samples from " + std::to_string(record.begin) + " of epoch " +
            std::to_string(record.epoch) + " count twice, the second time by step " +
            std::to_string(step) + " of incarnation " + std::to_string(incarnation.value));
      }
    }
  });
  for (uint32_t epoch = 0; epoch < options_.epochs; ++epoch) {
    uint64_t next = 0;
    for (const auto& [begin, end] : ranges[epoch]) {
      if (begin < next || (begin > next && !is_stopped)) {
        Violation(
            "epoch " + std::to_string(epoch) + ": samples from " + std::to_string(next) + " to " +
            std::to_string(begin) + " are missing or counted twice");
      }
      next = end;
    }
    if (next != options_.train_samples && !is_stopped) {
      Violation(
          "epoch " + std::to_string(epoch) + " ends at sample " + std::to_string(next) + " of " +
          std::to_string(options_.train_samples));
    }
  }
}

/// A shard forgets what was not finite when chunks move, and a coordinator what a worker that is
/// gone has not reported; in bsp a round needs to know.
void Oracle::CheckRejected(const proto::JobState& job) {
  uint64_t samples = 0;
  ForEachThatCounts(job, [&](Incarnation incarnation, Step steps) {
    for (Step step = 1; step <= steps; ++step) {
      const StepRecord& record = RecordOf({incarnation, step});
      const bool is_finite = std::ranges::all_of(places_, [&](const auto& place) {
        return IsFinite(place.first, record.epoch, record.begin);
      });
      samples += is_finite ? 0 : record.end - record.begin;
    }
  });
  const uint64_t said = job.counters.samples_rejected;
  if (said > samples || (said < samples && options_.is_only_bsp)) {
    Violation(
        std::to_string(said) + " samples are said to be rejected, and " + std::to_string(samples) +
        " were not finite");
  }
}

void Oracle::CheckFinalState(const proto::JobState& job, bool is_stopped) {
  std::map<ShardId, const Parameters*> last;
  for (const auto& [shard, lives] : lives_) {
    if (!lives.empty() && shard.value < job.shards.size()) {
      const Life& life = *lives.back();
      last[shard] = &life.parameters;
      for (const auto& [key, history] : life.parameters.history) {
        CheckChunk(shard, life, key);
      }
    }
  }
  if (!HasAll(job)) {
    return;
  }
  CheckTiles(job, is_stopped);
  CheckRejected(job);
  if (is_stopped && job.modes.in_force.mode == proto::Mode::kBsp) {
    return;  // what counts in the open round is never committed when a run is ended at once
  }
  CheckAllCount(job, is_stopped);
  const std::vector<StepId> missing = MissingOf(job, last);
  CheckUndone("the run", missing);
  const uint64_t undone = undone_before_ + job.checkpoints.steps_undone;
  if (missing.size() > undone) {
    Violation(
        std::to_string(missing.size()) + " counted steps are lost with parameters, and " +
        std::to_string(undone) + " were reported");
  }
}

/// A step counts if and only if every shard has had all of it. Where all servers go back, they
/// still have it; in async and ssp they have also what was applied and not yet counted when they
/// began the checkpoint.
void Oracle::CheckAllCount(const proto::JobState& job, bool is_stopped) {
  std::map<ShardId, const std::set<StepId>*> applied;
  uint64_t life = 0;
  bool was_lost = false;
  for (const auto& [shard, lives] : lives_) {
    if (!lives.empty() && !lives.back()->parameters.history.empty() &&
        shard.value < job.shards.size()) {
      applied[shard] = &lives.back()->parameters.complete;
      life = std::max(life, lives.back()->number);
    }
    was_lost = was_lost || lives.size() > 1;  // its chunks may be elsewhere by now
  }
  CheckKept(job, life);
  std::map<Incarnation, Step> counted;
  uint64_t total = 0;
  ForEachThatCounts(job, [&](Incarnation i, Step steps) {
    counted[i] = steps;
    total += steps;
  });
  if (total != job.counters.steps_counted) {
    Violation(
        std::to_string(job.counters.steps_counted) + " steps are said to be counted, and " +
        std::to_string(total) + " are");
  }
  for (const auto& [id, record] : steps_) {
    const bool is_complete =
        options_.goes_back
            ? std::ranges::all_of(
                  applied, [&](const auto& entry) { return entry.second->contains(id); })
            : ever_applied_[id].size() == places_.size();
    const bool is_counted = id.second <= counted[id.first];
    if (!is_counted && id.first <= inherited_max_) {
      continue;  // done again since
    }
    if (is_counted && !is_complete && IsVoid(id)) {
      continue;
    }
    const auto era = eras_.find(id.first);
    const bool is_undone = options_.goes_back && era != eras_.end() && era->second < life;
    const bool may_be_left_over =
        is_stopped || (options_.goes_back ? is_undone && !options_.is_only_bsp : was_lost);
    if (is_counted != is_complete && (is_counted || !may_be_left_over)) {
      Violation(
          "step " + std::to_string(id.second) + " of incarnation " +
          std::to_string(id.first.value) +
          (is_counted ? " counts, and some shard does not have all of it"
                      : " was applied everywhere and does not count"));
    }
  }
}

}  // namespace ps::sim
