// How connections begin: Listen and accept, Connect, and the Hello that each must start with.
#include <fmt/core.h>

#include <algorithm>
#include <asio/local/stream_protocol.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <utility>
#include <variant>

#include "ps/base/check.h"
#include "ps/base/host_port.h"
#include "ps/base/text.h"
#include "ps/crypto/certificates.h"
#include "ps/crypto/worker_token.h"
#include "ps/net/internal/endpoint_impl.h"
#include "ps/net/internal/socket.h"

namespace ps::net {
namespace {

using asio::ip::tcp;

constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr uint32_t kRetryAfterMs = 500;
constexpr uint32_t kPortMax = 65535;
constexpr size_t kNodeShown = 64;
constexpr uint64_t kOtherDescriptors = 256;  // files, pipes, connections made from here

Status ListenError(const std::string& address, const asio::error_code& error) {
  std::string advice;
  if (error == asio::error::address_in_use) {
    advice = "; choose another port, or 0 for any free one, or end the program that holds it";
  } else if (error == asio::error::access_denied) {
    advice = "; ports below 1024 need privileges, choose a higher one or 0";
  } else if (error == asio::error_code(EADDRNOTAVAIL, asio::error::get_system_category())) {
    advice = "; no network interface of this machine has that address";
  } else if (error.category() == asio::error::get_netdb_category()) {
    advice = "; give an address of this machine, or a name that resolves to one";
  }
  Status status = ToStatus(error);
  if (status.code() == StatusCode::kUnavailable && error != asio::error::address_in_use) {
    status = Status::InvalidArgument(std::string(status.message()));
  }
  return {status.code(), "cannot listen on " + address + ": " + error.message() + advice};
}

std::string_view RoleName(proto::Role role) {
  switch (role) {
    case proto::Role::kWorker:
      return "worker";
    case proto::Role::kShard:
      return "shard";
    case proto::Role::kControl:
      return "control";
  }
  return "unknown";
}

}  // namespace

Result<uint32_t> Endpoint::Impl::Listen(const std::string& host, uint32_t port) {
  PS_CHECK(loop_->IsOwner()) << "Listen called from a foreign thread";
  const std::string address = FormatHostPort(host, port);
  if (port > kPortMax) {
    return Status::InvalidArgument(fmt::format("cannot listen on {}: ports end at 65535", address));
  }
  asio::error_code error;
  asio::ip::address numeric = asio::ip::make_address(host, error);
  if (error) {
    tcp::resolver resolver(loop_->impl().io());
    const auto found = resolver.resolve(host, std::to_string(port), error);
    if (error || found.empty()) {
      return ListenError(address, error ? error : asio::error::host_not_found);
    }
    numeric = found.begin()->endpoint().address();
  }
  const tcp::endpoint endpoint(numeric, static_cast<uint16_t>(port));
  tcp::acceptor acceptor(loop_->impl().io());
  acceptor.open(endpoint.protocol(), error);
  if (!error) {
    acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    // Connections inherit the sizes; set later they could not change the announced window any more.
    SetSocketOptions(acceptor.native_handle(), options_.socket_buffer_bytes);
    acceptor.bind(endpoint, error);
  }
  if (!error) {
    acceptor.listen(asio::socket_base::max_listen_connections, error);
  }
  const tcp::endpoint bound = error ? tcp::endpoint() : acceptor.local_endpoint(error);
  if (error) {
    return ListenError(address, error);
  }
  const uint64_t descriptors = RaiseDescriptorLimit(options_.connections_max + kOtherDescriptors);
  if (descriptors < options_.connections_max + kOtherDescriptors) {
    logger_->Info(
        "few_descriptors",
        {{"descriptors", descriptors}, {"connections", options_.connections_max}});
  }
  logger_->Info("listening", {{"address", FormatHostPort(host, bound.port())}});
  Accept(listeners_.emplace_back(std::make_shared<Listener>(std::move(acceptor), nullptr)));
  return uint32_t{bound.port()};
}

Status Endpoint::Impl::ListenAtFile(const std::string& path) {
  PS_CHECK(loop_->IsOwner()) << "ListenAtFile called from a foreign thread";
  PS_ASSIGN(std::unique_ptr<SocketFile> file, SocketFile::Listen(path));
  UniqueFd socket = file->TakeSocket();
  Acceptor acceptor(loop_->impl().io());
  asio::error_code error;
  acceptor.assign(asio::local::stream_protocol(), socket.get(), error);
  if (error) {
    return ListenError(path, error);
  }
  socket.Release();
  logger_->Info("listening", {{"address", path}});
  Accept(listeners_.emplace_back(std::make_shared<Listener>(std::move(acceptor), std::move(file))));
  return Status::Ok();
}

void Endpoint::Impl::StopListening() {
  for (const auto& listener : std::exchange(listeners_, {})) {
    asio::error_code ignored;
    listener->acceptor.close(ignored);
    listener->pause.cancel();
    listener->file.reset();
  }
}

void Endpoint::Impl::Accept(const std::shared_ptr<Listener>& listener) {
  listener->acceptor.async_accept([weak = weak_from_this(), listener](
                                      const asio::error_code& error, StreamSocket socket) {
    const auto self = weak.lock();
    if (self == nullptr || !listener->acceptor.is_open()) {
      return;
    }
    if (error) {
      self->OnAcceptFailed(listener, error);
      return;
    }
    self->OnAccepted(listener->file == nullptr ? &self->ports_ : &self->files_, std::move(socket));
    self->Accept(listener);
  });
}

void Endpoint::Impl::OnAcceptFailed(
    const std::shared_ptr<Listener>& listener, const asio::error_code& error) {
  // No descriptor or memory is left: waiting connections stay in the kernel's backlog meanwhile.
  logger_->Warning("accept_failed", {{"reason", error.message()}});
  listener->pause.expires_after(kAcceptPause);
  listener->pause.async_wait(
      [weak = weak_from_this(), listener](const asio::error_code& wait_error) {
        const auto self = weak.lock();
        if (!wait_error && self != nullptr && listener->acceptor.is_open()) {
          self->Accept(listener);
        }
      });
}

/// False: nobody gives way. What it displaces has not shown that it may be here.
bool Endpoint::Impl::MakeRoom(Door* door, const std::string& host) {
  const HalfOpen::Verdict verdict = door->half_open.Judge(host, SystemTime().Now());
  turned_away_ += !verdict.is_let_in || verdict.displaced ? 1 : 0;
  if (verdict.displaced) {
    door->half_open.Remove(*verdict.displaced);
    peers_.at(*verdict.displaced)
        .connection->Abort(Status::Overloaded("others wait for its place in the handshake"));
  }
  return verdict.is_let_in;
}

void Endpoint::Impl::OnAccepted(Door* door, StreamSocket socket) {
  if (door->accepted >= options_.connections_max) {
    ++turned_away_;
    RefuseSocket(
        std::move(socket), fmt::format("all {} connections are taken", options_.connections_max));
    return;
  }
  const std::string host = RemoteOf(socket).host;
  if (!MakeRoom(door, host)) {
    RefuseSocket(std::move(socket), "too many connections are in their handshake");
    return;
  }
  TlsWish tls;
  if (door == &ports_) {
    tls = {options_.tls, crypto::TlsSession::Side::kAccepts, {}};
  }
  Peer& peer = AddPeer(std::move(socket), std::move(tls), State::kAwaitsHello);
  peer.door = door;
  peer.is_half_open = true;
  ++door->accepted;
  door->half_open.Add(peer.connection->id(), host, SystemTime().Now());
  peer.connection->CloseAfter(
      options_.handshake_timeout, Status::DeadlineExceeded("no Hello came in time"));
}

void Endpoint::Impl::RefuseSocket(StreamSocket socket, const std::string& why) {
  if (const auto left_out = refusal_lines_.Take(SystemTime().Now())) {
    logger_->Warning("connection_refused", {{"reason", why}, {"lines_left_out", *left_out}});
  }
  const proto::EncodedMessage frame = proto::EncodeMessage(
      proto::Refusal{
          .code = StatusCode::kOverloaded, .message = why, .retry_after_ms = kRetryAfterMs},
      0);
  // A fresh socket's buffer takes these few bytes; and a peer that gets none sees the close.
  iovec part = {const_cast<std::byte*>(frame.head.data()), frame.head.size()};
  SendSome(socket.native_handle(), std::span(&part, 1))
      .status.Ignore("it is refused either way, and the socket is closed next");
  asio::error_code ignored;
  socket.shutdown(StreamSocket::shutdown_send, ignored);
}

/// Whether who came by a port may be here as what it says it is.
Status Endpoint::Impl::CheckStranger(const Peer& peer, const proto::Hello& hello) const {
  if (options_.tls != nullptr && !peer.connection->is_encrypted()) {
    return Status::InvalidArgument(
        "the connections of this run are encrypted (run.tls): use its token file as it is now");
  }
  const bool is_worker = hello.role == proto::Role::kWorker;
  if (!crypto::EqualInConstantTime(options_.token, hello.token) &&
      !(is_worker && crypto::CheckWorkerToken(options_.token, hello.token))) {
    return Status::InvalidArgument("wrong token: this is another run's address");
  }
  if (options_.tls != nullptr &&
      !peer.connection->HasPeerRole(is_worker ? crypto::kWorkerRole : crypto::kServerRole)) {
    return Status::InvalidArgument(fmt::format(
        "this certificate lets nobody in as a {}: use the token file that is for one",
        RoleName(hello.role)));
  }
  return options_.admit ? options_.admit(hello) : Status::Ok();
}

void Endpoint::Impl::CheckHello(Peer& peer, uint64_t request_id, const proto::Message& message) {
  Connection& connection = *peer.connection;
  const auto* hello = std::get_if<proto::Hello>(&message);
  if (hello == nullptr) {
    connection.Refuse(
        request_id,
        Status::InvalidArgument(fmt::format(
            "the first message must be Hello, not {}",
            proto::MessageTypeName(proto::MessageTypeOf(message)))));
    return;
  }
  peer.node = Clip(hello->node, kNodeShown);  // of a stranger, perhaps, for the log
  const bool came_by_file = peer.door == &files_;
  if (Status problem = came_by_file ? Status::Ok() : CheckStranger(peer, *hello); !problem.ok()) {
    connection.Refuse(request_id, std::move(problem));
    return;
  }
  const auto& roles = came_by_file ? options_.file_roles : options_.roles;
  if (std::ranges::find(roles, hello->role) == roles.end()) {
    connection.Refuse(
        request_id,
        Status::InvalidArgument(fmt::format(
            "{} takes no connections from a {}", options_.node, RoleName(hello->role))));
    return;
  }
  Open(peer, hello->node);
  connection.Send(request_id, proto::HelloReply{options_.node, options_.term});
  handler_->OnConnected(connection.id(), *hello);
}

ConnectId Endpoint::Impl::Connect(
    Connector::Target target, proto::Hello hello, ConnectCallback done, const RetryPolicy& retry) {
  PS_CHECK(loop_->IsOwner()) << "Connect called from a foreign thread";
  const ConnectId number(++last_attempt_);
  Status refusal;
  if (is_closing_) {
    refusal = Status::Cancelled("the endpoint is closing");
  } else if (target.file.empty() && (target.port == 0 || target.port > kPortMax)) {
    refusal = Status::InvalidArgument(
        fmt::format("cannot connect to {}: ports are 1 to 65535", target.Name()));
  }
  Connector::Events events;
  events.on_socket = [this, number](StreamSocket socket) {
    OnConnectSocket(number, std::move(socket));
  };
  events.on_failed = [this, number](Status why) { FinishAttempt(number, std::move(why)); };
  auto connector = std::make_shared<Connector>(
      loop_->impl().io(), std::move(target), retry, std::move(events), &random_, logger_);
  attempts_[number] = {connector, std::move(hello), std::move(done)};
  if (refusal.ok()) {
    connector->Start();
    return number;
  }
  asio::post(loop_->impl().io(), [weak = weak_from_this(), number, refusal] {
    if (const auto self = weak.lock()) {
      self->FinishAttempt(number, refusal);
    }
  });
  return number;
}

void Endpoint::Impl::CancelConnect(ConnectId connect) {
  PS_CHECK(loop_->IsOwner()) << "CancelConnect called from a foreign thread";
  const auto found = attempts_.find(connect);
  if (found == attempts_.end()) {
    return;
  }
  found->second.connector->Cancel();
  attempts_.erase(found);
  for (const auto& [id, peer] : peers_) {
    if (peer.state == State::kAwaitsReply && peer.attempt == connect) {
      peer.connection->Abort(Status::Cancelled("nobody waits for it any more"));
      return;  // Abort may have changed the table
    }
  }
}

void Endpoint::Impl::OnConnectSocket(ConnectId attempt, StreamSocket socket) {
  const Attempt& its = attempts_.at(attempt);
  TlsWish tls;
  if (its.connector->is_to_port()) {
    tls = {options_.tls, crypto::TlsSession::Side::kConnects, its.connector->retry().peer_roles};
  }
  Peer& peer = AddPeer(std::move(socket), std::move(tls), State::kAwaitsReply);
  peer.attempt = attempt;
  peer.is_to_encrypt = its.connector->is_to_port() && options_.tls != nullptr;
  peer.connection->Send(0, its.hello);
  peer.connection->CloseAfter(
      its.connector->retry().reply_timeout,
      Status::DeadlineExceeded("no answer to Hello came in time"));
}

void Endpoint::Impl::CheckReply(Peer& peer, uint64_t request_id, const proto::Message& message) {
  Connection& connection = *peer.connection;
  const ConnectId attempt = peer.attempt;
  const bool is_trusted = IsTrusted(peer);
  if (const auto* reply = std::get_if<proto::HelloReply>(&message); reply && is_trusted) {
    peer.term = reply->term;
    Open(peer, reply->node);
    FinishAttempt(attempt, connection.id());
    return;
  }
  const auto* refusal = std::get_if<proto::Refusal>(&message);
  if (refusal == nullptr) {
    connection.Refuse(
        request_id,
        Status::InvalidArgument(
            (is_trusted ? "the answer to Hello must be HelloReply, not "
                        : "the answer to a TLS handshake must not be ") +
            std::string(proto::MessageTypeName(proto::MessageTypeOf(message)))));
    return;
  }
  peer.state = State::kEnded;
  const StatusCode code =
      refusal->code == StatusCode::kOk ? StatusCode::kInvalidArgument : refusal->code;
  const Status why(code, refusal->message);
  connection.Close(why);
  const std::shared_ptr<Connector> connector = attempts_.at(attempt).connector;
  const Duration retry_after = std::chrono::milliseconds(is_trusted ? refusal->retry_after_ms : 0);
  connector->Fail(AttemptFailure(peer, why), retry_after);
}

Status Endpoint::Impl::AttemptFailure(const Peer& peer, Status why) {
  const bool is_its_word = IsTrusted(peer) && why.code() != StatusCode::kCorruption;
  return is_its_word || IsWorthRetrying(why.code()) ? std::move(why)
                                                    : Status::Unavailable(Printable(why.message()));
}

void Endpoint::Impl::FinishAttempt(ConnectId attempt, Result<proto::PeerId> result) {
  const auto found = attempts_.find(attempt);
  if (found == attempts_.end()) {
    return;
  }
  const ConnectCallback done = std::move(found->second.done);
  found->second.connector->Cancel();
  attempts_.erase(found);
  done(std::move(result));
}

}  // namespace ps::net
