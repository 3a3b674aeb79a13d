#include "ps/coordinator/own_calls.h"

#include <limits>
#include <utility>

namespace ps::coordinator {

proto::PeerId OwnCalls::Open(OnReply on_reply) {
  // Connections are numbered from 1 on: the two never meet.
  const proto::PeerId peer(std::numeric_limits<uint64_t>::max() - last_++);
  calls_.emplace(peer, std::move(on_reply));
  return peer;
}

void OwnCalls::Send(proto::PeerId to, uint64_t request_id, proto::Message message) {
  const auto call = calls_.find(to);
  if (call == calls_.end()) {
    out_->Send(to, request_id, std::move(message));
  } else if (const OnReply on_reply = std::exchange(call->second, nullptr); on_reply != nullptr) {
    on_reply(std::move(message));
  }
}

void OwnCalls::Flush(proto::PeerId peer) {
  if (!calls_.contains(peer)) {
    out_->Flush(peer);
  }
}

void OwnCalls::Close(proto::PeerId peer) {
  if (calls_.erase(peer) == 0) {
    out_->Close(peer);
  }
}

}  // namespace ps::coordinator
