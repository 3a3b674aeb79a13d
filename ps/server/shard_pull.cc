// Pulls. Answered at once, or held until the mode allows it; the answer has the chunks that are
// newer than what the worker holds at the moment of the answer, straight from their memory.

#include <algorithm>
#include <string>
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
  PS_TRY(CheckHeld(pull.held));
  if (is_bsp() && pull.min_round > round_ + 1) {
    return Status::InvalidArgument(
        "a pull waits for round " + std::to_string(pull.min_round) + ", but round " +
        std::to_string(round_) + " is the last committed one");
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
       {},
       {}},
      call.now,
      call.out);
  return Status::Ok();
}

Status ShardCore::CheckHeld(const std::vector<proto::ChunkVersion>& held) const {
  for (const proto::ChunkVersion& chunk : held) {
    if (!store_.IndexOf(chunk.key)) {
      return Status::InvalidArgument(
          "a pull holds chunk " + std::to_string(chunk.key.value) + ", which is not on shard " +
          std::to_string(shard_.value));
    }
  }
  return Status::Ok();
}

void ShardCore::StartPull(Member* member, Pull pull, TimePoint now, proto::Outbox* out) {
  member->newest_pull_id = pull.request_id;
  if (MayAnswer(*member, pull)) {
    member->waiting.reset();
    AnswerPull(*member, pull, out);
    return;
  }
  // A repetition goes on waiting since when it began to.
  pull.since = member->waiting ? member->waiting->since : now;
  pull.generation = member->waiting ? member->waiting->generation : roster_.generation();
  member->waiting = std::move(pull);
}

bool ShardCore::MayAnswer(const Member& member, const Pull& pull) const {
  switch (mode_) {
    case proto::Mode::kAsync:
      return true;
    case proto::Mode::kSsp:
      return pull.is_evaluation || roster_.LeadOf(member) <= staleness_max_;
    case proto::Mode::kBsp:
      return pull.min_round <= round_;
  }
  return true;
}

void ShardCore::AnswerPull(const Member& member, const Pull& pull, proto::Outbox* out) {
  held_.assign(store_.size(), std::nullopt);
  for (const proto::ChunkVersion& chunk : pull.held) {
    held_[*store_.IndexOf(chunk.key)] = chunk.version;
  }
  const auto is_wanted = [&](size_t index) {
    return !held_[index] || store_.chunks()[index].version > *held_[index];
  };
  proto::PullReply reply;
  reply.staleness_steps = roster_.LeadOf(member);
  if (!pull.is_evaluation) {
    ++stats_.staleness_histogram[std::min<uint64_t>(reply.staleness_steps, kStalenessBuckets - 1)];
  }
  for (size_t index = 0; index < store_.size(); ++index) {
    reply.chunk_total += is_wanted(index) ? 1 : 0;
  }
  uint64_t reply_bytes = 0;
  const auto send = [&] {
    stats_.bytes_sent += reply_bytes;
    proto::PullReply frame = std::exchange(reply, {});
    reply.chunk_total = frame.chunk_total;
    reply.staleness_steps = frame.staleness_steps;
    reply_bytes = 0;
    out->Send(pull.peer, pull.request_id, std::move(frame));
  };
  for (size_t index = 0; index < store_.size(); ++index) {
    if (!is_wanted(index)) {
      continue;
    }
    const Chunk& chunk = store_.chunks()[index];
    const std::span<const std::byte> bytes = chunk.value.bytes();
    if (!reply.chunks.empty() && reply_bytes + bytes.size() > frame_bytes_) {
      send();
    }
    reply.chunks.push_back({chunk.key, chunk.version, static_cast<uint32_t>(chunk.element_count)});
    reply.payload.parts.push_back(bytes);
    reply_bytes += bytes.size();
  }
  if (!reply.chunks.empty() || reply.chunk_total == 0) {
    send();
  }
}

void ShardCore::ReleasePulls(proto::Outbox* out) {
  for (auto& [incarnation, member] : roster_.members()) {
    if (member.waiting && MayAnswer(member, *member.waiting)) {
      const Pull pull = std::move(*member.waiting);
      member.waiting.reset();
      AnswerPull(member, pull, out);
    }
  }
}

}  // namespace ps::server
