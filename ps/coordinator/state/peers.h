#pragma once

#include <fmt/core.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "ps/base/check.h"
#include "ps/base/id_index.h"
#include "ps/base/ids.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"

namespace ps::coordinator {

/// One open connection.
struct Peer {
  proto::Role role = proto::Role::kControl;
  std::string node;
  Incarnation incarnation;  // workers: by Hello, or granted on this connection; at most one
  std::optional<WorkerId> own_seat;  // the only one that its token is for
};

/// Why a worker is refused whose token is for one seat.
inline std::string OtherSeatText(WorkerId own) {
  return fmt::format("this token is worker {}'s and lets nobody in as another one", own.value);
}

/// The open connections, and how many there are of each role.
class Peers {
 public:
  void Add(proto::PeerId id, Peer peer) {
    Remove(id);
    ++counts_[peer.role];
    index_.Insert(id, &peers_.emplace(id, std::move(peer)).first->second);
  }

  /// False when there was none.
  bool Remove(proto::PeerId id) {
    const auto it = peers_.find(id);
    if (it == peers_.end()) {
      return false;
    }
    --counts_[it->second.role];
    index_.Erase(id);
    peers_.erase(it);
    return true;
  }

  /// Null when it is not open.
  Peer* Find(proto::PeerId id) { return index_.Find(id); }

  /// The only seat that its token is for, if it is for one.
  std::optional<WorkerId> OwnSeatOf(proto::PeerId id) {
    const Peer* const peer = Find(id);
    return peer == nullptr ? std::nullopt : peer->own_seat;
  }

  /// Requires: it is open.
  Peer& At(proto::PeerId id) {
    Peer* const peer = Find(id);
    PS_CHECK(peer != nullptr) << "peer " << id << " is not open";
    return *peer;
  }

  bool Has(proto::Role role) const {
    const auto it = counts_.find(role);
    return it != counts_.end() && it->second > 0;
  }

  const std::map<proto::PeerId, Peer>& all() const { return peers_; }

 private:
  std::map<proto::PeerId, Peer> peers_;
  IdIndex<proto::PeerId, Peer> index_;
  std::map<proto::Role, size_t> counts_;
};

}  // namespace ps::coordinator
