#include "ps/coordinator/workers/trends.h"

#include <algorithm>

namespace ps::coordinator {
namespace {

/// Somebody trains, and nothing keeps the others on purpose.
bool AreStepsExpected(const Job& job) {
  const auto& members = job.membership.members();
  return job.state.phase == JobPhase::kTraining && !job.is_holding() && !job.state.park.is_on &&
         !job.ledger.is_complete() && std::ranges::any_of(members, [](const auto& entry) {
           return entry.second.record->reported > 0;
         });
}

/// The mean over all workers' gradients at all shards.
double MeanStaleness(const Job& job) {
  double sum = 0;
  size_t count = 0;
  for (const Shard& shard : job.shards.all()) {
    for (const proto::WorkerAtShard& at : shard.stats.workers) {
      sum += static_cast<double>(at.staleness);
      ++count;
    }
  }
  return sum / static_cast<double>(std::max<size_t>(count, 1));
}

}  // namespace

void TellOfStep(std::optional<double> loss, TimePoint now, Job* job) {
  const std::optional<TrendWatch::LossTurn> turn = job->trends.OnStep(loss, now);
  if (turn && turn->is_spike) {
    job->events.Tell(
        proto::EventCode::kLossSpike,
        {{"loss", turn->loss}, {"usual", turn->usual}, {"steps", turn->steps}});
  } else if (turn) {
    job->events.Tell(proto::EventCode::kLossIsBack, {{"loss", turn->loss}, {"steps", turn->steps}});
  }
}

void TellOfTrends(TimePoint now, Job* job) {
  if (const auto stall = job->trends.OnTick(AreStepsExpected(*job), now)) {
    job->events.Tell(
        proto::EventCode::kTrainingStalled,
        {{"seconds", stall->waited_s}, {"usual_s", stall->usual_s}});
  }
  if (!job->trends.WantsStaleness(now)) {
    return;
  }
  const size_t workers = job->membership.members().size();
  if (const auto ageing = job->trends.OnStaleness(MeanStaleness(*job), workers, now)) {
    job->events.Tell(
        proto::EventCode::kStalenessGrew,
        {{"staleness", ageing->staleness}, {"usual", ageing->usual}});
  }
}

}  // namespace ps::coordinator
