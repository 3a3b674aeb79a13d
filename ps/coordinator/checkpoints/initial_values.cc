#include "ps/coordinator/checkpoints/initial_values.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "ps/base/buffer.h"

namespace ps::coordinator {

Status InitialValues::On(const Call& call, const proto::PullRequest& message) {
  if (!HasRole(peers_, call, proto::Role::kShard)) {
    return Status::Ok();
  }
  Shard* const shard = shards_->FindPeer(call.from);
  if (shard == nullptr || source_ == nullptr) {
    Refuse(call, StatusCode::kInvalidArgument, "there are no initial values for you to pull");
    return Status::Ok();
  }
  shard->last_heard = call.now;
  std::vector<ChunkKey> held;
  for (const proto::ChunkVersion& chunk : message.held) {
    held.push_back(chunk.key);
  }
  std::sort(held.begin(), held.end());
  Answer answer;
  answer.request_id = call.request_id;
  const std::vector<proto::ChunkAssignment>& chunks = placement_.chunks;
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i].shard == shard->shard &&
        !std::binary_search(held.begin(), held.end(), chunks[i].key)) {
      answer.chunks.push_back(static_cast<uint32_t>(i));
    }
  }
  answers_[call.from] = std::move(answer);
  return OnDrained(call);
}

Status InitialValues::OnDrained(const Call& call) {
  const auto it = answers_.find(call.from);
  if (it == answers_.end()) {
    return Status::Ok();
  }
  PS_TRY(Continue(call, &it->second));
  if (it->second.next == it->second.chunks.size()) {
    answers_.erase(it);
  }
  return Status::Ok();
}

Status InitialValues::Continue(const Call& call, Answer* answer) {
  while (answer->next < answer->chunks.size() && !call.out->IsBacklogged(call.from)) {
    PS_TRY(SendFrame(call, answer).Annotate("model.from"));
  }
  return Status::Ok();
}

Status InitialValues::SendFrame(const Call& call, Answer* answer) {
  struct Piece {
    uint32_t tensor = 0;
    int64_t begin = 0;  // in the tensor
    uint32_t count = 0;
  };

  const uint64_t elements_max = frame_bytes_ / sizeof(float);
  proto::PullReply reply;
  reply.chunk_total = static_cast<uint32_t>(answer->chunks.size());
  std::vector<Piece> pieces;
  uint64_t elements = 0;
  while (answer->next < answer->chunks.size()) {
    const proto::ChunkAssignment& chunk = placement_.chunks[answer->chunks[answer->next]];
    const proto::ChunkParts::Range part = parts_.At(chunk.element_count, answer->next_part);
    if (!pieces.empty() && elements + part.element_count > elements_max) {
      break;
    }
    reply.chunks.push_back({chunk.key, 0, part.element_count, part.element_begin});
    pieces.push_back(
        {TensorOf(chunk.key), chunk.element_begin + part.element_begin, part.element_count});
    elements += part.element_count;
    if (++answer->next_part == parts_.CountOf(chunk.element_count)) {
      answer->next_part = 0;
      ++answer->next;
    }
  }
  auto buffer = std::make_shared<Buffer>(elements * sizeof(float));
  std::span<float> rest = buffer->floats();
  for (const Piece& piece : pieces) {
    PS_TRY(source_->Read(piece.tensor, piece.begin, rest.first(piece.count)));
    rest = rest.subspan(piece.count);
  }
  const size_t bytes = buffer->size();
  reply.payload = proto::Payload::Own(std::move(buffer), bytes);
  call.out->Send(call.from, answer->request_id, std::move(reply));
  return Status::Ok();
}

}  // namespace ps::coordinator
