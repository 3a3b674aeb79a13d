// What the coordinator decides: who takes part, and which contributions make a round.

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ps/server/shard_core.h"

namespace ps::server {
namespace {

/// Of the length of a round: so much longer may the next one become for chunks that leave.
constexpr int64_t kAnswersWaitDivisor = 4;

}  // namespace

void ShardCore::OnMembership(const Call& call, const proto::Membership& membership) {
  if (!is_set_up_) {
    Refuse(call, Status::Unavailable("this shard is not set up yet"), 0);
    return;
  }
  if (membership.base > roster_.generation()) {
    Refuse(
        call,
        Status::InvalidArgument(fmt::format(
            "membership {} builds on {}, and this shard has {}",
            membership.generation.value,
            membership.base.value,
            roster_.generation().value)),
        0);
    return;
  }
  TakeMembership(membership, call.now, call.out);
  call.out->Send(
      call.peer,
      call.request_id,
      proto::MembershipAck{shard_, roster_.generation(), roster_.Resolved()});
}

/// Nobody has a train lease while the mode changes: no step is under way, no round is open, and the
/// last one was committed here.
void ShardCore::TakeMode(const proto::Membership& membership) {
  store_.SetMomentumFactor(lr_policy_.MomentumFactor(membership.mode.mode));
  if (membership.mode == mode_) {
    return;
  }
  const bool was_bsp = is_bsp();
  mode_ = membership.mode;
  if (is_bsp() && !was_bsp) {
    round_ = membership.round;  // what the parameters were restored from may be of an earlier one
  }
  if (was_bsp && !is_bsp()) {
    staging_ = Staging();
    due_checkpoint_.reset();
  }
  if (is_ssp()) {
    roster_.Level();
  }
  log_->Info("mode", {{"mode", proto::ModeName(mode_.mode)}, {"round", round_}});
}

void ShardCore::TakeMembership(
    const proto::Membership& membership, TimePoint now, proto::Outbox* out) {
  const std::optional<Roster::Change> change = roster_.Update(membership, store_.size() > 0);
  if (!change) {
    return;
  }
  TakeMode(membership);
  // A contribution that may still be committed is asked for until it is.
  for (const Incarnation incarnation : change->forgotten) {
    staging_.DropAll(incarnation);
  }
  for (const Member& member : change->fenced) {
    if (member.answer) {
      answering_.erase({member.answer->peer, member.incarnation});
    }
    staging_.DropIncomplete(member.incarnation);
    log_->Info(
        "fenced",
        {{"worker", member.worker.value},
         {"incarnation", member.incarnation.value},
         {"last_step", member.last_step},
         {"generation", roster_.generation().value}});
    if (member.waiting) {
      const Call call{member.waiting->peer, member.waiting->request_id, {}, out};
      const Status why = Status::Stale(fmt::format(
          "incarnation {} is fenced since membership {}",
          member.incarnation.value,
          roster_.generation().value));
      Refuse(call, why, 0);
    }
  }
  // bsp keeps a contribution of every member until all of them are in: less room is a standstill.
  const uint64_t needed_bytes = roster_.members().size() * store_.parameter_bytes();
  if (is_bsp() && needed_bytes > settings_.queue_bytes) {
    log_->Error(
        "round_does_not_fit",
        {{"members", roster_.members().size()},
         {"needed_bytes", needed_bytes},
         {"queue_bytes", settings_.queue_bytes},
         {"remedy", "raise servers.queue_mib or use more shards"}});
  }
  FinishGiving(now, out);
  ReleasePulls(out);
}

void ShardCore::OnCommit(const Call& call, const proto::CommitRound& commit) {
  if (!is_set_up_) {
    Refuse(call, Status::Unavailable("this shard is not set up yet"), 0);
    return;
  }
  if (commit_ && commit.round > round_) {
    Refuse(
        call, Status::Unavailable(fmt::format("the update of round {} is under way", round_)), 0);
    return;
  }
  if (giving_ && commit.round > round_) {
    Refuse(call, Status::Unavailable("chunks are on their way to another shard"), 0);
    return;
  }
  if (commit.round > round_) {
    const Status status = CheckCommit(commit);
    if (!status.ok()) {
      log_->Error("commit_refused", {{"round", commit.round}, {"why", status}});
      Refuse(call, status, 0);
      return;
    }
    NoteRound(call.now);
    BeginCommit(commit, call.out);
  } else if (!commit_ || commit.round < round_) {
    call.out->Send(call.peer, call.request_id, proto::CommitAck{shard_, commit.round});
    return;
  }
  commit_peer_ = call.peer;
  commit_request_id_ = call.request_id;
  Continue(call.out);
}

/// The coordinator commits what workers have reported, and they report what was acknowledged here.
/// When the two disagree, one of us has a fault, and repeating mends nothing.
Status ShardCore::CheckCommit(const proto::CommitRound& commit) const {
  // A shard without chunks has nothing to restore a round from.
  const bool is_next = commit.round == round_ + 1 || store_.size() == 0;
  if (!is_bsp() || !is_next) {
    const std::string why =
        is_bsp() ? fmt::format("the last one was {}", round_) : "the mode is not bsp";
    return Status::InvalidArgument(
        fmt::format("round {} can't be committed: {}", commit.round, why));
  }
  std::set<Incarnation> contributors;
  for (const proto::CommitRound::Contribution& c : commit.contributions) {
    if (!contributors.insert(c.incarnation).second) {
      return Status::InvalidArgument(fmt::format(
          "round {} has two contributions of incarnation {}", commit.round, c.incarnation.value));
    }
    if (store_.size() == 0) {
      continue;  // nobody pushes to a shard without chunks
    }
    const Staging::Contribution* const staged = staging_.Find({c.incarnation, c.step});
    if (staged == nullptr || !staged->is_complete || staged->round != commit.round ||
        staged->bytes != store_.parameter_bytes()) {
      return Status::InvalidArgument(fmt::format(
          "step {} of incarnation {} is not staged for round {} on shard {}",
          c.step,
          c.incarnation.value,
          commit.round,
          shard_.value));
    }
    if (staged->samples != c.samples) {
      return Status::InvalidArgument(fmt::format(
          "step {} of incarnation {} stands for {} samples, not {} as the commit of round {} says",
          c.step,
          c.incarnation.value,
          staged->samples,
          c.samples,
          commit.round));
    }
  }
  return Status::Ok();
}

/// How long answers may wait in the round that begins follows from how long the last one took: a
/// pause that is short beside a round on a slow link is long where memory is the link.
void ShardCore::NoteRound(TimePoint now) {
  const Duration took = round_since_ == TimePoint() ? Duration() : now - round_since_;
  round_since_ = now;
  answers_may_wait_ = std::min(took / kAnswersWaitDivisor, settings_.timing.detect);
}

/// From here on the round is the newest one: what comes for it is too late, and pulls wait until
/// all of it is in the parameters.
void ShardCore::BeginCommit(const proto::CommitRound& commit, proto::Outbox* out) {
  // An answer of the round before must not have chunks of this one.
  for (auto& [incarnation, member] : roster_.members()) {
    if (member.answer) {
      ContinueAnswer(&member, true, out);
    }
  }
  ContinueModel(true, out);
  std::vector<Staging::Contribution> contributions;
  for (const proto::CommitRound::Contribution& c : commit.contributions) {
    if (store_.size() > 0) {
      contributions.push_back(staging_.Take({c.incarnation, c.step}));
    }
  }
  round_ = commit.round;
  staging_.DropThrough(round_);
  // What was left out of the round while it was still coming in is void: it would begin anew.
  for (auto& [incarnation, member] : roster_.members()) {
    member.restored.clear();
    if (member.intake.step > member.last_step) {
      member.intake = Intake();
      member.fused.reset();
    }
  }
  const double policy = lr_policy_.Factor(mode_.mode, commit.contributions.size());
  commit_.emplace(
      round_,
      static_cast<float>(ScheduledLr(settings_.optimizer, JobFraction()) * policy),
      commit.contributions.size(),
      std::move(contributions));
}

void ShardCore::Continue(proto::Outbox* out) {
  if (HasWork() && commit_->Continue(settings_.commit_slice_bytes, &store_)) {
    FinishCommit(out);
  }
}

void ShardCore::FinishCommit(proto::Outbox* out) {
  stats_.steps_applied += commit_->contribution_count();
  stats_.samples_applied += commit_->samples();
  stats_.chunks_applied += commit_->chunks_applied();
  stats_.chunks_overflowed += commit_->chunks_overflowed();
  samples_done_ += commit_->samples();
  if (commit_->workers() > 0) {
    lr_policy_.OnStep(commit_->workers());
  }
  commit_.reset();
  if (due_checkpoint_ && due_checkpoint_->round <= round_) {
    BeginCheckpoint(*std::exchange(due_checkpoint_, std::nullopt), out);
  }
  ReleasePulls(out);
  if (commit_peer_ != proto::PeerId()) {
    out->Send(commit_peer_, commit_request_id_, proto::CommitAck{shard_, round_});
  }
}

}  // namespace ps::server
