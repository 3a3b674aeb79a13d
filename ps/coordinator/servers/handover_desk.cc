#include "ps/coordinator/servers/handover_desk.h"

#include <fmt/core.h>

#include <algorithm>

namespace ps::coordinator {

uint32_t GraceMillis(Duration grace) {
  const Duration left = std::max(Duration::zero(), grace);
  return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(left).count());
}

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
  if (job_->state.park.is_on) {
    job_->Refuse(
        call, StatusCode::kInvalidArgument, "the servers are parked: none of them is there now");
    return;
  }
  if (!checkpoints_->is_on()) {
    job_->Refuse(
        call,
        StatusCode::kInvalidArgument,
        "the run makes no checkpoints (checkpoint.enabled), so a server can't hand over");
    return;
  }
  const Duration left = Notice(server, std::chrono::milliseconds(message.grace_ms), "psctl", call);
  job_->Reply(call, proto::NoticeReply{GraceMillis(left)});
}

void HandoverDesk::On(const Call& call, const proto::ServerNotice& message) {
  const Shard* const shard = job_->shards.FindPeer(call.from);
  if (!job_->HasRole(call, proto::Role::kShard) || shard == nullptr ||
      shard->shard != message.shard) {
    return;  // it says so again when it has registered
  }
  Duration left{};
  if (checkpoints_->is_on() && job_->state.phase < JobPhase::kStopping) {
    const Duration grace = std::chrono::milliseconds(message.grace_ms);
    left =
        Notice(job_->shards.ServerOf(shard->shard), std::min(grace, kGraceMax), message.what, call);
  }
  job_->Reply(call, proto::NoticeReply{GraceMillis(left)});
}

Duration HandoverDesk::Notice(
    uint32_t server, Duration grace, const std::string& who, const Call& call) {
  const Duration age = call.now - job_->started_at;
  const bool is_first = !job_->state.handovers.contains(server);
  proto::HandoverRecord& handover = job_->edit.handovers[server];
  if (is_first || age + grace < handover.due) {
    handover.due = age + grace;
    if (is_first || handover.holds_until != Duration::zero()) {
      handover.holds_until = age + grace / 2;
    }
  }
  const Duration left = handover.due - age;
  job_->events.Tell(
      proto::EventCode::kServerNotice,
      {{"server", server}, {"grace_s", Seconds(left)}, {"by", who}});
  if (is_first) {
    told_.erase(server);  // that was the process before
    StartSuccessor(server);
  }
  return left;
}

/// Two processes of this machine can't have one port, and who starts servers by hand may start the
/// second one early, too.
void HandoverDesk::StartSuccessor(uint32_t server) {
  const proto::ServerConfig& config = job_->options.config.servers;
  const bool is_there = std::ranges::all_of(job_->shards.all(), [&](const Shard& shard) {
    return job_->shards.ServerOf(shard.shard) != server || shard.record->is_ready;
  });
  if (config.launch && config.port == 0 && is_there && servers_->CanComeBack(server) &&
      !job_->shards.HasSuccessor(server)) {
    const LaunchId launch = job_->NextLaunch();
    job_->shards.SetSuccessor(server, launch);
    job_->events.Tell(
        proto::EventCode::kSuccessorStarted, {{"server", server}, {"launch", launch.value}});
    job_->fleet->StartServer(server, launch);
  }
}

void HandoverDesk::OnSuccessorEnded(const proto::ProcessEnd& end) {
  job_->shards.SetSuccessor(end.index, LaunchId());
  job_->events.Tell(
      proto::EventCode::kSuccessorEnded, {{"server", end.index}, {"how", end.description}});
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
    job_->shards.NoteWorked(server);  // it was told to leave, and has not failed
    return servers_->OnServerLost(server, "it left on notice", call);
  }
  if (call.now >= job_->started_at + handover.due) {
    job_->edit.handovers.erase(server);  // what becomes of its machine is found out as of any other
    return Status::Ok();
  }
  if (handover.checkpoint == 0 && handover.holds_until != Duration::zero() &&
      !job_->is_consistent() && call.now >= job_->started_at + handover.holds_until) {
    job_->events.Tell(proto::EventCode::kHandoverInHaste, {{"server", server}});
    handover.holds_until = Duration::zero();
  }
  const uint64_t newest = job_->state.checkpoints.newest().checkpoint;
  if (handover.checkpoint != 0 && newest >= handover.checkpoint) {
    if (!is_told && job_->is_all_leased()) {
      return Status::Ok();  // the job is done before another process is there, and needs this one
    }
    if (is_told || CountConnected(server) == job_->options.config.servers.shards_per_server) {
      TellToLeave(server, call);  // again and again: it may be lost with its connection
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
