#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "ps/base/logger.h"
#include "ps/base/random.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "tests/sim/event_queue.h"

namespace ps::sim {

/// How badly the network behaves. Chances are per message unless said otherwise.
struct NetworkFaults {
  double loss = 0;
  double duplication = 0;
  double reorder = 0;  // the message does not wait for its predecessors
  Duration delay_min = std::chrono::microseconds(50);
  Duration delay_max = std::chrono::milliseconds(2);
  double stall = 0;  // the message takes up to stall_max instead
  Duration stall_max = std::chrono::milliseconds(500);
  double break_connection = 0;  // the connection is lost with everything in flight
};

/// Longer than any run.
inline constexpr Duration kForEver = std::chrono::hours(100);

/// One process of the simulated cluster.
class Node {
 public:
  virtual ~Node() = default;
  virtual void OnAccepted(proto::PeerId peer, const proto::Hello& hello) = 0;
  virtual void OnMessage(proto::PeerId from, uint64_t request_id, proto::Message message) = 0;
  virtual void OnClosed(proto::PeerId peer) = 0;

  /// Of a coordinator.
  virtual proto::Term Term() const { return 0; }
};

/// Connections between nodes, with every message encoded, carried as bytes and decoded again.
class Network {
 public:
  /// A message on its way, as its sender or its receiver sees it.
  struct Passage {
    int from = -1;
    int to = -1;
    proto::PeerId end;  // the one's own
    uint64_t request_id = 0;
    const proto::Hello& hello;  // of whoever connected
  };

  /// Sees every message as it is sent, and as it is delivered, before and after the receiver
  /// handles it. May kill nodes and break connections before.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void OnSend(const Passage& passage, const proto::Message& message) = 0;
    virtual void BeforeDelivery(const Passage& passage, const proto::Message& message) = 0;
    virtual void AfterDelivery(const Passage& passage, const proto::Message& message) = 0;
  };

  Network(EventQueue* queue, uint64_t seed) : queue_(queue), random_(seed) {}

  void set_faults(const NetworkFaults& faults) { faults_ = faults; }

  void set_observer(Observer* observer) { observer_ = observer; }

  /// Logs every delivery; null: none.
  void set_log(const Logger* log) { log_ = log; }

  /// Changes what is delivered, behind the observer's back.
  void set_tamper(std::function<void(int node, proto::Message*)> tamper) {
    tamper_ = std::move(tamper);
  }

  int AddNode(Node* node);
  /// The process is gone at once. Loudly: its peers see their connections close; silently (power
  /// loss, partition for good): they see nothing.
  void Kill(int node, bool is_silent);

  /// The process ends, and another one takes its place: its peers see their connections close.
  void CloseAll(int node);

  /// The process does nothing for a while, as under SIGSTOP: what comes for it waits, in order.
  /// Nothing happens when it is paused already: a longer pause would change the order.
  void Pause(int node, Duration how_long);

  /// Runs a node's action, or lets it wait until the node is awake again. Not when it is gone then.
  template <typename Action>
  void WhenAwake(int node, Action action) {
    if (!is_alive(node)) {
      return;
    }
    const auto it = asleep_until_.find(node);
    if (it == asleep_until_.end() || it->second <= queue_->Now()) {
      action();
      return;
    }
    const Duration rest = it->second - queue_->Now();
    queue_->After(rest, [this, node, action = std::move(action)]() mutable {
      WhenAwake(node, std::move(action));
    });
  }

  bool IsAsleep(int node) const {
    const auto it = asleep_until_.find(node);
    return it != asleep_until_.end() && it->second > queue_->Now();
  }

  /// Breaks the connection, with what is on its way.
  void BreakConnection(proto::PeerId end);

  bool is_alive(int node) const { return nodes_[static_cast<size_t>(node)] != nullptr; }

  /// Connects after a delay, then calls `done` with the caller's end. While the other side is cut
  /// off it tries again, until that is gone.
  void Connect(
      int from, int to, const proto::Hello& hello, std::function<void(proto::PeerId)> done);

  /// What the other end says of its term when the connection begins.
  proto::Term TermOf(proto::PeerId peer) const { return ends_.at(peer).term; }

  void Send(int from, proto::PeerId peer, uint64_t request_id, proto::Message message);
  /// Closes this end; the other one sees it after a delay, behind what was sent.
  void Close(int from, proto::PeerId peer);

  /// No message passes between these two in either direction, and connections break at the end.
  void Partition(int a, int b, Duration how_long);
  /// The same in one direction alone: what `to` sends still arrives. None of them can connect.
  void CutOneWay(int from, int to, Duration how_long);

  /// A message of one of them does not reach the other.
  bool IsCut(int a, int b) const { return cut_.contains({a, b}) || cut_.contains({b, a}); }

  uint64_t trace_hash() const { return trace_hash_; }

  uint64_t delivered() const { return delivered_; }

 private:
  struct End {
    int node = -1;
    int other_node = -1;
    proto::PeerId other;
    proto::Hello hello;    // of whoever connected
    proto::Term term = 0;  // of the other one
    bool is_open = true;
    TimePoint last_arrival{};  // of what this end has sent
    uint32_t lost_in_a_row = 0;
  };

  Duration Delay();
  bool IsLost(End* end);
  void Deliver(proto::PeerId to, uint64_t request_id, const std::vector<std::byte>& bytes);
  void CloseEnds(int node, bool is_silent);
  void NotifyClosed(proto::PeerId end, TimePoint not_before);
  void BreakConnectionsBetween(int a, int b);

  void Trace(uint64_t value) { trace_hash_ = Mix64(trace_hash_ ^ value); }

  EventQueue* const queue_;
  Random random_;
  NetworkFaults faults_;
  Observer* observer_ = nullptr;
  const Logger* log_ = nullptr;
  std::function<void(int node, proto::Message*)> tamper_;  // none: nothing is changed
  std::vector<Node*> nodes_;
  std::map<proto::PeerId, End> ends_;
  std::set<std::pair<int, int>> cut_;  // from, to
  std::map<int, TimePoint> asleep_until_;
  uint64_t next_peer_ = 0;
  uint64_t trace_hash_ = 0;
  uint64_t delivered_ = 0;
};

/// A node's Outbox.
class NodeOutbox final : public proto::Outbox {
 public:
  NodeOutbox(Network* network, int node) : network_(network), node_(node) {}

  void Send(proto::PeerId to, uint64_t request_id, proto::Message message) override {
    network_->Send(node_, to, request_id, std::move(message));
  }

  void Close(proto::PeerId peer) override { network_->Close(node_, peer); }

 private:
  Network* const network_;
  const int node_;
};

}  // namespace ps::sim
