#include "ps/proto/codec/status_fit.h"

#include <algorithm>

#include "ps/proto/limits.h"

namespace ps::proto {
namespace {

size_t ClockCount(const JobStatus& status) {
  size_t count = 0;
  for (const ShardRow& shard : status.shards) {
    count += shard.stats.workers.size();
  }
  return count;
}

template <typename V>
void KeepFirst(size_t count, std::vector<V>* list) {
  list->resize(std::min(list->size(), count));
}

template <typename V>
void KeepLast(size_t count, std::vector<V>* list) {
  list->erase(list->begin(), list->end() - static_cast<int64_t>(std::min(list->size(), count)));
}

}  // namespace

bool MayBeTooLong(const JobStatus& status) {
  constexpr size_t kRows = 100;  // of each kind; they fit, whatever is in them
  return status.workers.size() > kRows || status.shards.size() > kRows ||
         status.ledger.size() > kRows || status.evaluations.size() > kRows ||
         status.waits.size() > kRows || status.fleet.size() > kRows ||
         status.events.size() > kRows || ClockCount(status) > kRows * kRows;
}

JobStatus Fitted(JobStatus status) {
  KeepFirst(kStatusWorkersMax, &status.workers);
  KeepFirst(kShardsMax, &status.shards);
  KeepLast(kStatusEpochsMax, &status.ledger);
  KeepLast(kStatusEpochsMax, &status.evaluations);
  KeepFirst(kStatusWaitsMax, &status.waits);
  KeepFirst(kStatusGroupsMax, &status.fleet);
  KeepLast(kStatusWaitsMax, &status.events);
  for (Wait& wait : status.waits) {
    wait.for_whom.resize(std::min(wait.for_whom.size(), kStatusWaitBytesMax));
    wait.what.resize(std::min(wait.what.size(), kStatusWaitBytesMax));
  }
  if (ClockCount(status) > kStatusClocksMax) {
    for (ShardRow& shard : status.shards) {
      shard.stats.workers.clear();
    }
  }
  return status;
}

}  // namespace ps::proto
