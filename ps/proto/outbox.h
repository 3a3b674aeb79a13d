#pragma once

#include <cstdint>

#include "ps/base/ids.h"
#include "ps/proto/messages.h"

namespace ps::proto {

/// A connection as a core sees it. Never reused within a process; 0 means none.
using PeerId = Id<struct PeerIdTag, uint64_t>;

/// Coordinators of a run count from 1: whoever goes on with it has a later term than all before it.
/// 0: none.
using Term = uint64_t;

/// Where a core puts its messages. A production shell writes them to a socket, a simulation to its
/// virtual network. Cores do no other I/O.
class Outbox {
 public:
  virtual ~Outbox() = default;
  /// Borrowed payload parts are read before Send returns. Sending to a peer that is gone is no
  /// error: the message is dropped, and a core that needs an answer retries.
  virtual void Send(PeerId to, uint64_t request_id, Message message) = 0;

  /// Whether something that was sent to the peer can't leave yet, because the peer reads more
  /// slowly than it is written to. A core that has more for it had better wait: what can't leave is
  /// kept in memory. The shell says when it is over.
  virtual bool IsBacklogged(PeerId /*peer*/) const { return false; }

  /// What was sent to the peer leaves now, ahead of longer work.
  virtual void Flush(PeerId /*peer*/) {}

  /// Closes after what was sent.
  virtual void Close(PeerId peer) = 0;
};

}  // namespace ps::proto
