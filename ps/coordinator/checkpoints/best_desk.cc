#include "ps/coordinator/checkpoints/best_desk.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "ps/coordinator/meters/epoch_score.h"

namespace ps::coordinator {
namespace {

/// Training waits for so long for an epoch's checkpoint to begin.
constexpr Duration kHoldMax = std::chrono::seconds(10);

}  // namespace

const proto::KeptCheckpoint* BestDesk::FindKept(uint64_t checkpoint) const {
  const auto& kept = job_->state.checkpoints.kept;
  const auto it = std::ranges::find(kept, checkpoint, &proto::KeptCheckpoint::checkpoint);
  return it == kept.end() ? nullptr : &*it;
}

void BestDesk::Follow(const Call& call) {
  if (!is_on()) {
    return;
  }
  DropLost();
  NoteEpoch();
  OpenAwaited(call);
  const auto& results = job_->evaluations.results();
  const auto& pending = job_->evaluations.pending();
  std::vector<proto::EpochCheckpoint> waiting;
  for (const proto::EpochCheckpoint& candidate : job_->state.checkpoints.candidates) {
    const auto row = std::ranges::find(results, candidate.epoch, &proto::EvaluationRow::epoch);
    const bool is_evaluated = row != results.end();
    const bool is_being_evaluated =
        std::ranges::find(pending, candidate.epoch, &proto::Evaluation::epoch) != pending.end();
    const bool is_coming =
        candidate.checkpoint == 0 || checkpoints_->IsComing(candidate.checkpoint);
    if (is_evaluated ? is_coming : is_being_evaluated) {
      waiting.push_back(candidate);
    } else if (is_evaluated && FindKept(candidate.checkpoint) != nullptr) {
      Score(candidate, *row);
    }
  }
  if (waiting != job_->state.checkpoints.candidates) {
    job_->edit.checkpoints.candidates = std::move(waiting);
  }
}

/// Those that could not be restored have been set aside.
void BestDesk::DropLost() {
  std::erase_if(job_->edit.checkpoints.best, [this](const proto::EpochCheckpoint& one) {
    if (FindKept(one.checkpoint) != nullptr) {
      return false;
    }
    job_->events.Tell(
        proto::EventCode::kBestLost,
        {{"epoch", one.epoch},
         {"checkpoint", one.checkpoint},
         {"why", job_->state.checkpoints.damage}});
    return true;
  });
}

/// The epoch that is being evaluated is to have a checkpoint.
void BestDesk::NoteEpoch() {
  const auto& pending = job_->evaluations.pending();
  if (pending.empty() || pending.back().is_last) {
    return;
  }
  const uint32_t epoch = pending.back().epoch;
  const bool has_one = std::ranges::any_of(
      job_->state.checkpoints.candidates, [&](const proto::EpochCheckpoint& one) {
        return one.epoch == epoch && (one.checkpoint == 0 || FindKept(one.checkpoint) != nullptr ||
                                      checkpoints_->IsComing(one.checkpoint));
      });
  if (!has_one && epoch > given_up_) {
    std::vector<proto::EpochCheckpoint>& candidates = job_->edit.checkpoints.candidates;
    std::erase_if(candidates, [&](const auto& one) { return one.epoch == epoch; });
    candidates.push_back({epoch, 0, 0});
  }
}

void BestDesk::OpenAwaited(const Call& call) {
  if (!job_->HoldsForEpoch()) {
    holding_since_.reset();
    return;
  }
  holding_since_ = holding_since_.value_or(call.now);
  const uint64_t checkpoint = checkpoints_->CheckpointOfNow(call);
  const bool is_over = checkpoint == 0 && call.now - *holding_since_ >= kHoldMax;
  if (checkpoint == 0 && !is_over) {
    return;
  }
  for (proto::EpochCheckpoint& candidate : job_->edit.checkpoints.candidates) {
    if (candidate.checkpoint == 0 && is_over) {
      given_up_ = candidate.epoch;
      job_->log->Warning("epoch_without_checkpoint", {{"epoch", candidate.epoch}});
    } else if (candidate.checkpoint == 0) {
      candidate.checkpoint = checkpoint;
    }
  }
  std::erase_if(job_->edit.checkpoints.candidates, [](const proto::EpochCheckpoint& one) {
    return one.checkpoint == 0;
  });
}

void BestDesk::Score(const proto::EpochCheckpoint& candidate, const proto::EvaluationRow& row) {
  const proto::BestConfig& config = job_->options.config.checkpoint.best;
  const double score = ScoreOf(row, config.metric);
  if (!std::isfinite(score)) {
    return;
  }
  std::vector<proto::EpochCheckpoint>& best = job_->edit.checkpoints.best;
  std::erase_if(best, [&](const auto& one) { return one.checkpoint == candidate.checkpoint; });
  const auto place = std::ranges::find_if(best, [&](const proto::EpochCheckpoint& one) {
    return IsBetter(score, one.score, config.metric);
  });
  const bool is_best = place == best.begin();
  best.insert(place, {candidate.epoch, candidate.checkpoint, score});
  best.resize(std::min<size_t>(best.size(), config.keep));
  if (is_best) {
    job_->events.Tell(
        proto::EventCode::kBestEpoch,
        {{"epoch", candidate.epoch},
         {"checkpoint", candidate.checkpoint},
         {"metric", BestMetricOf(job_->options.config)},
         {"score", score}});
  }
}

bool BestDesk::IsPresent() const {
  const proto::CheckpointsState& state = job_->state.checkpoints;
  if (state.best.empty() || state.is_best_taken) {
    return !state.best.empty();
  }
  const proto::KeptCheckpoint* const kept = FindKept(state.best.front().checkpoint);
  return kept != nullptr && kept->steps == job_->state.counters.steps_counted;
}

void BestDesk::AddTo(proto::CheckpointStatus* status) const {
  if (!is_on()) {
    return;
  }
  status->best_metric = BestMetricOf(job_->options.config);
  const std::vector<proto::EpochCheckpoint>& best = job_->state.checkpoints.best;
  if (!best.empty()) {
    status->best = best.front().checkpoint;
    status->best_epoch = best.front().epoch;
    status->best_score = best.front().score;
    status->is_best_left = !job_->is_working() && IsPresent();
  }
}

}  // namespace ps::coordinator
