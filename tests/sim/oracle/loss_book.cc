#include "tests/sim/oracle/loss_book.h"

#include <algorithm>
#include <utility>

namespace ps::sim {

void LossBook::OnCheckpoint(uint64_t checkpoint, const proto::JobState& job) {
  checkpoints_[checkpoint] = {CountedBy(job), job.counters.steps_counted};
}

LossBook::Counted LossBook::CountedBy(const proto::JobState& job) const {
  Counted counted = inherited_;
  ForEachCounted(job, [&](Incarnation incarnation, Step steps) { counted[incarnation] = steps; });
  return counted;
}

void LossBook::OnResume(uint64_t checkpoint, Incarnation incarnation_max) {
  const Kept& kept = checkpoints_[checkpoint];
  inherited_ = kept.counted;
  resumed_ = checkpoint;
  counted_ = kept.counted;
  total_ = kept.total;
  reported_ = 0;
  rollbacks_ = 0;
  shards_.clear();
  std::erase_if(undone_, [&](const StepId& id) { return id.first > incarnation_max; });
}

uint64_t LossBook::CountedAt(uint64_t checkpoint) const {
  const auto kept = checkpoints_.find(checkpoint);
  return kept == checkpoints_.end() ? 0 : kept->second.total;
}

void LossBook::AfterEvent(const proto::JobState& job, uint64_t undone) {
  const bool has_new_life = std::ranges::any_of(job.shards, [&](const proto::ShardRecord& shard) {
    const auto index = static_cast<size_t>(&shard - job.shards.data());
    return index < shards_.size() && shard.life > shards_[index].life;
  });
  const bool is_changed = has_new_life || undone != reported_ ||
                          job.counters.steps_counted != total_ ||
                          job.checkpoints.rollbacks != rollbacks_;
  if (is_changed) {
    Counted counted = CountedBy(job);
    if (job.checkpoints.rollbacks != rollbacks_) {
      NoteReturn(job, undone - reported_);
      counted = CountedBy(job);
    } else if (has_new_life) {
      NoteLosses(job, undone - reported_);
    } else {
      NoteLate(counted, undone - reported_);
    }
    counted_ = std::move(counted);
  }
  total_ = job.counters.steps_counted;
  reported_ = undone;
  rollbacks_ = job.checkpoints.rollbacks;
  shards_.resize(job.shards.size());
  for (size_t i = 0; i < shards_.size(); ++i) {
    shards_[i] = {job.shards[i].life, job.shards[i].is_ready, job.shards[i].restore.checkpoint};
  }
}

/// Shards that were ready begin another life, each from a checkpoint: what was counted since is
/// undone. A life that was never ready had nothing that is not in the one before; when its
/// checkpoint can't be restored, what was counted between the two is undone, too.
void LossBook::NoteLosses(const proto::JobState& job, uint64_t undone) {
  if (job.checkpoints.is_going_back) {
    return;  // all of them, soon
  }
  uint64_t expected = 0;
  std::set<size_t> servers;
  std::string lives;
  for (size_t i = 0; i < std::min(shards_.size(), job.shards.size()); ++i) {
    const Shard& before = shards_[i];
    const proto::ShardRecord& now = job.shards[i];
    if (now.life == before.life) {
      continue;
    }
    const uint64_t kept = CountedAt(now.restore.checkpoint);
    const uint64_t kept_before = CountedAt(before.restored);
    if (before.is_ready && servers.insert(i / shards_per_server_).second) {
      expected += total_ - std::min(total_, kept);
    } else if (!before.is_ready && kept_before > kept) {
      // Another shard may have found out before that the checkpoint is damaged.
      const bool is_known = undone_.contains(NewestOf(before.restored, now.restore.checkpoint));
      expected += is_known && undone == 0 ? 0 : kept_before - kept;
    }
    lives += (lives.empty() ? "" : ", ") + std::to_string(now.life) + " of shard " +
             std::to_string(i) + " from checkpoint " + std::to_string(now.restore.checkpoint);
    Undo(now.restore.checkpoint);
  }
  if (undone != expected) {
    violations_->push_back(
        std::to_string(undone) + " steps are said to be undone, and " + std::to_string(expected) +
        " were counted since the checkpoint of the next life: " + lives);
  }
}

/// A step that the one checkpoint counts and the other one does not.
StepId LossBook::NewestOf(uint64_t checkpoint, uint64_t older) {
  const Counted& kept = checkpoints_[older].counted;
  for (const auto& [incarnation, steps] : checkpoints_[checkpoint].counted) {
    const auto it = kept.find(incarnation);
    if (it == kept.end() || it->second < steps) {
      return {incarnation, steps};
    }
  }
  return {};
}

/// All that is counted, and is not in the checkpoint.
void LossBook::Undo(uint64_t checkpoint) {
  const Counted& kept = checkpoints_[checkpoint].counted;
  for (const auto& [incarnation, steps] : counted_) {
    const auto it = kept.find(incarnation);
    for (Step step = it == kept.end() ? 1 : it->second + 1; step <= steps; ++step) {
      undone_.insert({incarnation, step});
    }
  }
}

/// A step is counted by a worker that has not found a shard's newest life yet, or for one that is
/// gone. Its reports come in the order of its steps.
void LossBook::NoteLate(const Counted& counted, uint64_t undone) {
  std::vector<StepId> fresh;
  for (const auto& [incarnation, steps] : counted) {
    const auto it = counted_.find(incarnation);
    for (Step step = it == counted_.end() ? 1 : it->second + 1; step <= steps; ++step) {
      fresh.emplace_back(incarnation, step);
    }
  }
  if (undone > fresh.size()) {
    violations_->push_back(
        std::to_string(undone) + " steps are said to be undone when " +
        std::to_string(fresh.size()) + " are counted and no server is lost");
  }
  // With one worker these are its first steps; with several that are gone nobody knows whose.
  const bool is_of_one =
      !fresh.empty() && fresh.front().first == fresh.back().first && undone <= fresh.size();
  if (undone > 0) {
    undone_.insert(
        fresh.begin(), is_of_one ? fresh.begin() + static_cast<int64_t>(undone) : fresh.end());
  }
}

void LossBook::NoteReturn(const proto::JobState& job, uint64_t undone) {
  const uint64_t checkpoint = job.shards.front().restore.checkpoint;
  const uint64_t kept = CountedAt(checkpoint);
  if (checkpoint < resumed_) {
    inherited_ = checkpoints_[checkpoint].counted;
  }
  if (undone != total_ - std::min(total_, kept)) {
    violations_->push_back(
        "all servers went back to checkpoint " + std::to_string(checkpoint) + ", which counts " +
        std::to_string(kept) + " of " + std::to_string(total_) + " steps, and " +
        std::to_string(undone) + " are said to be undone");
  }
}

}  // namespace ps::sim
