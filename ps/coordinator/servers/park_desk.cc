#include "ps/coordinator/servers/park_desk.h"

#include <fmt/core.h>

#include <algorithm>

namespace ps::coordinator {

bool ParkDesk::MayPark(const Call& call) const {
  const proto::JobConfig& config = job_->options.config;
  const Duration patience = FromSeconds(static_cast<double>(config.fleet.park_servers_after_s));
  const bool is_without_workers = job_->state.phase == JobPhase::kTraining &&
                                  job_->training_began && job_->membership.members().empty() &&
                                  job_->membership.departures().empty() && !joins_->is_asked() &&
                                  call.now - job_->no_worker_since >= patience;
  if (patience == Duration::zero() || !config.servers.launch || !checkpoints_->is_on() ||
      !is_without_workers) {
    return false;
  }
  const proto::ServersState& servers = job_->state.servers;
  const proto::KeptCheckpoint newest = job_->state.checkpoints.newest();
  const uint64_t wanted = job_->state.pause.checkpoint;
  const bool is_all_saved = wanted != 0 && newest.checkpoint >= wanted &&
                            newest.steps == job_->state.counters.steps_counted &&
                            servers.settled_by <= newest.checkpoint && !checkpoints_->is_open();
  const bool is_quiet = job_->is_idle() && job_->shards.are_all_ready() &&
                        job_->state.handovers.empty() && !job_->state.modes.is_holding &&
                        !servers.chunks && !servers.is_spreading &&
                        servers.wanted == job_->shards.server_count();
  if (!is_all_saved || !is_quiet) {
    return false;
  }
  for (uint32_t server = 0; server < servers.wanted; ++server) {
    if (!job_->fleet->HasServer(server)) {
      return false;
    }
  }
  return true;
}

void ParkDesk::OnTick(const Call& call) {
  if (!job_->state.park.is_on) {
    if (MayPark(call)) {
      Park(call);
    }
    return;
  }
  if (joins_->is_asked()) {
    Wake("a worker has come", call);
    return;
  }
  if (!kill_at_) {
    kill_at_ = call.now + job_->timing.server_detect;  // an earlier process of this one has parked
  }
  if (call.now >= *kill_at_) {
    kill_at_ = TimePoint::max();
    for (uint32_t server = 0; server < job_->shards.server_count(); ++server) {
      job_->fleet->KillServer(server, LaunchId());
    }
  }
}

/// As if all were lost, with nothing that has to be done again.
void ParkDesk::Park(const Call& call) {
  const proto::KeptCheckpoint newest = job_->state.checkpoints.newest();
  const Duration waited = call.now - job_->no_worker_since;
  job_->edit.park.is_on = true;
  kill_at_ = call.now + job_->timing.server_detect;
  for (Shard& shard : job_->shards.all()) {
    const proto::PeerId peer = shard.peer;
    servers_->NoteLeaving(shard.record->launch);
    job_->shards.LoseProcess(&shard, call.now);
    job_->BeginLife(&shard, {newest.checkpoint, newest.shards});
    job_->membership.ForgetAcknowledged(shard.shard);
    if (peer != proto::PeerId()) {
      call.out->Send(peer, 0, proto::Shutdown{"no worker trains, and the job is parked"});
      job_->ClosePeer(peer, call);
    }
  }
  for (uint32_t server = 0; server < job_->shards.server_count(); ++server) {
    if (job_->shards.HasSuccessor(server)) {
      job_->shards.SetSuccessor(server, LaunchId());
    }
  }
  job_->events.Tell(
      proto::EventCode::kServersParked,
      {{"servers", job_->shards.server_count()},
       {"checkpoint", newest.checkpoint},
       {"why", fmt::format("no worker for {:.0f} s", Seconds(waited))}});
}

void ParkDesk::Wake(const std::string& why, const Call& call) {
  if (!job_->state.park.is_on) {
    return;
  }
  job_->edit.park.is_on = false;
  job_->no_worker_since = call.now;
  kill_at_.reset();
  job_->events.Tell(
      proto::EventCode::kServersWoken,
      {{"servers", job_->shards.server_count()},
       {"checkpoint", job_->state.checkpoints.newest().checkpoint},
       {"why", why}});
  for (Shard& shard : job_->shards.all()) {
    shard.lost_at = call.now;
    shard.last_heard = call.now;
  }
  for (uint32_t server = 0; server < job_->shards.server_count(); ++server) {
    job_->shards.NoteWorked(server);  // it was ended, and did not end by itself
    job_->StartServer(server, why, call.now);
  }
}

bool ParkDesk::TakesServer(const Call& call, const proto::RegisterShard& message) {
  if (!job_->state.park.is_on || !job_->HasRole(call, proto::Role::kShard)) {
    return job_->state.park.is_on;
  }
  const uint32_t server = job_->shards.ServerOf(message.shard);
  if (message.life == 0 && !job_->fleet->HasServer(server)) {
    // Somebody has started it by hand, for when the job goes on.
    job_->Refuse(
        call, StatusCode::kUnavailable, "no worker trains, and the job is parked until one comes");
    return true;
  }
  servers_->NoteLeaving(message.launch);
  job_->Reply(call, proto::Shutdown{"no worker trains, and the job is parked"});
  return true;
}

}  // namespace ps::coordinator
