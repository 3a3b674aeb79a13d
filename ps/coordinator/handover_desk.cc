#include "ps/coordinator/handover_desk.h"

#include <fmt/core.h>

#include <algorithm>

namespace ps::coordinator {

void HandoverDesk::On(const Call& call, const proto::NoticeRequest& message) {
  const uint32_t server = message.worker.value;
  const uint32_t count = job_->shards.server_count();
  if (server >= count) {
    job_->Refuse(
        call,
        StatusCode::kNotFound,
        fmt::format("there is no server {}; there are 0 to {}", server, count - 1));
    return;
  }
  if (!checkpoints_->is_on()) {
    job_->Refuse(
        call,
        StatusCode::kInvalidArgument,
        "the run makes no checkpoints (checkpoint.enabled), so a server can't hand over");
    return;
  }
  const bool is_second = job_->state.handovers.contains(server);
  proto::HandoverRecord& handover = job_->edit.handovers[server];
  const Duration due =
      call.now - job_->started_at + Duration(std::chrono::milliseconds(message.grace_ms));
  handover.due = is_second ? std::min(handover.due, due) : due;
  if (!is_second) {
    told_.erase(server);  // that was the process before
  }
  const Duration left = job_->started_at + handover.due - call.now;
  job_->log->Info("server_notice", {{"server", server}, {"grace_s", Seconds(left)}});
  const auto left_ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
  job_->Reply(call, proto::NoticeReply{static_cast<uint32_t>(std::max<int64_t>(left_ms, 0))});
}

Status HandoverDesk::OnTick(const Call& call) {
  for (auto it = job_->state.handovers.begin(); it != job_->state.handovers.end();) {
    const uint32_t server = (it++)->first;
    PS_TRY(Advance(server, call));
  }
  return Status::Ok();
}

Status HandoverDesk::Advance(uint32_t server, const Call& call) {
  proto::HandoverRecord& handover = job_->edit.handovers.at(server);
  const bool is_told = told_.contains(server);
  if (is_told && CountConnected(server) == 0) {
    return servers_->OnServerLost(server, 0, "it left on notice", call);
  }
  if (call.now >= job_->started_at + handover.due) {
    job_->edit.handovers.erase(server);  // what becomes of its machine is found out as of any other
    return Status::Ok();
  }
  const uint64_t newest = job_->state.checkpoints.newest().checkpoint;
  if (handover.checkpoint != 0 && newest >= handover.checkpoint) {
    if (!is_told && CountConnected(server) == job_->options.config.servers.shards_per_server) {
      TellToLeave(server, call);
      told_.insert(server);
    }
  } else if (handover.checkpoint == 0 || !checkpoints_->IsOpen(handover.checkpoint)) {
    handover.checkpoint = checkpoints_->OpenNow(call);
  }
  return Status::Ok();
}

void HandoverDesk::TellToLeave(uint32_t server, const Call& call) const {
  for (const Shard& shard : job_->shards.all()) {
    if (job_->shards.ServerOf(shard.shard) == server && shard.peer != proto::PeerId()) {
      call.out->Send(shard.peer, 0, proto::Shutdown{"its machine is taken back"});
    }
  }
}

uint32_t HandoverDesk::CountConnected(uint32_t server) const {
  return static_cast<uint32_t>(std::ranges::count_if(job_->shards.all(), [&](const Shard& shard) {
    return job_->shards.ServerOf(shard.shard) == server && shard.peer != proto::PeerId();
  }));
}

}  // namespace ps::coordinator
