#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/crypto/tls.h"
#include "ps/net/internal/socket.h"

namespace ps::net {

/// How a stream is encrypted.
struct TlsWish {
  std::shared_ptr<const crypto::TlsContext> context;
  crypto::TlsSession::Side side = crypto::TlsSession::Side::kAccepts;
  std::vector<std::string> peer_roles;  // TlsSession's
};

/// The bytes of one connection: those of its socket, or with TLS over it. The rest of ps/net does
/// not know which. A peer that does not speak TLS where it should is read as it is, so that both
/// sides can say what is wrong; then is_encrypted is false, and a side that connected sends
/// nothing.
class Stream final : private crypto::Wire {
 public:
  /// `wish`: null context: not encrypted.
  Stream(StreamSocket socket, TlsWish wish);

  IoResult Receive(std::span<iovec> targets) {
    return tls_ == nullptr ? ReceiveSome(socket_.native_handle(), targets)
                           : ReceiveEncrypted(targets);
  }

  /// would_block: bytes wait in the stream or for the kernel. Takes nothing until can_send.
  IoResult Send(std::span<iovec> parts) {
    return tls_ == nullptr && !is_mute_ ? SendSome(socket_.native_handle(), parts)
                                        : SendEncrypted(parts);
  }

  /// Tells the peer that no more comes. False: not yet, because bytes wait for the kernel.
  bool ShutdownSend();

  /// False while a handshake has to go on first; Receive does that.
  bool can_send() const { return tls_ == nullptr || tls_->is_ready(); }

  /// Bytes that Send took are still here.
  bool has_unsent() const { return tls_ != nullptr && tls_->has_unsent(); }

  /// Receive failed by what the peer sent, and the peer is to be told.
  bool is_refusing() const { return tls_ != nullptr && tls_->is_refusing(); }

  /// False until the handshake is over.
  bool is_encrypted() const { return tls_ != nullptr && tls_->is_ready(); }

  bool HasPeerRole(std::string_view role) const {
    return tls_ != nullptr && tls_->HasPeerRole(role);
  }

  StreamSocket& socket() { return socket_; }

 private:
  // crypto::Wire.
  IoResult ReceiveBytes(std::span<std::byte> target) override;
  IoResult SendBytes(std::span<const std::byte> bytes) override;

  IoResult ReceiveEncrypted(std::span<iovec> targets);
  IoResult SendEncrypted(std::span<iovec> parts);

  StreamSocket socket_;
  TlsWish wish_;
  std::unique_ptr<crypto::TlsSession> tls_;
  bool has_begun_ = false;     // something came
  bool is_plain_ = false;      // and it is no TLS, but a frame
  bool has_said_end_ = false;  // by TLS
  bool is_mute_ = false;       // this side connected, and the peer does not encrypt
};

}  // namespace ps::net
