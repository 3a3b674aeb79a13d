#include "ps/coordinator/handover_desk.h"

#include <fmt/core.h>

#include <algorithm>

namespace ps::coordinator {

void HandoverDesk::On(const Call& call, const proto::NoticeRequest& message) {
  const uint32_t server = message.worker.value;
  const uint32_t count = job_->options.config.servers.count;
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
  Handover& handover = handovers_[server];
  const TimePoint due = call.now + std::chrono::milliseconds(message.grace_ms);
  handover.due = handover.due == TimePoint() ? due : std::min(handover.due, due);
  job_->is_holding = shards_->IsConsistent();
  job_->log->Info(
      "server_notice", {{"server", server}, {"grace_s", Seconds(handover.due - call.now)}});
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(handover.due - call.now).count();
  job_->Reply(call, proto::NoticeReply{static_cast<uint32_t>(std::max<int64_t>(left, 0))});
}

Status HandoverDesk::OnTick(const Call& call) {
  for (auto it = handovers_.begin(); it != handovers_.end();) {
    bool is_over = false;
    PS_TRY(Advance(it->first, &it->second, call, &is_over));
    it = is_over ? handovers_.erase(it) : std::next(it);
  }
  job_->is_holding = job_->is_holding && !handovers_.empty();
  return Status::Ok();
}

Status HandoverDesk::Advance(uint32_t server, Handover* handover, const Call& call, bool* is_over) {
  if (handover->is_told && !IsConnected(server)) {
    *is_over = true;
    return shards_->OnServerLost(server, 0, "it left on notice", call);
  }
  if (call.now >= handover->due) {
    *is_over = true;  // what becomes of its machine is found out as of any other
    return Status::Ok();
  }
  const uint64_t newest = job_->state.checkpoints.newest().checkpoint;
  if (handover->checkpoint != 0 && newest >= handover->checkpoint) {
    if (!handover->is_told) {
      TellToLeave(server, call);
      handover->is_told = true;
    }
  } else if (handover->checkpoint == 0 || !checkpoints_->IsOpen(handover->checkpoint)) {
    handover->checkpoint = checkpoints_->OpenNow(call);
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

bool HandoverDesk::IsConnected(uint32_t server) const {
  return std::ranges::any_of(job_->shards.all(), [&](const Shard& shard) {
    return job_->shards.ServerOf(shard.shard) == server && shard.peer != proto::PeerId();
  });
}

}  // namespace ps::coordinator
