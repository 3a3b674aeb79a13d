#pragma once

#include <cstdint>
#include <utility>

#include "ps/base/logger.h"
#include "ps/base/time.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/proto/silence.h"

namespace ps::client {

/// A worker's connection to its coordinator, and for how long nothing was heard of it.
///
/// Invariant: a coordinator of an earlier term than one that was known is no coordinator.
class CoordinatorLink {
 public:
  /// `log` outlives it.
  explicit CoordinatorLink(const Logger& log) : log_(log) {}

  /// A connection stands. False when it is closed again.
  bool OnConnected(proto::PeerId peer, proto::Term term, TimePoint now, proto::Outbox* out) {
    if (term < term_) {
      log_.Error("coordinator_of_earlier_term", {{"term", term}, {"known", term_}});
      out->Close(peer);
      return false;
    }
    term_ = term;
    peer_ = peer;
    silence_.Heard(now);
    return true;
  }

  void OnClosed(TimePoint now) {
    peer_ = proto::PeerId();
    silence_.Heard(now);
  }

  void Close(proto::Outbox* out) {
    if (is_connected()) {
      out->Close(peer_);
      peer_ = proto::PeerId();
    }
  }

  /// A request. Without a connection nothing happens: what matters is repeated by its timer.
  void Send(proto::Message message, proto::Outbox* out) {
    if (is_connected()) {
      out->Send(peer_, ++last_request_id_, std::move(message));
    }
  }

  proto::PeerId peer() const { return peer_; }

  bool is_connected() const { return peer_ != proto::PeerId(); }

  /// The latest of all coordinators.
  proto::Term term() const { return term_; }

  proto::CoordinatorSilence& silence() { return silence_; }

 private:
  const Logger& log_;
  proto::PeerId peer_;
  proto::Term term_ = 0;
  proto::CoordinatorSilence silence_;
  uint64_t last_request_id_ = 0;
};

}  // namespace ps::client
