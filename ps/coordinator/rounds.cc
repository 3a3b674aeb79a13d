#include "ps/coordinator/rounds.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ps::coordinator {

void Rounds::Enter(WorkerId worker, Incarnation incarnation) {
  const bool is_new = entries_.emplace(incarnation, Entry{worker}).second;
  PS_CHECK(is_new) << "incarnation " << incarnation << " is in round " << open_round();
}

void Rounds::Contribute(Incarnation incarnation, Step step, uint32_t samples, bool is_rejected) {
  const auto it = entries_.find(incarnation);
  PS_CHECK(it != entries_.end() && !it->second.has_contributed) << "incarnation " << incarnation;
  it->second = {it->second.worker, true, step, samples, is_rejected};
}

void Rounds::Leave(Incarnation incarnation) {
  const auto it = entries_.find(incarnation);
  if (it != entries_.end() && !it->second.has_contributed) {
    entries_.erase(it);
  }
}

bool Rounds::HasContributed(Incarnation incarnation) const {
  const auto it = entries_.find(incarnation);
  return it != entries_.end() && it->second.has_contributed;
}

bool Rounds::is_settled() const {
  return !entries_.empty() && std::all_of(entries_.begin(), entries_.end(), [](const auto& entry) {
    return entry.second.has_contributed;
  });
}

void Rounds::Commit() {
  PS_CHECK(is_settled() && is_commit_acknowledged()) << "round " << open_round();
  proto::CommitRound commit;
  commit.round = open_round();
  for (const auto& [incarnation, entry] : entries_) {
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
  committed_ = commit.round;
  commit_ = std::move(commit);
  acks_.clear();
  entries_.clear();
}

Result<bool> Rounds::OnAck(const proto::CommitAck& ack, uint32_t shard_count) {
  if (ack.round > committed_) {
    return Status::InvalidArgument(
        "round " + std::to_string(ack.round) + " is not committed; the newest is " +
        std::to_string(committed_));
  }
  if (!commit_ || ack.round != commit_->round) {
    return false;  // a repetition
  }
  acks_.insert(ack.shard);
  if (acks_.size() < shard_count) {
    return false;
  }
  commit_.reset();
  return true;
}

}  // namespace ps::coordinator
