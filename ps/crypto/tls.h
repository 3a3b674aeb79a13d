#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/io_result.h"
#include "ps/base/status.h"

namespace ps::crypto {

/// Who a process is and whom it trusts: a certificate, its key, and the run's authority. Shared by
/// any threads.
class TlsContext {
 public:
  /// Bytes that are sent with one key, unless said otherwise: AES-GCM allows some hundred GiB.
  static constexpr uint64_t kKeyBytes = uint64_t{1} << 36;

  /// `pem` is what Authority::Issue gave. Errors: kInvalidArgument (not that, or no longer valid),
  /// with what to do.
  static Result<std::shared_ptr<const TlsContext>> Make(
      const std::string& pem, uint64_t key_bytes = kKeyBytes);
  ~TlsContext();

 private:
  friend class TlsSession;
  struct Impl;
  TlsContext();

  std::unique_ptr<Impl> impl_;
};

/// Where ciphertext comes from and goes to; neither call blocks.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual IoResult ReceiveBytes(std::span<std::byte> target) = 0;
  virtual IoResult SendBytes(std::span<const std::byte> bytes) = 0;
};

/// One connection's TLS 1.3, both sides with certificates. Does no I/O but by its wire, and never
/// blocks. What it does while the handshake is under way, it does in Receive and Send.
class TlsSession {
 public:
  enum class Side { kAccepts, kConnects };

  /// The peer's certificate has to have one of `peer_roles`; empty: any. `wire` outlives this.
  TlsSession(const TlsContext& context, Side side, std::vector<std::string> peer_roles, Wire* wire);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  /// Fills `targets` in order as far as there is plaintext. kInvalidArgument: the peer is not one
  /// of the run, or does not take this side for one; in words that say what to do.
  IoResult Receive(std::span<iovec> targets);
  /// Encrypts as much as there is room for; would_block: something waits for the wire. Takes
  /// nothing until the handshake is over.
  IoResult Send(std::span<const iovec> parts);
  /// Says that no more comes. Send with no parts brings it out.
  void SendEnd();

  /// Ciphertext waits for the wire.
  bool has_unsent() const;

  /// The handshake is over: the peer is one of the run.
  bool is_ready() const { return is_ready_; }

  /// Receive failed because of what the peer is or sent, and the peer is being told: an alert.
  bool is_refusing() const { return is_refusing_; }

  /// Whether the peer's certificate gives it the role. False until is_ready.
  bool HasPeerRole(std::string_view role) const;

 private:
  struct Impl;

  bool Handshake(IoResult* result);
  Status CheckPeer();
  void Fail(int code);
  void FlushWire();
  void RenewKey(size_t written);

  const std::unique_ptr<Impl> impl_;
  const std::vector<std::string> expected_roles_;
  std::vector<std::string> peer_roles_;
  bool is_ready_ = false;
  bool is_refusing_ = false;
  bool is_ended_ = false;  // the peer has said that no more comes
  Status failure_;         // of receiving; once there is one, it stays
  Status send_failure_;    // likewise: the peer may have said why before it went
  const uint64_t key_bytes_;
  uint64_t key_bytes_left_;
};

}  // namespace ps::crypto
