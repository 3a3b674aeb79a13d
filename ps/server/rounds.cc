#include "ps/server/rounds.h"

#include <fmt/core.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ps::server {

Rounds::Rounds(
    const Life& life,
    ChunkStore& store,
    Staging& staging,
    LrSchedule& schedule,
    proto::ShardStats& counters,
    const Logger& log)
    : life_(life),
      store_(store),
      staging_(staging),
      schedule_(schedule),
      counters_(counters),
      log_(log) {}

void Rounds::Reset() {
  mode_ = proto::ModeChoice();
  newest_ = 0;
  commit_.reset();
}

bool Rounds::TakeMode(const proto::Membership& membership, size_t members) {
  store_.SetMomentumFactor(schedule_.policy().MomentumFactor(membership.mode.mode, members));
  store_.SetEvery(schedule_.policy().EveryOf(membership.mode.mode, members));
  if (membership.mode == mode_) {
    return false;
  }
  const bool was_bsp = is_bsp();
  mode_ = membership.mode;
  if (is_bsp() && !was_bsp) {
    newest_ = membership.round;  // what the parameters were restored from may be of an earlier one
  }
  if (was_bsp && !is_bsp()) {
    staging_ = Staging();
  }
  log_.Info("mode", {{"mode", proto::ModeName(mode_.mode)}, {"round", newest_}});
  return true;
}

void Rounds::WarnIfTooSmall(size_t members) const {
  const uint64_t needed_bytes = members * store_.parameter_bytes();
  if (is_bsp() && needed_bytes > life_.settings.queue_bytes) {
    log_.Error(
        "round_does_not_fit",
        {{"members", members},
         {"needed_bytes", needed_bytes},
         {"queue_bytes", life_.settings.queue_bytes},
         {"remedy", "raise servers.queue_mib or use more shards"}});
  }
}

Rounds::Admission Rounds::Admit(
    const Call& call, const proto::CommitRound& commit, bool are_chunks_leaving) {
  const bool is_new = commit.round > newest_;
  if (is_new && commit_) {
    call.Refuse(Status::Unavailable(fmt::format("the update of round {} is under way", newest_)));
    return Admission::kAnswered;
  }
  if (is_new && are_chunks_leaving) {
    call.Refuse(Status::Unavailable("chunks are on their way to another shard"));
    return Admission::kAnswered;
  }
  if (const Status status = is_new ? Check(commit) : Status::Ok(); !status.ok()) {
    log_.Error("commit_refused", {{"round", commit.round}, {"why", status}});
    call.Refuse(status);
    return Admission::kAnswered;
  }
  if (!is_new && (!commit_ || commit.round < newest_)) {
    call.Answer(proto::CommitAck{life_.shard, commit.round});
    return Admission::kAnswered;
  }
  peer_ = call.peer;
  request_id_ = call.request_id;
  return is_new ? Admission::kBegins : Admission::kUnderWay;
}

/// The coordinator commits what workers have reported, and they report what was acknowledged here.
/// When the two disagree, one of us has a fault, and repeating mends nothing.
Status Rounds::Check(const proto::CommitRound& commit) const {
  // A shard without chunks has nothing to restore a round from.
  const bool is_next = commit.round == newest_ + 1 || store_.size() == 0;
  if (!is_bsp() || !is_next) {
    const std::string why =
        is_bsp() ? fmt::format("the last one was {}", newest_) : "the mode is not bsp";
    return Status::InvalidArgument(
        fmt::format("round {} can't be committed: {}", commit.round, why));
  }
  std::set<Incarnation> contributors;
  for (const proto::CommitRound::Contribution& c : commit.contributions) {
    if (!contributors.insert(c.incarnation).second) {
      return Status::InvalidArgument(fmt::format(
          "round {} has two contributions of incarnation {}", commit.round, c.incarnation.value));
    }
    if (store_.size() > 0) {  // nobody pushes to a shard without chunks
      PS_TRY(CheckContribution(commit, c));
    }
  }
  return Status::Ok();
}

Status Rounds::CheckContribution(
    const proto::CommitRound& commit, const proto::CommitRound::Contribution& c) const {
  const Staging::Contribution* const staged = staging_.Find({c.incarnation, c.step});
  if (staged == nullptr || !staged->is_complete || staged->round != commit.round ||
      staged->bytes != store_.parameter_bytes()) {
    return Status::InvalidArgument(fmt::format(
        "step {} of incarnation {} is not staged for round {} on shard {}",
        c.step,
        c.incarnation.value,
        commit.round,
        life_.shard.value));
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
  return Status::Ok();
}

void Rounds::Begin(const proto::CommitRound& commit) {
  std::vector<Staging::Contribution> contributions;
  uint32_t most_samples = 0;
  for (const proto::CommitRound::Contribution& c : commit.contributions) {
    most_samples = std::max(most_samples, c.samples);
    if (store_.size() > 0) {
      contributions.push_back(staging_.Take({c.incarnation, c.step}));
    }
  }
  newest_ = commit.round;
  staging_.DropThrough(newest_);
  commit_.emplace(
      newest_,
      UpdateRate{
          static_cast<float>(schedule_.Rate(mode_.mode, commit.contributions.size())),
          schedule_.ObservedSteps({most_samples, commit.local_steps})},
      commit.contributions.size(),
      std::move(contributions));
}

bool Rounds::Continue() {
  if (!commit_->Continue(life_.settings.commit_slice_bytes, &store_)) {
    return false;
  }
  counters_.steps_applied += commit_->contribution_count();
  counters_.samples_applied += commit_->samples();
  counters_.chunks_applied += commit_->chunks_applied();
  counters_.chunks_overflowed += commit_->chunks_overflowed();
  schedule_.Count(commit_->samples(), commit_->workers());
  commit_.reset();
  return true;
}

void Rounds::Acknowledge(proto::Outbox* out) {
  if (peer_ != proto::PeerId()) {
    out->Send(peer_, request_id_, proto::CommitAck{life_.shard, newest_});
  }
}

}  // namespace ps::server
