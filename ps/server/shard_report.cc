// What the coordinator, and through it psctl, is told about a shard.

#include <string>

#include "ps/server/shard_core.h"

namespace ps::server {
namespace {

std::string Name(const Member& member) {
  return "w" + std::to_string(member.worker.value);
}

void AddToList(std::string* list, const std::string& item) {
  *list += (list->empty() ? "" : ", ") + item;
}

}  // namespace

double ShardCore::JobFraction() const {
  return total_samples_ == 0
             ? 0
             : static_cast<double>(samples_done_) / static_cast<double>(total_samples_);
}

proto::ShardStats ShardCore::Stats() const {
  proto::ShardStats stats = stats_;
  stats.chunk_count = store_.size();
  stats.parameter_bytes = store_.parameter_bytes();
  stats.staged_bytes = staging_.bytes();
  stats.round = round_;
  stats.lr = ScheduledLr(settings_.optimizer, JobFraction());
  for (const auto& [incarnation, member] : roster_.members()) {
    stats.workers.push_back({member.worker, incarnation, member.clock, member.last_step});
  }
  return stats;
}

std::vector<proto::Wait> ShardCore::Waits(TimePoint now) const {
  std::vector<proto::Wait> waits;
  const std::string here = " at shard " + std::to_string(shard_.value);
  for (const auto& [incarnation, member] : roster_.members()) {
    if (!member.waiting) {
      continue;
    }
    const Pull& pull = *member.waiting;
    proto::Wait wait;
    wait.who = Name(member);
    wait.since_s = Seconds(now - pull.since);
    wait.generation = pull.generation;
    wait.what = is_bsp() ? "round " + std::to_string(pull.min_round) + here
                         : "staleness bound " + std::to_string(settings_.staleness_max) + here;
    for (const auto& [other_incarnation, other] : roster_.members()) {
      if (is_bsp() && other.is_active && other.last_round < pull.min_round) {
        AddToList(&wait.for_whom, Name(other));
      } else if (
          !is_bsp() && other.is_active && other.clock + settings_.staleness_max < member.clock) {
        AddToList(&wait.for_whom, Name(other) + " (clock " + std::to_string(other.clock) + ")");
      }
    }
    if (wait.for_whom.empty()) {
      wait.for_whom = "coordinator";  // all that the round needs of this shard is here
    }
    waits.push_back(std::move(wait));
  }
  return waits;
}

void ShardCore::SendHeartbeat(TimePoint now, proto::Outbox* out) {
  out->Send(coordinator_, ++last_request_id_, proto::ShardHeartbeat{shard_, Stats(), Waits(now)});
}

}  // namespace ps::server
