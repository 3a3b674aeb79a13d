#pragma once

#include <cstring>
#include <vector>

#include "ps/proto/outbox.h"

namespace ps::client {

/// Keeps what a core sends, with borrowed payloads copied as a transport would.
class RecordingOutbox final : public proto::Outbox {
 public:
  struct Sent {
    proto::PeerId to;
    uint64_t request_id = 0;
    proto::Message message;
    std::vector<float> values;  // of the payload
  };

  void Send(proto::PeerId to, uint64_t request_id, proto::Message message) override {
    std::vector<float> values;
    if (const auto* push = std::get_if<proto::PushRequest>(&message)) {
      for (const auto& part : push->payload.parts) {
        if (part.empty()) {
          continue;
        }
        const size_t old = values.size();
        values.resize(old + (part.size() + sizeof(float) - 1) / sizeof(float));
        std::memcpy(values.data() + old, part.data(), part.size());
      }
    }
    sent.push_back({to, request_id, std::move(message), std::move(values)});
  }

  void Close(proto::PeerId peer) override { closed.push_back(peer); }

  bool IsBacklogged(proto::PeerId /*peer*/) const override { return is_backlogged; }

  template <typename T>
  std::vector<T> All() const {
    std::vector<T> all;
    for (const Sent& s : sent) {
      if (const T* message = std::get_if<T>(&s.message)) {
        all.push_back(*message);
      }
    }
    return all;
  }

  std::vector<Sent> sent;
  std::vector<proto::PeerId> closed;
  bool is_backlogged = false;
};

}  // namespace ps::client
