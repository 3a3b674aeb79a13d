#include "ps/coordinator/servers/server_watch.h"

#include <fmt/core.h>

#include <algorithm>

namespace ps::coordinator {
namespace {

/// For a server, until it has worked for a while. Their waits are 1, 2, 4, ... 60 s: 1.5 to 2.6
/// minutes in all, which a machine that boots, a full disk or a launcher that is busy may take.
constexpr uint32_t kRestartsMax = 8;
/// The same before training has begun: 5 to 9 s. Somebody waits for it, and may have mistyped.
constexpr uint32_t kFirstRestartsMax = 4;
/// Slower than any disk and network that anybody would train with; of parameters, whose optimizer
/// may have three times as much beside them.
constexpr double kRestoredBytesPerSecond = 2.5e6;

uint64_t Since(uint64_t now, uint64_t before) {
  return now - std::min(now, before);
}

}  // namespace

/// A process that waits for a lock, or for a disk that hangs, goes on to say that it is there.
Duration ServerWatch::SetUpLimit(const Shard& shard) const {
  const double join_s = double{job_->options.config.fleet.join_timeout_s};
  const auto bytes = static_cast<double>(shard.has_chunks ? job_->shards.largest_bytes() : 0);
  return std::max(FromSeconds(join_s), job_->timing.server_detect) +
         FromSeconds(bytes / kRestoredBytesPerSecond);
}

Status ServerWatch::OnTick(const Call& call) {
  job_->StartDueServers(call.now);
  return CheckSilence(call);
}

Status ServerWatch::CheckSilence(const Call& call) {
  if (job_->state.park.is_on) {
    return Status::Ok();
  }
  const Duration join_limit =
      FromSeconds(static_cast<double>(job_->options.config.fleet.join_timeout_s));
  for (const Shard& shard : job_->shards.all()) {
    const uint32_t server = job_->shards.ServerOf(shard.shard);
    const Duration silence = shard.SilenceAt(call.now);
    const bool is_away = shard.lost_at != TimePoint() && !shard.record->is_ready;
    // Less than that costs nobody his patience, and heartbeats may be late, or lost now and then.
    if (is_away || silence > job_->timing.detect) {
      job_->shards_silent_at = call.now;
    }
    if (job_->shards.starts().FindPlanned(server) != nullptr) {
      continue;
    }
    const bool is_stuck =
        is_away && shard.MayBeBusy() &&
        call.now - shard.last_heard > std::max(join_limit, job_->timing.server_detect);
    if (silence > job_->timing.server_detect || is_stuck) {
      return OnSilence(shard, call);
    }
    const Duration away =
        call.now - std::max(shard.lost_at, job_->shards.starts().StartedAt(server));
    if (is_away && !shard.record->is_registered && away > join_limit) {
      const std::string why =
          fmt::format("it was started again and did not come within {:.0f} s", Seconds(away));
      return OnServerLost(server, why, call);
    }
    const Duration set_up_for = call.now - shard.SetUpSince();
    if (is_away && shard.record->is_registered && set_up_for > SetUpLimit(shard)) {
      const std::string why = fmt::format(
          "it was not set up from checkpoint {} within {:.0f} s{}{}",
          shard.record->restore.checkpoint,
          Seconds(set_up_for),
          shard.trouble.empty() ? "" : ": ",
          shard.trouble);
      return OnServerLost(server, why, call);
    }
  }
  return Status::Ok();
}

Status ServerWatch::OnSilence(const Shard& shard, const Call& call) {
  const uint32_t server = job_->shards.ServerOf(shard.shard);
  const std::string why = fmt::format(
      "{} for {:.2f} s (shard {})",
      shard.peer != proto::PeerId() ? "no heartbeat" : "no connection",
      Seconds(call.now - shard.last_heard),
      shard.shard.value);
  if (CanComeBack(server)) {
    return OnServerLost(server, why, call);
  }
  return Status::Unavailable(fmt::format(
      "server {} (pid {}) does not answer: {}; its parameters may be there still, and nothing "
      "goes on without them: look at its machine and at the way to it, or be more patient with "
      "a larger servers.max_detect_s{}",
      server,
      shard.record->pid,
      why,
      WhatIsLeft()));
}

/// Empty: a server that was lost can come back.
std::string ServerWatch::WhyNotBack(uint32_t server) const {
  const proto::JobConfig& config = job_->options.config;
  if (job_->options.manifests == nullptr || !config.checkpoint.enabled) {
    return "there are no checkpoints (checkpoint.enabled)";
  }
  for (const Shard& shard : job_->shards.all()) {
    if (job_->shards.ServerOf(shard.shard) == server && shard.record->restarts >= kRestartsMax) {
      return fmt::format("it was started again {} times and did not come back", kRestartsMax);
    }
  }
  return "";
}

Status ServerWatch::OnServerLost(uint32_t server, const std::string& why, const Call& call) {
  if (job_->state.park.is_on) {
    return Status::Ok();
  }
  if (!CanComeBack(server)) {
    return MayStartAgain(server) ? StartAgain(server, why, call.now) : LostForGood(server, why);
  }
  job_->edit.handovers.erase(server);  // it was to the process that is gone
  proto::CheckpointsState& checkpoints = job_->edit.checkpoints;
  const proto::KeptCheckpoint newest = checkpoints.newest();
  const proto::RestoreOrder restore{newest.checkpoint, newest.shards};
  uint64_t steps = 0;  // undone
  uint64_t samples = 0;
  for (Shard& shard : job_->shards.all()) {
    if (job_->shards.ServerOf(shard.shard) != server) {
      continue;
    }
    if (shard.record->is_ready && call.now - shard.ready_at > job_->timing.detect) {
      job_->shards.Edit(shard).restarts = 0;  // it has worked in between
      job_->shards.NoteWorked(server);
    }
    if (shard.record->is_ready && !checkpoints.is_going_back && !job_->goes_back_together()) {
      steps = Since(job_->state.counters.steps_counted, newest.steps);
      samples = Since(job_->ledger.samples_counted(), newest.samples);
      ++checkpoints.shards_restored;
    }
    const proto::PeerId peer = shard.peer;
    job_->shards.LoseProcess(&shard, call.now);
    job_->BeginLife(&shard, restore);
    job_->membership.ForgetAcknowledged(shard.shard);
    ++job_->shards.Edit(shard).restarts;
    if (peer != proto::PeerId()) {
      job_->ClosePeer(peer, call);
    }
  }
  checkpoints.steps_undone += steps;
  checkpoints.samples_undone += samples;
  // Once all go back, a checkpoint that was finished meanwhile does not let them stay.
  checkpoints.is_going_back = checkpoints.is_going_back || job_->goes_back_together();
  Duration wait{};
  if (const LaunchId successor = job_->shards.SuccessorOf(server); successor != LaunchId()) {
    job_->shards.SetSuccessor(server, LaunchId());
    job_->shards.Await(server, successor);  // it is there, and registers again and again
    job_->fleet->KillServer(server, successor);
  } else {
    wait = job_->StartServer(server, why, call.now);
  }
  job_->events.Tell(
      proto::EventCode::kServerLost,
      {{"server", server},
       {"why", why},
       {"checkpoint", restore.checkpoint},
       {"steps_undone", steps},
       {"samples_undone", samples},
       {"again_in_s", Seconds(wait)}});
  return Status::Ok();
}

/// Before training has begun, a process that never registered has taken nothing along: its launcher
/// may do better the next time.
bool ServerWatch::MayStartAgain(uint32_t server) const {
  return !job_->training_began && std::ranges::all_of(job_->shards.all(), [&](const Shard& shard) {
    return job_->shards.ServerOf(shard.shard) != server ||
           (!shard.record->is_registered && shard.record->restarts < kFirstRestartsMax);
  });
}

Status ServerWatch::StartAgain(uint32_t server, const std::string& why, TimePoint now) {
  for (const Shard& shard : job_->shards.all()) {
    if (job_->shards.ServerOf(shard.shard) == server) {
      ++job_->shards.Edit(shard).restarts;
    }
  }
  const Duration wait = job_->StartServer(server, why, now);
  job_->events.Tell(
      proto::EventCode::kServerStartFailed,
      {{"server", server}, {"why", why}, {"again_in_s", Seconds(wait)}});
  return Status::Ok();
}

std::string ServerWatch::WhatIsLeft() const {
  const uint64_t newest = job_->state.checkpoints.newest().checkpoint;
  return newest == 0 ? "; start the job again"
                     : fmt::format("; psctl resume goes on from checkpoint {}", newest);
}

Status ServerWatch::LostForGood(uint32_t server, const std::string& why) const {
  int64_t pid = 0;
  for (const Shard& shard : job_->shards.all()) {
    if (job_->shards.ServerOf(shard.shard) == server) {
      pid = std::max(pid, shard.record->pid);
    }
  }
  return Status::Unavailable(fmt::format(
      "server {}{} was lost: {}; {}",
      server,
      pid == 0 ? "" : fmt::format(" (pid {})", pid),
      why,
      job_->training_began ? "its parameters are gone: " + WhyNotBack(server) + WhatIsLeft()
                           : "its log in the run's directory may say why"));
}

}  // namespace ps::coordinator
