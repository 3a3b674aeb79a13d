// Pulls. Answered at once, or held until the mode allows it. Which chunks an answer has is decided
// when it begins: those newer than what the worker holds. Their values are read, straight from
// their memory, as each frame leaves, so a chunk (of a large one: a part) may be newer than when
// the answer began, never older. A frame follows when the one before it has left: an answer takes a
// frame's memory, not a model's.

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ps/server/shard_core.h"

namespace ps::server {

void ShardCore::OnPull(const Call& call, proto::PullRequest& pull) {
  const Status status = TakePull(call, pull);
  if (!status.ok()) {
    Refuse(call, status, 0);
  }
}

Status ShardCore::TakePull(const Call& call, proto::PullRequest& pull) {
  if (!is_set_up_) {
    return Status::Unavailable("this shard is not set up yet");
  }
  PS_ASSIGN(Member* const member, roster_.Admit(pull.worker, pull.incarnation));
  PS_TRY(CheckHeld(pull.held, pull.placement));
  if (is_bsp() && pull.min_round > round_ + 1) {
    return Status::InvalidArgument(fmt::format(
        "a pull waits for round {}, but round {} is the last committed one",
        pull.min_round,
        round_));
  }
  if (call.request_id < member->newest_pull_id) {
    return Status::Ok();  // overtaken by a newer one on its way
  }
  StartPull(
      member,
      {call.peer,
       call.request_id,
       pull.min_round,
       pull.is_evaluation,
       std::move(pull.held),
       pull.held_life,
       {},
       {}},
      call.now,
      call.out);
  return Status::Ok();
}

Status ShardCore::CheckHeld(
    const std::vector<proto::ChunkVersion>& held, uint64_t placement) const {
  for (const proto::ChunkVersion& chunk : held) {
    if (!store_.IndexOf(chunk.key) && !MayHaveMoved(placement)) {
      return Status::InvalidArgument(fmt::format(
          "a pull holds chunk {}, which is not on shard {}", chunk.key.value, shard_.value));
    }
  }
  return Status::Ok();
}

void ShardCore::StartPull(Member* member, Pull pull, TimePoint now, proto::Outbox* out) {
  const std::optional<PullAnswer>& answer = member->answer;
  if (answer && answer->peer == pull.peer && answer->request_id == pull.request_id) {
    return;  // a repetition of what is being answered
  }
  EndAnswer(member);
  member->newest_pull_id = pull.request_id;
  if (MayAnswer(*member, pull)) {
    member->waiting.reset();
    BeginAnswer(member, pull, out);
    return;
  }
  // A repetition goes on waiting since when it began to.
  pull.since = member->waiting ? member->waiting->since : now;
  pull.generation = member->waiting ? member->waiting->generation : roster_.generation();
  member->waiting = std::move(pull);
}

bool ShardCore::MayAnswer(const Member& member, const Pull& pull) const {
  switch (mode_.mode) {
    case proto::Mode::kAsync:
      return true;
    case proto::Mode::kSsp:
      return pull.is_evaluation || roster_.LeadOf(member) <= mode_.staleness_max;
    case proto::Mode::kBsp:
      return !commit_ && pull.min_round <= round_;  // never parts of two rounds
  }
  return true;
}

PullAnswer ShardCore::MakeAnswer(const Pull& pull) {
  held_.assign(store_.size(), std::nullopt);
  if (pull.held_life == life_) {
    for (const proto::ChunkVersion& chunk : pull.held) {
      if (const std::optional<size_t> index = store_.IndexOf(chunk.key); index) {
        held_[*index] = chunk.version;
      }
    }
  }
  PullAnswer answer;
  answer.peer = pull.peer;
  answer.request_id = pull.request_id;
  for (size_t index = 0; index < store_.size(); ++index) {
    if (!held_[index] || store_.chunks()[index].version > *held_[index]) {
      answer.chunks.push_back(static_cast<uint32_t>(index));
    }
  }
  answer.total = static_cast<uint32_t>(answer.chunks.size());
  return answer;
}

void ShardCore::BeginAnswer(Member* member, const Pull& pull, proto::Outbox* out) {
  PullAnswer answer = MakeAnswer(pull);
  answer.staleness_steps = roster_.LeadOf(*member);
  if (!pull.is_evaluation) {
    ++stats_.staleness_histogram[std::min<uint64_t>(answer.staleness_steps, kStalenessBuckets - 1)];
    member->read_at = {stats_.steps_applied, member->read_at[0]};
    member->reads = std::min<uint32_t>(member->reads + 1, 2);
  }
  const bool has_room = !out->IsBacklogged(answer.peer);  // else OnDrained begins to send it
  answering_.emplace(answer.peer, member->incarnation);
  member->answer = std::move(answer);
  if (has_room) {
    ContinueAnswer(member, false, out);
  }
}

void ShardCore::ContinueAnswer(Member* member, bool is_urgent, proto::Outbox* out) {
  if (!is_urgent && DoAnswersWait()) {
    return;
  }
  if (SendAnswer(&*member->answer, is_urgent, out)) {
    EndAnswer(member);
  }
}

/// Those that waited for chunks that leave.
void ShardCore::ContinueAnswers(proto::Outbox* out) {
  for (auto it = answering_.begin(); it != answering_.end() && !DoAnswersWait();) {
    Member* const member = roster_.Find((it++)->second);
    if (!out->IsBacklogged(member->answer->peer)) {
      ContinueAnswer(member, false, out);
    }
  }
}

bool ShardCore::SendAnswer(PullAnswer* answer, bool is_urgent, proto::Outbox* out) {
  do {
    SendAnswerFrame(answer, out);
    if (answer->next == answer->chunks.size()) {
      return true;
    }
  } while (is_urgent || !out->IsBacklogged(answer->peer));
  return false;
}

void ShardCore::EndAnswer(Member* member) {
  if (member->answer) {
    answering_.erase({member->answer->peer, member->incarnation});
    member->answer.reset();
  }
}

void ShardCore::SendAnswerFrame(PullAnswer* answer, proto::Outbox* out) {
  proto::PullReply reply;
  reply.chunk_total = answer->total;
  reply.staleness_steps = answer->staleness_steps;
  reply.life = life_;
  reply.placement = placement_version_;
  uint64_t reply_bytes = 0;
  while (answer->next < answer->chunks.size()) {
    const Chunk& chunk = store_.chunks()[answer->chunks[answer->next]];
    const auto [begin, count] = store_.RangeOf(chunk, answer->next_part);
    const auto bytes = std::as_bytes(chunk.value.floats().subspan(begin, count));
    if (!reply.chunks.empty() && reply_bytes + bytes.size() > settings_.frame_bytes) {
      break;
    }
    reply.chunks.push_back({chunk.key, chunk.version, count, begin});
    reply.payload.parts.push_back(bytes);
    reply_bytes += bytes.size();
    if (++answer->next_part == chunk.part_count) {
      answer->next_part = 0;
      ++answer->next;
    }
  }
  stats_.bytes_sent += reply_bytes;
  out->Send(answer->peer, answer->request_id, std::move(reply));
}

void ShardCore::OnDrained(proto::PeerId peer, proto::Outbox* out) {
  if (peer == coordinator_) {
    ContinueModel(false, out);
  }
  if (giving_ && peer == giving_->peer) {
    ContinueGiving(out);
  }
  auto it = answering_.lower_bound({peer, Incarnation()});
  while (it != answering_.end() && it->first == peer) {
    Member* const member = roster_.Find((it++)->second);
    ContinueAnswer(member, false, out);
  }
}

uint64_t ShardCore::outgoing_bytes_max() const {
  return std::max({settings_.queue_bytes, 2 * store_.parameter_bytes(), 2 * settings_.frame_bytes});
}

void ShardCore::ReleasePulls(proto::Outbox* out) {
  for (auto& [incarnation, member] : roster_.members()) {
    if (member.waiting && MayAnswer(member, *member.waiting)) {
      const Pull pull = std::move(*member.waiting);
      member.waiting.reset();
      BeginAnswer(&member, pull, out);
    }
  }
  ContinueModel(false, out);
}

}  // namespace ps::server
