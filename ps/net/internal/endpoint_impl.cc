#include "ps/net/internal/endpoint_impl.h"

#include <fmt/core.h>

#include <algorithm>
#include <asio/post.hpp>
#include <chrono>
#include <string>
#include <utility>
#include <variant>

#include "ps/base/check.h"
#include "ps/net/internal/socket.h"

namespace ps::net {
namespace {

/// So many connections may be as full as one may be.
constexpr uint64_t kConnectionsInTotal = 4;

}  // namespace

Endpoint::Impl::Impl(
    Loop* loop, EndpointOptions options, const Logger* logger, EndpointHandler* handler)
    : loop_(loop),
      options_(std::move(options)),
      logger_(logger),
      handler_(handler),
      context_(std::make_shared<ConnectionContext>()),
      random_(options_.seed),
      ports_(options_),
      files_(options_) {
  context_->owner = this;
  SetQueueBytesMax(options_.queue_bytes_max);
  context_->linger = options_.linger;
  context_->emulated_link = options_.emulated_link;
  context_->pool = std::make_shared<BufferPool>(options_.pool_bytes_max);
  for (const std::string& address : options_.known_addresses) {
    ports_.half_open.Know(address);
  }
}

void Endpoint::Impl::Destroy() {
  PS_CHECK(loop_->IsOwner()) << "an endpoint destroyed from a foreign thread";
  StopListening();
  context_->owner = nullptr;
  for (auto& [number, attempt] : attempts_) {
    attempt.connector->Cancel();
  }
  attempts_.clear();
  for (auto& [id, peer] : peers_) {
    peer.connection->Abort(Status::Cancelled("the endpoint is gone"));
  }
  peers_.clear();
}

Connection* Endpoint::Impl::Find(proto::PeerId peer) const {
  PS_CHECK(loop_->IsOwner()) << "an endpoint used from a foreign thread";
  const auto found = peers_.find(peer);
  return found == peers_.end() || found->second.state != State::kOpen
             ? nullptr
             : found->second.connection.get();
}

std::string Endpoint::Impl::NodeOf(proto::PeerId peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? std::string() : found->second.node;
}

proto::Term Endpoint::Impl::TermOf(proto::PeerId peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? 0 : found->second.term;
}

uint32_t Endpoint::Impl::connection_count() const {
  uint32_t count = 0;
  for (const auto& [id, peer] : peers_) {
    count += peer.state == State::kOpen ? 1 : 0;
  }
  return count;
}

Endpoint::Impl::Peer& Endpoint::Impl::AddPeer(StreamSocket socket, TlsWish tls, State state) {
  Remote remote = RemoteOf(socket);
  SetSocketOptions(socket.native_handle(), options_.socket_buffer_bytes);
  if (remote.is_same_machine) {
    LeaveOutPacing(socket.native_handle());
  }
  // A peer without an accepted token gets little memory.
  proto::FrameLimits limits;
  limits.header_bytes_max = proto::kHandshakeBytesMax;
  limits.payload_bytes_max = 0;
  const proto::PeerId id(++last_peer_);
  Peer& peer = peers_[id];
  peer.connection =
      std::make_shared<Connection>(id, std::move(socket), std::move(tls), limits, context_);
  peer.state = state;
  peer.address = std::move(remote.address);
  peer.host = std::move(remote.host);
  peer.connection->Start();
  return peer;
}

void Endpoint::Impl::Open(Peer& peer, const std::string& node) {
  peer.state = State::kOpen;
  peer.node = node;
  peer.connection->KeepOpen();
  peer.connection->set_limits(options_.limits);
  if (std::exchange(peer.is_half_open, false)) {
    peer.door->half_open.Remove(peer.connection->id());
    peer.door->half_open.Know(peer.host);
  }
  logger_->Info(
      "peer_connected",
      {{"peer", peer.connection->id().value}, {"node", node}, {"address", peer.address}});
}

void Endpoint::Impl::OnFrame(
    Connection& connection, uint64_t request_id, proto::Message&& message) {
  Peer& peer = peers_.at(connection.id());
  switch (peer.state) {
    case State::kAwaitsHello:
      CheckHello(peer, request_id, message);
      return;
    case State::kAwaitsReply:
      CheckReply(peer, request_id, message);
      return;
    case State::kOpen:
      if (std::holds_alternative<proto::Hello>(message) ||
          std::holds_alternative<proto::HelloReply>(message)) {
        connection.Refuse(
            request_id, Status::InvalidArgument("the handshake of this connection is over"));
        return;
      }
      handler_->OnMessage(connection.id(), request_id, std::move(message));
      return;
    case State::kEnded:
      return;
  }
}

void Endpoint::Impl::OnDrained(Connection& connection) {
  if (peers_.at(connection.id()).state == State::kOpen) {
    handler_->OnDrained(connection.id());
  }
}

void Endpoint::Impl::SetQueueBytesMax(uint64_t bytes) {
  context_->queue_bytes_max = bytes;
  context_->queue_total_bytes_max =
      std::max(options_.queue_total_bytes_max, kConnectionsInTotal * bytes);
}

bool Endpoint::Impl::IsBacklogged(proto::PeerId peer) {
  const Connection* const connection = Find(peer);
  if (connection == nullptr || connection->is_backlogged()) {
    return connection != nullptr;
  }
  if (context_->queued_bytes <= context_->queue_total_bytes_max / 2) {
    return false;
  }
  waiting_for_room_.insert(peer);
  return true;
}

void Endpoint::Impl::OnRoom() {
  if (waiting_for_room_.empty() || context_->queued_bytes > context_->queue_total_bytes_max / 4) {
    return;
  }
  // Who is told may send, so that there is no room for the rest.
  std::set<proto::PeerId> waiting = std::exchange(waiting_for_room_, {});
  while (!waiting.empty()) {
    const proto::PeerId peer = waiting.extract(waiting.begin()).value();
    const Connection* const connection = Find(peer);
    if (connection == nullptr || connection->is_backlogged()) {
      continue;  // gone, or drained later by itself
    }
    if (context_->queued_bytes > context_->queue_total_bytes_max / 2) {
      waiting_for_room_.insert(peer);
    } else {
      handler_->OnDrained(peer);
    }
  }
}

void Endpoint::Impl::BoundTotal() {
  while (context_->queued_bytes > context_->queue_total_bytes_max) {
    const auto largest = std::max_element(peers_.begin(), peers_.end(), [](auto& a, auto& b) {
      return a.second.connection->queued_bytes() < b.second.connection->queued_bytes();
    });
    largest->second.connection->Abort(Status::Overloaded(fmt::format(
        "the peer does not read: all connections have {} unsent bytes, the limit is "
        "{}, and it has most of them",
        context_->queued_bytes,
        context_->queue_total_bytes_max)));
  }
}

void Endpoint::Impl::OnEnd(Connection& connection, const Status& why) {
  Peer& peer = peers_.at(connection.id());
  const State state = std::exchange(peer.state, State::kEnded);
  LogEnd(peer, state, why);
  if (peer.is_half_open) {
    peer.door->half_open.NoteRefused(connection.id());
  }
  if (state == State::kOpen) {
    handler_->OnClosed(connection.id(), why);
    return;
  }
  const auto attempt = attempts_.find(peer.attempt);
  if (state == State::kAwaitsReply && attempt != attempts_.end()) {
    // Held: the failure may take its entry from the table.
    const std::shared_ptr<Connector> connector = attempt->second.connector;
    connector->Fail(AttemptFailure(peer, why));
  }
}

void Endpoint::Impl::OnGone(Connection& connection) {
  const auto found = peers_.find(connection.id());
  if (const Peer& peer = found->second; peer.door != nullptr) {
    --peer.door->accepted;
    peer.door->half_open.Remove(connection.id());
  }
  peers_.erase(found);
  OnRoom();
  if (is_closing_ && peers_.empty() && closed_) {
    std::exchange(closed_, nullptr)();
  }
}

void Endpoint::Impl::LogEnd(const Peer& peer, State state, const Status& why) {
  const uint64_t id = peer.connection->id().value;
  if (state != State::kOpen) {
    if (const auto left_out = refusal_lines_.Take(SystemTime().Now())) {
      logger_->Warning(
          "handshake_failed",
          {{"peer", id},
           {"node", peer.node},
           {"address", peer.address},
           {"reason", why},
           {"lines_left_out", *left_out}});
    }
    return;
  }
  const std::initializer_list<LogField> fields = {
      {"peer", id}, {"node", peer.node}, {"address", peer.address}, {"reason", why}};
  switch (why.code()) {
    case StatusCode::kCorruption:
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
      logger_->Warning("frame_refused", fields);
      return;
    case StatusCode::kOverloaded:
      logger_->Warning("peer_not_reading", fields);
      return;
    default:
      logger_->Info("peer_closed", fields);
  }
}

void Endpoint::Impl::CloseAll(std::function<void()> done) {
  is_closing_ = true;
  closed_ = std::move(done);
  StopListening();
  for (auto& [number, attempt] : attempts_) {
    attempt.connector->Cancel();
  }
  for (auto& [id, peer] : peers_) {
    peer.connection->Close(Status::Cancelled("closed here"));
  }
  asio::post(loop_->impl().io(), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) {
      return;
    }
    while (!self->attempts_.empty()) {
      self->FinishAttempt(
          self->attempts_.begin()->first, Status::Cancelled("the endpoint is closing"));
    }
    if (self->peers_.empty() && self->closed_) {
      std::exchange(self->closed_, nullptr)();
    }
  });
}

}  // namespace ps::net
