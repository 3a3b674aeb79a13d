#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "ps/base/logger.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/proto/silence.h"
#include "ps/server/life.h"

namespace ps::server {

/// The shard's connection to its coordinator: who that is, registration, heartbeats, silence, and
/// the notice that the machine is taken back.
///
/// Invariant: what has to reach the coordinator is sent until it is answered, over one connection
/// after another. A coordinator of an earlier term than one that was known is no coordinator.
class CoordinatorLink {
 public:
  /// `self` is what it registers with, but for the life. All others outlive it.
  CoordinatorLink(proto::RegisterShard self, const Life& life, const Logger& log);

  /// A connection stands: registers, or closes it.
  void OnConnected(proto::PeerId peer, proto::Term term, TimePoint now, proto::Outbox* out);
  void OnClosed(TimePoint now);

  /// The coordinator has said something.
  void OnHeard(TimePoint now) { silence_.Heard(now); }

  /// It knows this shard: it has sent a set-up on this connection.
  void OnRegistered() { is_registered_ = true; }

  /// What a refusal of the coordinator says: OK when what it was about is sent again by its timer,
  /// else why the shard can't go on.
  static Status Weigh(const proto::Refusal& refusal);

  /// The machine is taken back at `due`. An earlier notice stands when it leaves less time.
  void OnNotice(TimePoint due, const std::string& what, TimePoint now, proto::Outbox* out);
  void OnNoticeKnown();

  /// Takes note of the time. Returns for how long the process did not run just now: nobody could be
  /// heard meanwhile.
  Duration NoteTick(TimePoint now);
  /// Why the shard has to end: the coordinator is gone, or silent, for too long. OK: it has not.
  Status CheckSilence(TimePoint now) const;
  /// Sends what is due, and was not answered. Requires: is_connected().
  void Repeat(TimePoint now, proto::Outbox* out);

  /// True once per heartbeat. Requires: is_connected().
  bool IsHeartbeatDue(TimePoint now);
  /// The next one is due in a whole interval.
  void RestartHeartbeats(TimePoint now);

  /// A request. Requires: is_connected().
  void Ask(proto::Message message, proto::Outbox* out) {
    out->Send(peer_, ++last_request_id_, std::move(message));
  }

  /// What it has not asked for, or an answer to the request. Nothing happens without a connection.
  void Tell(proto::Message message, proto::Outbox* out, uint64_t request_id = 0) const {
    if (is_connected()) {
      out->Send(peer_, request_id, std::move(message));
    }
  }

  proto::PeerId peer() const { return peer_; }

  bool is_connected() const { return peer_ != proto::PeerId(); }

  bool is_registered() const { return is_registered_; }

  /// The latest of all coordinators.
  proto::Term term() const { return term_; }

 private:
  struct Notice {
    TimePoint due{};
    std::string what;
    bool is_known = false;  // to the coordinator
    TimePoint next_try{};
  };

  void Register(TimePoint now, proto::Outbox* out);
  void SendNotice(TimePoint now, proto::Outbox* out);

  const proto::RegisterShard self_;
  const Life& life_;
  const Logger& log_;

  proto::PeerId peer_;
  proto::Term term_ = 0;
  proto::CoordinatorSilence silence_;
  TimePoint next_register_{};
  TimePoint next_heartbeat_{};
  uint64_t last_request_id_ = 0;
  bool is_registered_ = false;  // on this connection
  std::optional<Notice> notice_;
};

}  // namespace ps::server
