#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"

namespace ps::server {

/// Who sent the message in hand, and how to answer.
struct Call {
  proto::PeerId peer;
  uint64_t request_id = 0;
  TimePoint now{};
  proto::Outbox* out = nullptr;
  Duration retry_after{};  // what a refusal asks for that passes

  void Answer(proto::Message message) const { out->Send(peer, request_id, std::move(message)); }

  void Refuse(const Status& status, Step step = 0) const {
    proto::Refusal refusal;
    refusal.code = status.code();
    refusal.message = std::string(status.message());
    refusal.step = step;
    if (status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kOverloaded) {
      const auto delay = std::chrono::duration_cast<std::chrono::milliseconds>(retry_after);
      refusal.retry_after_ms = static_cast<uint32_t>(std::max<int64_t>(delay.count(), 1));
    }
    Answer(std::move(refusal));
  }
};

}  // namespace ps::server
