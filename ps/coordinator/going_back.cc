// How the core goes back to a checkpoint: it hears nobody until the manifest is read, and then
// begins again as the job was then. And how it has the shards begin again with the best epoch's
// model when training is over.

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ps/coordinator/coordinator_core.h"
#include "ps/coordinator/meters/epoch_score.h"
#include "ps/coordinator/state/rollback.h"

namespace ps::coordinator {

bool CoordinatorCore::IsGoingBack() const {
  return parts_->job.state.checkpoints.is_going_back && parts_->job.is_working();
}

/// A server is lost and all go back: nothing that comes meanwhile matters. The manifest under way
/// is waited for, since it may be the one to go back to.
void CoordinatorCore::AdvanceGoingBack(const Call& call) {
  if (!parts_->checkpoints.Cancel("a server was lost meanwhile") || reading_ != 0) {
    return;
  }
  const proto::CheckpointsState& checkpoints = parts_->job.state.checkpoints;
  if (!checkpoints.kept.empty()) {
    reading_ = checkpoints.newest().checkpoint;
    parts_->job.options.manifests->Read(reading_);
  } else if (checkpoints.damaged > 0) {
    parts_->phases.Fail(
        Status::Corruption(fmt::format(
            "a server was lost, and no checkpoint can be restored; the newest of them: {}",
            checkpoints.damage)),
        call);
  } else {
    const JobState present = StateAt(call.now);
    GoBackTo(GoBack(present, nullptr, proto::KeptCheckpoint()), call);
  }
}

/// Until then nobody is heard, so that a disk that hangs would hold all up for ever.
void CoordinatorCore::LimitGoingBack(const Call& call) {
  if (!going_back_since_) {
    going_back_since_ = call.now;
  }
  const Duration limit = std::max(
      FromSeconds(double{parts_->job.options.config.fleet.join_timeout_s}),
      parts_->job.timing.server_detect);
  if (call.now - *going_back_since_ > limit) {
    parts_->phases.Fail(
        Status::Unavailable(fmt::format(
            "a server was lost, and the coordinator's disk has not given the manifest of "
            "checkpoint {} for {:.0f} s: look at the disk of checkpoint.path; psctl resume goes on "
            "from it",
            parts_->job.state.checkpoints.newest().checkpoint,
            Seconds(limit))),
        call);
  }
}

void CoordinatorCore::OnManifestRead(
    uint64_t checkpoint,
    const Result<checkpoint::Manifest>& manifest,
    TimePoint now,
    proto::Outbox* out) {
  ForgiveOwnSilence(now);
  if (checkpoint != reading_) {
    return;
  }
  reading_ = 0;
  const Call call{proto::PeerId(), 0, now, out};
  if (std::exchange(is_reading_best_, false)) {
    if (!IsGoingBack()) {
      OnBestRead(manifest, call);
    }
    Settle(call);
    return;
  }
  if (!IsGoingBack()) {
    return;
  }
  Result<JobState> state = manifest.ok()
                               ? StateToGoBackTo(*manifest, StateAt(now), parts_->job.options)
                               : Result<JobState>(manifest.status());
  if (state.ok()) {
    GoBackTo(std::move(state).value(), call);
  } else if (state.status().code() == StatusCode::kIo) {
    parts_->phases.Fail(Status(state.status()).Annotate("go back to a checkpoint"), call);
  } else {
    parts_->checkpoints.GiveUpKept(checkpoint, state.status());
  }
  Settle(call);
}

/// Those of workers and shards. Members are told `why` they are none any more, unless it is empty;
/// shards that `next` has not are told to leave. Returns the others.
Peers CoordinatorCore::CloseConnections(
    const JobState& next, const std::string& why, const Call& call) {
  Peers staying;
  for (const auto& [id, peer] : parts_->job.peers.all()) {
    if (peer.role == proto::Role::kControl) {
      staying.Add(id, peer);
      continue;
    }
    // One that has not got its answer yet does not know that it is a member.
    const Member* const member = parts_->job.membership.Find(peer.incarnation);
    if (!why.empty() && member != nullptr && member->record->is_admitted) {
      proto::Refusal refusal;
      refusal.code = StatusCode::kStale;
      refusal.message = why;
      call.out->Send(id, 0, std::move(refusal));
    }
    const Shard* const shard = parts_->job.shards.FindPeer(id);
    if (shard != nullptr && shard->shard.value >= next.shards.size()) {
      parts_->servers_desk.NoteLeaving(shard->record->launch);
      call.out->Send(id, 0, proto::Shutdown{"its parameters are on other servers now"});
    }
    call.out->Close(id);
  }
  return staying;
}

/// Training goes on with more shards, or with fewer. As after a restart of the coordinator all
/// connect again, and nobody has to do anything again.
void CoordinatorCore::ChangeShardsIfWanted(const Call& call) {
  if (!parts_->servers_desk.wants_other_shards()) {
    return;
  }
  JobState state = StateAt(call.now);
  ResizeShards(parts_->job.options.config.servers.shards_per_server, &state);
  Peers staying = CloseConnections(state, "", call);
  const std::unique_ptr<Parts> before = std::exchange(
      parts_,
      std::make_unique<Parts>(
          parts_->job.options, std::move(state), parts_->job.fleet, parts_->job.log));
  Job& job = parts_->job;
  job.peers = std::move(staying);
  job.Resume(call.now);
  parts_->notices.Resume(call.now);
  parts_->fleet_desk.Resume();
  parts_->checkpoints.Remember(before->checkpoints);
  parts_->servers_desk.Remember(std::move(before->servers_desk));
  job.events.Tell(
      proto::EventCode::kShardsChanged,
      {{"servers", job.shards.server_count()}, {"shards", job.shards.size()}});
}

/// The job goes on from `state`, an earlier one, since a server was lost.
void CoordinatorCore::GoBackTo(JobState state, const Call& call) {
  going_back_since_.reset();
  const proto::CheckpointsState undone = parts_->job.state.checkpoints;
  BeginAgain(
      std::move(state), "the job went back to an earlier state, since a server was lost", call);
  const proto::CheckpointsState& now = parts_->job.state.checkpoints;
  parts_->job.events.Tell(
      proto::EventCode::kWentBack,
      {{"checkpoint", now.newest().checkpoint},
       {"steps_undone", now.steps_undone - undone.steps_undone},
       {"samples_undone", now.samples_undone - undone.samples_undone},
       {"seconds_undone", now.seconds_undone - undone.seconds_undone}});
}

/// The job goes on from `state`. Everybody comes anew, for the reason `why`: what is on its way
/// from the time before would be taken for new otherwise.
void CoordinatorCore::BeginAgain(JobState state, const std::string& why, const Call& call) {
  Peers staying = CloseConnections(state, why, call);
  const std::unique_ptr<Parts> before = std::exchange(
      parts_,
      std::make_unique<Parts>(
          parts_->job.options, std::move(state), parts_->job.fleet, parts_->job.log));
  Job& job = parts_->job;
  job.peers = std::move(staying);
  job.Resume(call.now);
  job.shards.RememberLosses(before->job.shards, call.now);
  parts_->notices.Resume(call.now);
  parts_->fleet_desk.Resume();
  parts_->checkpoints.Remember(before->checkpoints);
  parts_->servers_desk.Remember(std::move(before->servers_desk));
}

/// Training is over, and an earlier epoch's model is to be left: its manifest says in which round
/// the shards were.
void CoordinatorCore::TakeBestIfWanted() {
  const std::optional<proto::EpochCheckpoint> best = parts_->finish.WantsBest();
  if (best && reading_ == 0) {
    reading_ = best->checkpoint;
    is_reading_best_ = true;
    parts_->job.options.manifests->Read(reading_);
  }
}

void CoordinatorCore::OnBestRead(const Result<checkpoint::Manifest>& manifest, const Call& call) {
  const std::optional<proto::EpochCheckpoint> best = parts_->finish.WantsBest();
  if (!best || (manifest.ok() && manifest->id != best->checkpoint)) {
    return;  // the job ends meanwhile, or has gone back
  }
  if (!parts_->checkpoints.Cancel("the servers take the best epoch's model")) {
    return;  // a manifest is being written: it is read again
  }
  Result<JobState> state = manifest.ok()
                               ? StateWithBest(*manifest, StateAt(call.now), parts_->job.options)
                               : Result<JobState>(manifest.status());
  if (!state.ok()) {
    parts_->checkpoints.GiveUpKept(best->checkpoint, state.status());
    return;
  }
  BeginAgain(std::move(state).value(), "the servers take the best epoch's model", call);
  parts_->job.events.Tell(
      proto::EventCode::kBestTaken,
      {{"epoch", best->epoch},
       {"checkpoint", best->checkpoint},
       {"metric", BestMetricOf(parts_->job.options.config)},
       {"score", best->score}});
}

}  // namespace ps::coordinator
