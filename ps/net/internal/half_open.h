#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ps/base/time.h"
#include "ps/proto/outbox.h"

namespace ps::net {

/// Connections that came in and are not through the handshake: nobody knows yet who they are, so
/// they must not keep out those who have a right to come in. Pure: the owner tells the time, and
/// ends whom this names.
///
/// When all places are taken a newcomer may take one:
/// 1. of a connection that was refused already and lingers;
/// 2. at once, of the address that has most of them, if that has at least two more than the
///    newcomer's: no address keeps out another. A known address takes from an unknown one always;
/// 3. of the address that has most of them, once the oldest there is older than the patience: an
///    idle connection keeps out nobody, and a crowd that comes at one moment is served in turn.
/// The oldest of the address has to go. An unknown address never displaces a known one.
class HalfOpen {
 public:
  HalfOpen(uint32_t places, Duration patience) : places_(places), patience_(patience) {}

  /// What becomes of a newcomer.
  struct Verdict {
    bool is_let_in = false;
    std::optional<proto::PeerId> displaced;  // it has to go first
  };

  Verdict Judge(const std::string& address, TimePoint now) const;

  void Add(proto::PeerId peer, const std::string& address, TimePoint now);
  /// It was refused, and stays until its socket is closed.
  void NoteRefused(proto::PeerId peer);
  /// No effect when it is not here.
  void Remove(proto::PeerId peer);

  /// A peer of that address has come through the handshake, or is expected to. The number of
  /// addresses that are remembered is limited; later ones are not.
  void Know(const std::string& address);

  size_t size() const { return waiting_.size(); }

 private:
  struct Waiting {
    std::string address;
    TimePoint since{};
    bool is_refused = false;
  };

  bool IsKnown(const std::string& address) const { return known_.contains(address); }

  const uint32_t places_;
  const Duration patience_;
  std::map<proto::PeerId, Waiting> waiting_;  // in the order in which they came
  std::set<std::string> known_;
};

}  // namespace ps::net
