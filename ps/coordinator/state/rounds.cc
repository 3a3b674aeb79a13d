#include "ps/coordinator/state/rounds.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace ps::coordinator {

Rounds::Rounds(RoundsState* state, TouchedRows* touched)
    : state_(state),
      touched_(touched),
      contributed_(static_cast<size_t>(
          std::count_if(state->entries.begin(), state->entries.end(), [](const auto& entry) {
            return entry.second.has_contributed;
          }))) {}

void Rounds::Enter(WorkerId worker, Incarnation incarnation) {
  const bool is_new = state_->entries.emplace(incarnation, RoundEntry{worker}).second;
  touched_->Mark(RowKind::kRoundEntry, incarnation.value);
  PS_CHECK(is_new) << "incarnation " << incarnation << " is in round " << open_round();
}

void Rounds::Contribute(Incarnation incarnation, Step step, uint32_t samples, bool is_rejected) {
  const auto it = state_->entries.find(incarnation);
  PS_CHECK(it != state_->entries.end() && !it->second.has_contributed)
      << "incarnation " << incarnation;
  it->second = {it->second.worker, true, step, samples, is_rejected};
  touched_->Mark(RowKind::kRoundEntry, incarnation.value);
  ++contributed_;
}

void Rounds::Leave(Incarnation incarnation) {
  const auto it = state_->entries.find(incarnation);
  if (it != state_->entries.end() && !it->second.has_contributed) {
    state_->entries.erase(it);
    touched_->Mark(RowKind::kRoundEntry, incarnation.value);
  }
}

bool Rounds::HasContributed(Incarnation incarnation) const {
  const auto it = state_->entries.find(incarnation);
  return it != state_->entries.end() && it->second.has_contributed;
}

void Rounds::Commit(uint32_t local_steps) {
  PS_CHECK(is_settled() && is_commit_acknowledged()) << "round " << open_round();
  proto::CommitRound commit;
  commit.round = open_round();
  commit.local_steps = local_steps;
  touched_->Mark(RowKind::kCommit);
  for (const ShardId shard : state_->acks) {
    touched_->Mark(RowKind::kCommitAck, shard.value);
  }
  for (const auto& [incarnation, entry] : state_->entries) {
    touched_->Mark(RowKind::kRoundEntry, incarnation.value);
    if (!entry.is_rejected) {
      commit.contributions.push_back({entry.worker, incarnation, entry.step, entry.samples});
    }
  }
  // By seat, so that the sum does not depend on who joined when; a seat can be there twice when its
  // holder was replaced within the round.
  std::sort(
      commit.contributions.begin(), commit.contributions.end(), [](const auto& a, const auto& b) {
        return std::pair(a.worker, a.incarnation) < std::pair(b.worker, b.incarnation);
      });
  state_->committed = commit.round;
  state_->commit = std::move(commit);
  state_->acks.clear();
  state_->entries.clear();
  contributed_ = 0;
}

void Rounds::Skip() {
  PS_CHECK(is_empty() && is_commit_acknowledged()) << "round " << open_round();
  ++state_->committed;
}

Result<bool> Rounds::OnAck(const proto::CommitAck& ack, uint32_t shard_count) {
  if (ack.round > state_->committed) {
    return Status::InvalidArgument(
        fmt::format("round {} is not committed; the newest is {}", ack.round, state_->committed));
  }
  if (!state_->commit || ack.round != state_->commit->round) {
    return false;  // a repetition
  }
  state_->acks.insert(ack.shard);
  touched_->Mark(RowKind::kCommitAck, ack.shard.value);
  if (state_->acks.size() < shard_count) {
    return false;
  }
  state_->commit.reset();
  touched_->Mark(RowKind::kCommit);
  return true;
}

Status CheckRoundsState(const RoundsState& state, uint32_t shard_count) {
  const bool is_commit_sane =
      !state.commit || (state.commit->round == state.committed && state.committed > 0 &&
                        state.acks.size() < shard_count);
  const bool are_acks_sane = state.acks.empty() || state.acks.rbegin()->value < shard_count;
  return is_commit_sane && are_acks_sane
             ? Status::Ok()
             : Status::Corruption(
                   fmt::format("the commit of round {} makes no sense", state.committed));
}

}  // namespace ps::coordinator
