#include "ps/coordinator/servers/servers_desk.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ps/coordinator/state/placement.h"

namespace ps::coordinator {
namespace {

constexpr uint32_t kFailuresMax = 5;

}  // namespace

ServersDesk::ServersDesk(Job* job, CheckpointDesk* checkpoints, MoveDesk* moves)
    : job_(job), checkpoints_(checkpoints), moves_(moves) {}

std::vector<uint32_t> ServersDesk::Shares() const {
  return ShardShares(job_->state.servers, job_->options.config.servers.shards_per_server);
}

uint32_t ServersDesk::ShardsOf(uint32_t servers) const {
  return servers * job_->options.config.servers.shards_per_server;
}

Result<ServersWanted> ServersDesk::WantedAfter(
    const std::vector<proto::ScaleChange>& changes) const {
  return ServersWantedAfter(*job_, checkpoints_->is_on(), changes);
}

void ServersDesk::Want(const ServersWanted& wanted, const std::string& by, const Call& call) {
  proto::ServersState& state = job_->edit.servers;
  const auto servers = static_cast<uint32_t>(wanted.count);
  const bool has_other_pins = wanted.pins != state.pins;
  const bool has_other_shares = wanted.shares != state.shares || has_other_pins;
  if (servers != state.wanted || wanted.shares != state.shares) {
    job_->events.Tell(
        proto::EventCode::kServersScaled,
        {{"servers_before", state.wanted},
         {"servers", servers},
         {"shares", proto::SharesText(wanted.shares)},
         {"by", by}});
  } else if (has_other_pins) {
    job_->events.Tell(
        proto::EventCode::kChunksPinned, {{"chunks", wanted.pins.size()}, {"by", by}});
  } else {
    return;
  }
  asker_ = by;
  state.wanted = servers;
  state.shares = wanted.shares;
  state.pins = wanted.pins;
  if (servers == job_->shards.server_count() &&
      (has_other_shares || !IsSpread(job_->state.placement, Shares()))) {
    state.is_spreading = true;
  }
  state.trouble.clear();
  failures_ = 0;
  pace_ = StartPace();
  SendAway(call);
  if (MayAdvance()) {
    Advance(call);
  }
}

/// Newcomers that nobody wants any more.
void ServersDesk::SendAway(const Call& call) {
  std::erase_if(newcomers_, [&](const auto& entry) {
    if (job_->shards.ServerOf(entry.first) < job_->state.servers.wanted) {
      return false;
    }
    NoteLeaving(entry.second.launch);
    call.out->Send(entry.second.peer, 0, proto::Shutdown{"this server is not wanted any more"});
    return true;
  });
  std::erase_if(
      started_, [&](const auto& entry) { return entry.first >= job_->state.servers.wanted; });
}

void ServersDesk::GiveUp(const std::string& why, const Call& call) {
  proto::ServersState& state = job_->edit.servers;
  const uint32_t count = job_->shards.server_count();
  state.trouble = fmt::format("{} servers, not {}: {}", count, state.wanted, why);
  job_->events.Tell(proto::EventCode::kServersNotScaled, {{"servers", count}, {"why", why}});
  state.wanted = count;
  state.shares.clear();
  std::erase_if(state.pins, [count](const auto& pin) { return pin.server >= count; });
  SendAway(call);
}

bool ServersDesk::TakesStranger(const Call& call, const proto::RegisterShard& message) {
  const bool is_stranger = message.shard.value >= job_->shards.size();
  const bool is_leaving = leaving_.contains(message.launch);
  if ((!is_stranger && !is_leaving) || !job_->HasRole(call, proto::Role::kShard)) {
    return is_stranger;
  }
  if (is_leaving || message.life != 0) {
    NoteLeaving(message.launch);
    job_->Reply(
        call,
        proto::Shutdown{
            message.life != 0 ? "its parameters are on other servers now"
                              : "this server is not wanted any more"});
    return true;
  }
  if (message.shard.value >= ShardsOf(job_->state.servers.wanted) ||
      message.port > proto::kPortMax) {
    return false;  // it is refused as any that is not of the job
  }
  Newcomer& known = newcomers_[message.shard];
  if (known.peer != proto::PeerId() && known.peer != call.from) {
    job_->Refuse(
        call,
        StatusCode::kUnavailable,
        fmt::format("shard {} is process {} already", message.shard.value, known.pid));
    return true;
  }
  if (known.peer == proto::PeerId()) {
    job_->log->Info("shard_came", {{"shard", message.shard.value}, {"host", message.host}});
  }
  known = {call.from, message.launch, message.pid, call.now};
  job_->Refuse(call, StatusCode::kUnavailable, "it gets its chunks when all new servers are here");
  return true;
}

void ServersDesk::OnClosed(proto::PeerId peer) {
  std::erase_if(newcomers_, [&](const auto& entry) { return entry.second.peer == peer; });
}

/// One that was started by hand goes by what it is told alone: nobody tells its end.
void ServersDesk::NoteLeaving(LaunchId launch) {
  if (launch != LaunchId()) {
    leaving_.insert(launch);
  }
}

bool ServersDesk::TakesEnd(const proto::ProcessEnd& end, const Call& call) {
  if (leaving_.erase(end.launch) > 0) {
    return true;
  }
  if (end.index < job_->shards.server_count()) {
    return false;
  }
  if (end.index >= job_->state.servers.wanted) {
    return true;
  }
  const auto started = started_.find(end.index);
  if (started == started_.end() || started->second.launch != end.launch) {
    return true;  // an earlier process of it
  }
  started_.erase(started);
  std::erase_if(newcomers_, [&](const auto& entry) { return entry.second.launch == end.launch; });
  if (++failures_ >= kFailuresMax) {
    GiveUp(
        fmt::format(
            "a new one ended {} times: {}; its log in the run's directory may say why",
            failures_,
            end.description),
        call);
  } else {
    pace_.NoteStart(call.now, &job_->random);
  }
  return true;
}

void ServersDesk::NoteLaunches(std::span<const proto::LaunchRecord> launches, TimePoint now) {
  for (const proto::LaunchRecord& launch : launches) {
    if (launch.kind == proto::ProcessKind::kServer && launch.index >= job_->shards.server_count()) {
      Started& started = started_[launch.index];
      started = {std::max(started.launch, launch.launch), now};
    }
  }
}

void ServersDesk::Remember(ServersDesk&& before) {
  leaving_ = std::move(before.leaving_);
  asker_ = std::move(before.asker_);
  for (const auto& [server, started] : before.started_) {
    if (server < job_->shards.server_count()) {
      job_->shards.Await(server, started.launch);  // it is part of the job now
    } else {
      started_.emplace(server, started);
    }
  }
}

bool ServersDesk::HaveAllCome() const {
  const uint32_t count = job_->shards.size();
  const uint32_t wanted = ShardsOf(job_->state.servers.wanted);
  return wanted <= count || newcomers_.size() == wanted - count;
}

void ServersDesk::StartMissing(const Call& call) {
  const Duration limit =
      FromSeconds(static_cast<double>(job_->options.config.fleet.join_timeout_s));
  if (!job_->options.config.servers.launch) {
    return;  // somebody starts them by hand
  }
  for (uint32_t server = job_->shards.server_count(); server < job_->state.servers.wanted;
       ++server) {
    const auto started = started_.find(server);
    if (started == started_.end()) {
      if (call.now >= pace_.ready_at()) {
        const LaunchId launch = job_->NextLaunch();
        started_[server] = {launch, call.now};
        job_->fleet->KillServer(server, LaunchId());  // one that was not wanted, or fell silent
        job_->fleet->StartServer(server, launch);
      }
    } else if (call.now - started->second.at > limit) {
      GiveUp(
          fmt::format(
              "server {} did not come within {:.0f} s (fleet.join_timeout_s)",
              server,
              Seconds(limit)),
          call);
      return;
    }
  }
}

/// They register again and again, so one that is silent is gone: another one is started. Should it
/// wake, its place is taken.
void ServersDesk::ForgetSilent(const Call& call) {
  std::erase_if(newcomers_, [&](const auto& entry) {
    const bool is_gone = call.now - entry.second.heard > job_->timing.server_detect;
    if (is_gone) {
      started_.erase(job_->shards.ServerOf(entry.first));
    }
    if (is_gone && job_->options.config.servers.launch) {
      NoteLeaving(entry.second.launch);
    }
    return is_gone;
  });
}

void ServersDesk::OnTick(const Call& call) {
  wants_other_shards_ = false;
  if (MayAdvance()) {
    ForgetSilent(call);
    Advance(call);
  }
}

void ServersDesk::GoOn(const Call& call) {
  wants_other_shards_ = false;
  const proto::ServersState& state = job_->state.servers;
  const bool may_join = state.wanted > job_->shards.server_count() && HaveAllCome() && MayResize();
  if (MayAdvance() &&
      (may_join || (state.is_spreading && !moves_->is_stuck() && moves_->MayBegin(call)))) {
    Advance(call);
  }
}

/// Until there is a lease there is no checkpoint.
bool ServersDesk::MayAdvance() const {
  return job_->state.phase == JobPhase::kTraining && job_->training_began &&
         !job_->state.park.is_on;
}

/// Nobody waits for an answer of all shards.
bool ServersDesk::MayResize() const {
  return job_->shards.are_all_ready() && !job_->state.modes.is_holding &&
         job_->state.handovers.empty() && !checkpoints_->is_open() && !job_->state.servers.chunks &&
         job_->membership.departures().empty() && job_->rounds.is_commit_acknowledged();
}

/// The chunks have moved, and no checkpoint has them where they are. One is made, once: if it
/// fails, the next one is made in its turn.
bool ServersDesk::MustSettle() const {
  const proto::ServersState& state = job_->state.servers;
  return !state.is_spreading && state.settled_by == job_->state.checkpoints.next;
}

/// The next thing, as far as it can be done now.
void ServersDesk::Advance(const Call& call) {
  proto::ServersState& state = job_->edit.servers;
  const uint32_t count = job_->shards.server_count();
  wants_other_shards_ = false;
  if (job_->is_all_leased()) {
    return;  // a move would be for nothing
  }
  if (state.wanted > count) {
    StartMissing(call);
  }
  if (state.wanted > count && HaveAllCome()) {
    wants_other_shards_ = MayResize();
  } else if (state.wanted < count && !state.is_spreading) {
    state.is_spreading = true;
    job_->events.Tell(proto::EventCode::kServersMove, {{"servers", state.wanted}, {"by", asker_}});
  }
  MoveDesk::Wish wish{
      Shares(), PinnedShards(state, job_->options.config.servers.shards_per_server)};
  wish.shares.resize(ShardsOf(std::min(state.wanted, count)));
  std::erase_if(wish.pinned, [&](const auto& pin) {
    return pin.second.value >= wish.shares.size();  // until its server is there
  });
  if (state.is_spreading && !wants_other_shards_ && moves_->Spread(wish, call)) {
    if (state.wanted < count) {
      wants_other_shards_ = MayResize();
    } else {
      state.is_spreading = false;
      ++state.moves;
      job_->events.Tell(
          proto::EventCode::kServersMoved,
          {{"servers", count}, {"placement", job_->state.placement.version}});
    }
  }
  if (MustSettle()) {
    checkpoints_->OpenSoon(call);
  }
}

}  // namespace ps::coordinator
