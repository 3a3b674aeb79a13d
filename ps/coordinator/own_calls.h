#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "ps/proto/outbox.h"

namespace ps::coordinator {

/// Lets the coordinator's own process ask as psctl does, without a connection: what the core sends
/// to such an asker goes to a function, everything else to the connections. Thread: the loop's.
class OwnCalls final : public proto::Outbox {
 public:
  /// Called once, with the answer.
  using OnReply = std::function<void(proto::Message reply)>;

  /// `out` outlives it.
  explicit OwnCalls(proto::Outbox* out) : out_(out) {}

  /// An asker that nobody else is, until Close.
  proto::PeerId Open(OnReply on_reply);

  void Send(proto::PeerId to, uint64_t request_id, proto::Message message) override;

  bool IsBacklogged(proto::PeerId peer) const override {
    return !calls_.contains(peer) && out_->IsBacklogged(peer);
  }

  void Flush(proto::PeerId peer) override;
  /// What has no answer yet gets none.
  void Close(proto::PeerId peer) override;

 private:
  proto::Outbox* const out_;
  std::map<proto::PeerId, OnReply> calls_;
  uint64_t last_ = 0;
};

}  // namespace ps::coordinator
