#include "tests/sim/network.h"

#include <algorithm>
#include <utility>

namespace ps::sim {
namespace {

/// A connection that loses all heartbeats for as long as max_detect is a broken one. Servers are
/// stable hosts, so theirs to the coordinator loses no more than this in a row.
constexpr uint32_t kServerLossesInARowMax = 2;

std::vector<std::byte> ToBytes(const proto::Message& message, uint64_t request_id) {
  const proto::EncodedMessage encoded = proto::EncodeMessage(message, request_id);
  std::vector<std::byte> bytes;
  bytes.reserve(encoded.head.size() + encoded.payload.size());
  bytes = encoded.head;
  for (const std::span<const std::byte> part : encoded.payload.parts) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

proto::Message FromBytes(const std::vector<std::byte>& bytes) {
  const std::span<const std::byte> all(bytes);
  const auto header = proto::DecodeFrameHeader(all.first<proto::kFrameHeaderBytes>(), {});
  PS_CHECK(header.ok()) << header.status();
  const size_t body = proto::kFrameHeaderBytes + header->header_bytes;
  const size_t payload_begin = body + header->padding_bytes();
  auto buffer = std::make_shared<Buffer>(header->payload_bytes);
  std::copy(all.begin() + static_cast<ptrdiff_t>(payload_begin), all.end(), buffer->data());
  proto::Payload payload;
  if (header->payload_bytes > 0) {
    payload = proto::Payload::Own(buffer, header->payload_bytes);
  }
  auto message = proto::DecodeMessage(
      *header, all.subspan(proto::kFrameHeaderBytes, header->header_bytes), std::move(payload));
  PS_CHECK(message.ok()) << message.status();
  return std::move(message).value();
}

}  // namespace

int Network::AddNode(Node* node) {
  nodes_.push_back(node);
  return static_cast<int>(nodes_.size()) - 1;
}

Duration Network::Delay() {
  const auto spread = static_cast<uint64_t>((faults_.delay_max - faults_.delay_min).count()) + 1;
  Duration delay = faults_.delay_min + Duration(static_cast<int64_t>(random_.Below(spread)));
  if (random_.Chance(faults_.stall)) {
    delay += FromSeconds(random_.Unit() * Seconds(faults_.stall_max));
  }
  return delay;
}

bool Network::IsLost(End* end) {
  const bool is_limited = end->hello.role == proto::Role::kShard;
  const bool is_lost =
      random_.Chance(faults_.loss) && !(is_limited && end->lost_in_a_row == kServerLossesInARowMax);
  end->lost_in_a_row = is_lost ? end->lost_in_a_row + 1 : 0;
  return is_lost;
}

void Network::Kill(int node, bool is_silent) {
  nodes_[static_cast<size_t>(node)] = nullptr;
  Trace(static_cast<uint64_t>(node) + 0x1000);
  CloseEnds(node, is_silent);
}

void Network::CloseAll(int node) {
  Trace(static_cast<uint64_t>(node) + 0x2000);
  CloseEnds(node, false);
}

void Network::CloseEnds(int node, bool is_silent) {
  for (auto& [peer, end] : ends_) {
    if (end.node == node && end.is_open) {
      end.is_open = false;
      if (!is_silent) {
        NotifyClosed(end.other, end.last_arrival);
      }
    }
  }
}

void Network::Pause(int node, Duration how_long) {
  TimePoint& until = asleep_until_[node];
  if (until <= queue_->Now()) {
    until = queue_->Now() + how_long;
  }
}

void Network::Connect(
    int from, int to, const proto::Hello& hello, std::function<void(proto::PeerId)> done) {
  queue_->After(Delay(), [this, from, to, hello, done] {
    if (!is_alive(from) || !is_alive(to)) {
      return;  // a node that is gone never comes back
    }
    if (IsCut(from, to)) {
      queue_->After(std::chrono::milliseconds(50), [this, from, to, hello, done] {
        Connect(from, to, hello, done);
      });
      return;
    }
    const proto::PeerId near(++next_peer_);
    const proto::PeerId far(++next_peer_);
    ends_[near] = {from, to, far, hello, nodes_[static_cast<size_t>(to)]->Term()};
    ends_[far] = {to, from, near, hello};
    Trace(near.value);
    WhenAwake(to, [this, to, far, hello] {
      if (ends_.at(far).is_open) {
        nodes_[static_cast<size_t>(to)]->OnAccepted(far, hello);
      }
    });
    WhenAwake(from, [done, near] { done(near); });
  });
}

void Network::Send(int from, proto::PeerId peer, uint64_t request_id, proto::Message message) {
  const auto it = ends_.find(peer);
  if (it == ends_.end() || !it->second.is_open || !is_alive(from)) {
    return;
  }
  End& end = it->second;
  PS_CHECK(end.node == from) << "node " << from << " uses a connection of node " << end.node;
  if (observer_ != nullptr) {
    observer_->OnSend({from, end.other_node, peer, request_id, end.hello}, message);
  }
  if (!is_alive(from)) {
    return;  // the observer killed it in the act of sending
  }
  if (random_.Chance(faults_.break_connection)) {
    BreakConnection(peer);
    return;
  }
  if (cut_.contains({from, end.other_node}) || IsLost(&end)) {
    return;
  }
  auto bytes = std::make_shared<std::vector<std::byte>>(ToBytes(message, request_id));
  const int copies = random_.Chance(faults_.duplication) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    TimePoint arrival = queue_->Now() + Delay();
    if (!random_.Chance(faults_.reorder)) {
      arrival = std::max(arrival, end.last_arrival);
      end.last_arrival = arrival;
    }
    const proto::PeerId to = end.other;
    queue_->After(arrival - queue_->Now(), [this, node = end.other_node, to, request_id, bytes] {
      WhenAwake(node, [this, to, request_id, bytes] { Deliver(to, request_id, *bytes); });
    });
  }
}

void Network::Deliver(proto::PeerId to, uint64_t request_id, const std::vector<std::byte>& bytes) {
  const End& end = ends_.at(to);
  if (!end.is_open || !is_alive(end.node) || cut_.contains({end.other_node, end.node})) {
    return;
  }
  proto::Message message = FromBytes(bytes);
  Trace(static_cast<uint64_t>(queue_->Now().time_since_epoch().count()));
  Trace(to.value << 16 | proto::MessageTypeOf(message));
  ++delivered_;
  if (log_ != nullptr) {
    log_->Debug(
        "delivered",
        {{"from", end.other_node},
         {"to", end.node},
         {"peer", to.value},
         {"message", proto::MessageTypeName(proto::MessageTypeOf(message))}});
  }
  if (observer_ != nullptr) {
    observer_->BeforeDelivery({end.other_node, end.node, to, request_id, end.hello}, message);
  }
  if (!is_alive(end.node)) {
    return;  // the observer killed it just before
  }
  proto::Message taken = message;
  if (tamper_) {
    tamper_(end.node, &taken);
  }
  nodes_[static_cast<size_t>(end.node)]->OnMessage(to, request_id, std::move(taken));
  if (observer_ != nullptr) {
    observer_->AfterDelivery({end.other_node, end.node, to, request_id, end.hello}, message);
  }
}

void Network::NotifyClosed(proto::PeerId peer, TimePoint not_before) {
  const Duration delay = std::max(queue_->Now() + Delay(), not_before) - queue_->Now();
  queue_->After(delay, [this, peer] {
    WhenAwake(ends_.at(peer).node, [this, peer] {
      End& end = ends_.at(peer);
      if (end.is_open) {
        end.is_open = false;
        nodes_[static_cast<size_t>(end.node)]->OnClosed(peer);
      }
    });
  });
}

void Network::Close(int from, proto::PeerId peer) {
  const auto it = ends_.find(peer);
  if (it == ends_.end() || !it->second.is_open || !is_alive(from)) {
    return;
  }
  it->second.is_open = false;
  NotifyClosed(it->second.other, it->second.last_arrival);
}

void Network::BreakConnection(proto::PeerId peer) {
  const proto::PeerId other = ends_.at(peer).other;
  NotifyClosed(peer, {});
  NotifyClosed(other, {});
}

void Network::Partition(int a, int b, Duration how_long) {
  if (IsCut(a, b)) {
    return;
  }
  cut_.insert({a, b});
  cut_.insert({b, a});
  queue_->After(how_long, [this, a, b] {
    cut_.erase({a, b});
    cut_.erase({b, a});
    BreakConnectionsBetween(a, b);
  });
}

void Network::CutOneWay(int from, int to, Duration how_long) {
  if (IsCut(from, to)) {
    return;
  }
  cut_.insert({from, to});
  queue_->After(how_long, [this, from, to] {
    cut_.erase({from, to});
    BreakConnectionsBetween(from, to);
  });
}

/// What was lost on them is not sent again, so they don't go on.
void Network::BreakConnectionsBetween(int a, int b) {
  for (const auto& [peer, end] : ends_) {
    if (end.is_open && end.node == a && end.other_node == b) {
      BreakConnection(peer);
    }
  }
}

}  // namespace ps::sim
