#include "ps/net/internal/stream.h"

#include <asio/error_code.hpp>
#include <utility>

#include "ps/proto/frame.h"

namespace ps::net {
namespace {

/// A frame begins with it; what TLS sends begins with 20 to 23.
constexpr std::byte kFrameByte = static_cast<std::byte>(proto::kFrameMagic & 0xff);

}  // namespace

Stream::Stream(StreamSocket socket, TlsWish wish)
    : socket_(std::move(socket)), wish_(std::move(wish)) {
  if (wish_.context != nullptr) {
    crypto::Wire* const wire = this;
    tls_ = std::make_unique<crypto::TlsSession>(*wish_.context, wish_.side, wish_.peer_roles, wire);
  }
}

IoResult Stream::ReceiveEncrypted(std::span<iovec> targets) {
  const IoResult result = tls_->Receive(targets);
  if (!is_plain_) {
    return result;
  }
  tls_.reset();
  is_mute_ = wish_.side == crypto::TlsSession::Side::kConnects;
  return Receive(targets);
}

IoResult Stream::SendEncrypted(std::span<iovec> parts) {
  if (!is_mute_) {
    return tls_->Send(parts);
  }
  IoResult result;
  result.status = Status::InvalidArgument("the peer does not encrypt");
  return result;
}

bool Stream::ShutdownSend() {
  if (tls_ != nullptr) {
    if (!std::exchange(has_said_end_, true)) {
      tls_->SendEnd();
    }
    // What is wrong with the socket shows when it is read.
    const IoResult sent = tls_->Send({});
    if (sent.would_block) {
      return false;
    }
  }
  asio::error_code ignored;
  socket_.shutdown(StreamSocket::shutdown_send, ignored);
  return true;
}

IoResult Stream::ReceiveBytes(std::span<std::byte> target) {
  if (std::byte first{}; !has_begun_ && PeekByte(socket_.native_handle(), &first)) {
    has_begun_ = true;
    is_plain_ = first == kFrameByte;
  }
  if (is_plain_) {
    IoResult nothing;
    nothing.would_block = true;
    return nothing;
  }
  iovec part = {target.data(), target.size()};
  return ReceiveSome(socket_.native_handle(), std::span(&part, 1));
}

IoResult Stream::SendBytes(std::span<const std::byte> bytes) {
  // iovec is shared with reading and so not const; the kernel only reads here.
  iovec part = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  return SendSome(socket_.native_handle(), std::span(&part, 1));
}

}  // namespace ps::net
