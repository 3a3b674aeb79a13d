#include "ps/coordinator/checkpoints/model_desk.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ps/coordinator/meters/epoch_score.h"

namespace ps::coordinator {
namespace {

/// A shard that is alive and sends nothing new after so many requests has a fault.
constexpr uint32_t kAsksMax = 8;

/// What the file says of itself to people.
std::map<std::string, std::string> MetadataOf(const Job& job, bool is_best) {
  const proto::JobState& state = job.state;
  const std::string ended = state.outcome.ok()                               ? "done"
                            : state.outcome.code() == StatusCode::kCancelled ? "stopped"
                                                                             : "failed";
  std::map<std::string, std::string> metadata = {
      {"format", "pt"},  // what some loaders want to see: row-major tensors as PyTorch has them
      {"job", job.options.config.name},
      {"ended", ended},
      {"epochs_finished", std::to_string(state.epochs_finished)},
      {"samples", std::to_string(job.ledger.samples_counted())},
      {"steps", std::to_string(state.counters.steps_counted)},
      {"software", job.options.software}};
  if (is_best) {
    const proto::EpochCheckpoint& best = state.checkpoints.best.front();
    metadata["epoch"] = std::to_string(best.epoch);
    metadata["score"] = ScoreText(best.score, BestMetricOf(job.options.config));
  }
  return metadata;
}

}  // namespace

void ModelDesk::Plan(bool has_failed, TimePoint now) {
  if (job_->options.model_sink == nullptr || !job_->training_began) {
    return;
  }
  job_->edit.model.is_due = true;
  if (job_->state.park.is_on) {
    GiveUp(fmt::format(
        "the servers are parked; checkpoint {} has the parameters",
        job_->state.checkpoints.newest().checkpoint));
    return;
  }
  for (const Shard& shard : job_->shards.all()) {
    const bool is_there =
        shard.peer != proto::PeerId() && now - shard.last_heard <= job_->timing.server_detect;
    if (has_failed && shard.has_chunks && !is_there) {
      GiveUp(fmt::format("shard {} is gone, and its parameters with it", shard.shard.value));
      return;
    }
  }
}

void ModelDesk::GiveUp(const std::string& why) {
  if (!job_->state.model.is_due) {
    return;
  }
  job_->events.Tell(proto::EventCode::kModelNotSaved, {{"reason", why}});
  job_->edit.model = {false, "", why};
  readings_.clear();
  if (is_begun_) {
    job_->options.model_sink->Abandon();
  }
}

void ModelDesk::Begin(const Call& call) {
  if (job_->options.model_sink == nullptr) {
    GiveUp("no file was named for it");  // another process had planned it
    return;
  }
  is_begun_ = true;
  begun_at_ = call.now;
  const Status begun =
      job_->options.model_sink->Begin(MetadataOf(*job_, best_->is_on() && best_->IsPresent()));
  if (!begun.ok()) {
    GiveUp(std::string(begun.message()));
    return;
  }
  std::map<ShardId, std::vector<proto::ChunkAssignment>> chunks;
  for (const proto::ChunkAssignment& chunk : job_->state.placement.chunks) {
    chunks[chunk.shard].push_back(chunk);
  }
  for (auto& [shard, own] : chunks) {
    readings_[shard].values = {
        std::move(own), uint64_t{job_->options.config.servers.frame_kib} << 10};
  }
  job_->log->Info("model_being_saved", {{"path", job_->options.model_sink->path()}});
  WatchAll(call);
}

void ModelDesk::Ask(Shard* shard, Reading* reading, const Call& call) {
  reading->asked = shard->peer;
  reading->next_ask = call.now + job_->timing.lease;
  ++reading->asks;
  proto::PullRequest pull;
  pull.held = reading->values.Held();
  call.out->Send(shard->peer, ++last_request_id_, std::move(pull));
}

/// Asks a shard that has come back, and again where nothing came for long.
void ModelDesk::Watch(Reading* reading, Shard* shard, const Call& call) {
  const bool is_connected = shard->peer != proto::PeerId();
  // One that was lost shortly before is started again, and has as much time from now on.
  const Duration silence = call.now - std::max(shard->last_heard, begun_at_);
  if (silence > job_->timing.server_detect) {
    GiveUp(fmt::format(
        "shard {} has been {} for {:.1f} s",
        shard->shard.value,
        is_connected ? "silent" : "gone",
        Seconds(silence)));
  } else if (is_connected && reading->asks >= kAsksMax && call.now >= reading->next_ask) {
    GiveUp(fmt::format(
        "shard {} did not send its parameters after {} requests",
        shard->shard.value,
        reading->asks));
  } else if (is_connected && (reading->asked != shard->peer || call.now >= reading->next_ask)) {
    Ask(shard, reading, call);
  }
}

void ModelDesk::WatchAll(const Call& call) {
  for (auto& [shard, reading] : readings_) {
    Watch(&reading, job_->shards.Find(shard), call);
    if (!job_->state.model.is_due) {
      return;  // given up: no reading is left
    }
  }
}

void ModelDesk::Advance(const Call& call) {
  if (!job_->state.model.is_due) {
    return;
  }
  if (job_->state.servers.chunks) {
    for (const Shard& shard : job_->shards.all()) {
      if (call.now - shard.last_heard > job_->timing.server_detect) {
        GiveUp(fmt::format("shard {} is silent while chunks move", shard.shard.value));
        return;
      }
    }
    if (begun_at_ == TimePoint()) {
      begun_at_ = call.now;
    } else if (call.now - begun_at_ > job_->timing.server_detect) {
      // Where a server was lost and the job failed, nobody finishes the move.
      GiveUp("chunks were on their way to a server, and did not come");
    }
    return;  // until each of them is on one shard
  }
  if (!is_begun_) {
    Begin(call);
    return;
  }
  WatchAll(call);
  if (job_->state.model.is_due && readings_.empty()) {
    AwaitFile();
  }
}

void ModelDesk::AwaitFile() {
  if (!std::exchange(is_finishing_, true)) {
    job_->options.model_sink->Finish();
  }
  const std::optional<Status> outcome = job_->options.model_sink->Outcome();
  if (outcome && !outcome->ok()) {
    GiveUp(std::string(outcome->message()));
  } else if (outcome) {
    job_->edit.model = {false, job_->options.model_sink->path(), ""};
    job_->events.Tell(proto::EventCode::kModelSaved, {{"path", job_->state.model.file}});
  }
}

void ModelDesk::On(const Call& call, const proto::PullReply& message) {
  if (!job_->HasRole(call, proto::Role::kShard)) {
    return;
  }
  Shard* const shard = job_->shards.FindPeer(call.from);
  const auto it = shard == nullptr ? readings_.end() : readings_.find(shard->shard);
  if (it == readings_.end()) {
    return;  // a part that came twice
  }
  shard->last_heard = call.now;
  Reading& reading = it->second;
  const Result<bool> is_new = reading.values.Take(
      message, [&](size_t index, uint32_t begin, std::span<const float> values) {
        const proto::ChunkAssignment& chunk = reading.values.chunks()[index];
        return job_->options.model_sink->Write(
            TensorOf(chunk.key), chunk.element_begin + begin, values);
      });
  if (!is_new.ok()) {
    GiveUp(std::string(is_new.status().message()));
    return;
  }
  reading.next_ask = call.now + job_->timing.lease;
  reading.asks = *is_new ? 0 : reading.asks;
  if (reading.values.is_complete()) {
    readings_.erase(it);
  }
}

void ModelDesk::OnRefusal(const Call& call, const proto::Refusal& message) {
  const Shard* const shard = job_->shards.FindPeer(call.from);
  if (shard != nullptr && readings_.contains(shard->shard) &&
      message.code != StatusCode::kUnavailable && message.code != StatusCode::kOverloaded) {
    GiveUp(fmt::format("shard {}: {}", shard->shard.value, message.message));
  }
}

void ModelDesk::OnServerLost(uint32_t server, const std::string& why) {
  if (server >= job_->shards.server_count()) {
    return;  // it is no part of the job, or is none any more
  }
  const bool is_moving = job_->state.servers.chunks.has_value();  // maybe to this server
  const bool is_needed = std::ranges::any_of(job_->shards.all(), [&](const Shard& shard) {
    return job_->shards.ServerOf(shard.shard) == server &&
           (is_begun_ ? readings_.contains(shard.shard) : shard.has_chunks || is_moving);
  });
  if (is_needed) {
    GiveUp(fmt::format("server {} was lost: {}", server, why));
  }
}

}  // namespace ps::coordinator
