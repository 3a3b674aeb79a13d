#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/coordinator/state/peers.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"

namespace ps::coordinator {

/// The event in hand: who sent it, when, and where answers go.
struct Call {
  proto::PeerId from;  // none: no message
  uint64_t request_id = 0;
  TimePoint now{};
  proto::Outbox* out = nullptr;
};

inline void Reply(const Call& call, proto::Message message) {
  call.out->Send(call.from, call.request_id, std::move(message));
}

inline void Refuse(const Call& call, StatusCode code, const std::string& text, Step step = 0) {
  proto::Refusal refusal;
  refusal.code = code;
  refusal.message = text;
  refusal.step = step;
  Reply(call, std::move(refusal));
}

/// Whether the caller has the role; else it is refused. Requires: its connection is open.
inline bool HasRole(Peers* peers, const Call& call, proto::Role role) {
  if (peers->At(call.from).role == role) {
    return true;
  }
  Refuse(call, StatusCode::kInvalidArgument, "this message is not for your role to send");
  return false;
}

}  // namespace ps::coordinator
