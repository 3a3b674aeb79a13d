// What the coordinator, and through it psctl, is told about a shard.

#include <fmt/core.h>

#include <string>
#include <utility>

#include "ps/server/shard_core.h"

namespace ps::server {
namespace {

// A heartbeat is read by people and has to fit into a frame, however many members there are.
constexpr size_t kWaitsMax = 64;
constexpr uint64_t kNamesPerWaitMax = 8;
constexpr size_t kWorkersMax = 16384;

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
  stats.staged_bytes = StagedBytes();
  stats.round = commit_ ? round_ - 1 : round_;
  const size_t workers = std::max<size_t>(roster_.members().size(), 1);
  stats.lr =
      ScheduledLr(settings_.optimizer, JobFraction()) * lr_policy_.Factor(mode_.mode, workers);
  for (const auto& [incarnation, member] : roster_.members()) {
    for (const auto& [chunk, parts] : member.intake.unfinished) {
      for (const StagedPart& part : parts) {
        stats.staged_bytes += part.values.size_bytes();
      }
    }
    if (stats.workers.size() < kWorkersMax) {
      stats.workers.push_back(
          {member.worker, incarnation, member.clock, member.last_step, member.staleness});
    }
  }
  return stats;
}

/// Whom the pull of `member` waits for, the first few by name.
std::string ShardCore::WaitsFor(const Member& member, const Pull& pull) const {
  if (commit_) {
    return fmt::format("the update of round {}", round_);
  }
  std::string names;
  uint64_t count = 0;
  for (const auto& [incarnation, other] : roster_.members()) {
    const bool holds_back =
        other.is_active && (is_bsp() ? other.last_round < pull.min_round
                                     : other.clock + mode_.staleness_max < member.clock);
    if (!holds_back || ++count > kNamesPerWaitMax) {
      continue;
    }
    names += names.empty() ? "w" : ", w";
    names += is_bsp() ? fmt::format("{}", other.worker.value)
                      : fmt::format("{} (clock {})", other.worker.value, other.clock);
  }
  if (count > kNamesPerWaitMax) {
    names += fmt::format(" and {} more", count - kNamesPerWaitMax);
  }
  // All that the round needs of this shard is here.
  return count == 0 ? "coordinator" : names;
}

std::vector<proto::Wait> ShardCore::Waits(TimePoint now) const {
  std::vector<proto::Wait> waits;
  for (const auto& [incarnation, member] : roster_.members()) {
    if (!member.waiting) {
      continue;
    }
    if (waits.size() == kWaitsMax) {
      break;
    }
    const Pull& pull = *member.waiting;
    proto::Wait wait;
    wait.who = fmt::format("w{}", member.worker.value);
    wait.for_whom = WaitsFor(member, pull);
    wait.what =
        is_bsp() ? fmt::format("round {} at shard {}", pull.min_round, shard_.value)
                 : fmt::format("staleness bound {} at shard {}", mode_.staleness_max, shard_.value);
    wait.since_s = Seconds(now - pull.since);
    wait.generation = pull.generation;
    waits.push_back(std::move(wait));
  }
  return waits;
}

void ShardCore::SendHeartbeat(TimePoint now, proto::Outbox* out) {
  if (stats_.chunks_overflowed > 2 * overflows_warned_) {  // once, and whenever they have doubled
    overflows_warned_ = stats_.chunks_overflowed;
    log_->Warning(
        "updates_overflow",
        {{"chunks", stats_.chunks_overflowed},
         {"what", "parameters that would have become infinite stay as they were"},
         {"remedy", "lower optimizer.lr, or set optimizer.clip_norm or clip_value"}});
  }
  out->Send(coordinator_, ++last_request_id_, proto::ShardHeartbeat{shard_, Stats(), Waits(now)});
}

}  // namespace ps::server
