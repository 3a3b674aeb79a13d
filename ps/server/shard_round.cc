// What the coordinator decides: who takes part, and which contributions make a round.

#include <fmt/core.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ps/server/shard_core.h"

namespace ps::server {

void ShardCore::OnMembership(const Call& call, const proto::Membership& membership) {
  if (!is_set_up_) {
    Refuse(call, Status::Unavailable("this shard is not set up yet"), 0);
    return;
  }
  TakeMembership(membership, call.out);
  call.out->Send(
      call.peer,
      call.request_id,
      proto::MembershipAck{shard_, roster_.generation(), roster_.Resolved()});
}

void ShardCore::TakeMembership(const proto::Membership& membership, proto::Outbox* out) {
  const std::optional<std::vector<Member>> fenced = roster_.Update(membership);
  if (!fenced) {
    return;
  }
  for (const Member& member : *fenced) {
    staging_.DropIncomplete(member.incarnation);
    log_->Info(
        "fenced",
        {{"worker", member.worker.value},
         {"incarnation", member.incarnation.value},
         {"last_step", member.last_step},
         {"generation", roster_.generation().value}});
    if (member.waiting) {
      const Call call{member.waiting->peer, member.waiting->request_id, {}, out};
      const Status why = Status::Stale(
          "incarnation " + std::to_string(member.incarnation.value) +
          " is fenced since membership " + std::to_string(roster_.generation().value));
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
  ReleasePulls(out);
}

void ShardCore::OnCommit(const Call& call, const proto::CommitRound& commit) {
  if (!is_set_up_) {
    Refuse(call, Status::Unavailable("this shard is not set up yet"), 0);
    return;
  }
  if (commit.round > round_) {
    const Status status = CheckCommit(commit);
    if (!status.ok()) {
      log_->Error("commit_refused", {{"round", commit.round}, {"why", status}});
      Refuse(call, status, 0);
      return;
    }
    // An answer of the round before must not have chunks of this one.
    for (auto& [incarnation, member] : roster_.members()) {
      if (member.answer) {
        ContinueAnswer(&member, true, call.out);
      }
    }
    ApplyCommit(commit);
    ReleasePulls(call.out);
  }
  call.out->Send(call.peer, call.request_id, proto::CommitAck{shard_, commit.round});
}

/// The coordinator commits what workers have reported, and they report what was acknowledged here.
/// When the two disagree, one of us has a fault, and repeating mends nothing.
Status ShardCore::CheckCommit(const proto::CommitRound& commit) const {
  if (!is_bsp() || commit.round != round_ + 1) {
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
    if (staged == nullptr || !staged->is_complete || staged->round != commit.round) {
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

void ShardCore::ApplyCommit(const proto::CommitRound& commit) {
  const float lr = ScheduledLr(settings_.optimizer, JobFraction());
  uint64_t samples = 0;
  for (const proto::CommitRound::Contribution& c : commit.contributions) {
    samples += c.samples;
  }
  std::vector<kernels::WeightedPart> gradients;
  for (size_t index = 0; index < store_.size() && !commit.contributions.empty(); ++index) {
    const Chunk& chunk = store_.chunks()[index];
    for (uint32_t part = 0; part < chunk.part_count; ++part) {
      gradients.clear();
      for (const proto::CommitRound::Contribution& c : commit.contributions) {
        const Staging::Contribution& staged = *staging_.Find({c.incarnation, c.step});
        const std::span<const float> values = staged.parts[chunk.first_part + part].values;
        gradients.push_back({values.data(), static_cast<float>(c.samples)});
      }
      store_.ApplyMean(index, part, gradients, lr);
    }
    store_.FinishUpdate(index);
    ++stats_.chunks_applied;
  }
  stats_.steps_applied += commit.contributions.size();
  stats_.samples_applied += samples;
  samples_done_ += samples;
  round_ = commit.round;
  staging_.DropThrough(round_);
  // What was left out of the round while it was still coming in is void: it would begin anew.
  for (auto& [incarnation, member] : roster_.members()) {
    if (member.intake.step > member.last_step) {
      member.intake = Intake();
      member.fused.reset();
    }
  }
}

}  // namespace ps::server
