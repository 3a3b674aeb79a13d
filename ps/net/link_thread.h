#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "ps/net/cross_loop.h"
#include "ps/net/endpoint.h"
#include "ps/net/loop.h"

namespace ps::net {

/// An endpoint on a thread of its own, for a core on another loop whose connections move more than
/// one thread can: system calls, checksums, encryption and decoding are this thread's. What is
/// called here is done there in order, and what happens there is told on the core's loop.
///
/// Peers have numbers of their own beside those of other endpoints. Thread: the home loop's (before
/// Run: any one), unless a function says otherwise.
class LinkThread final : private EndpointHandler {
 public:
  /// `number` of a home loop's link threads is from 1 to kNumberMax, and never used again.
  static constexpr uint64_t kNumberMax = (uint64_t{1} << 24) - 1;

  /// 0: a peer of an endpoint of the loop's own.

  static uint64_t NumberOf(proto::PeerId peer) { return peer.value >> kNumberShift; }

  /// `home`, `logger` and `handler` outlive it. The options' emulated_link is for one endpoint: it
  /// is to have none.
  LinkThread(
      uint64_t number,
      Loop* home,
      EndpointOptions options,
      const Logger* logger,
      EndpointHandler* handler);
  /// Cuts connections; nothing is told any more.
  ~LinkThread() override;
  LinkThread(const LinkThread&) = delete;
  LinkThread& operator=(const LinkThread&) = delete;

  /// As those of Endpoint.
  ConnectId Connect(
      const std::string& host,
      uint32_t port,
      proto::Hello hello,
      Endpoint::ConnectCallback done,
      RetryPolicy retry);
  void CancelConnect(ConnectId connect);
  /// Requires: the payload has an owner, or is empty.
  void Send(proto::PeerId to, uint64_t request_id, proto::Message message);
  /// Also while what was sent has not come to the thread.
  bool IsBacklogged(proto::PeerId peer) const;
  void Flush(proto::PeerId peer);
  void Close(proto::PeerId peer);
  void SetQueueBytesMax(uint64_t bytes);
  void CloseAll(std::function<void()> done);

 private:
  static constexpr unsigned kNumberShift = 40;

  /// What both threads know of a peer.
  struct Backlog {
    uint64_t coming = 0;  // messages on their way to the thread
    bool is_full = false;
  };

  // EndpointHandler, on the thread.
  void OnConnected(proto::PeerId peer, const proto::Hello& hello) override;
  void OnMessage(proto::PeerId peer, uint64_t request_id, proto::Message&& message) override;
  void OnClosed(proto::PeerId peer, const Status& why) override;
  void OnDrained(proto::PeerId peer) override;

  proto::PeerId OutsideOf(proto::PeerId peer) const {
    return proto::PeerId(peer.value | (number_ << kNumberShift));
  }

  static proto::PeerId InsideOf(proto::PeerId peer) {
    return proto::PeerId(peer.value & ((uint64_t{1} << kNumberShift) - 1));
  }

  void OnOutcome(ConnectId connect, const Result<proto::PeerId>& peer);

  const uint64_t number_;
  EndpointHandler* const handler_;

  // The home loop's.
  uint64_t last_connect_ = 0;
  std::map<ConnectId, Endpoint::ConnectCallback> wanted_;

  mutable std::mutex mutex_;
  std::map<proto::PeerId, Backlog> backlogs_;  // guarded by mutex_; by outside numbers

  Loop loop_;
  std::unique_ptr<Endpoint> endpoint_;       // the thread's
  std::map<ConnectId, ConnectId> attempts_;  // the thread's: outside to inside
  CrossLoop to_home_;
  CrossLoop to_thread_;
  std::thread thread_;
};

}  // namespace ps::net
