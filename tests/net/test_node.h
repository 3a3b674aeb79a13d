#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ps/net/endpoint.h"
#include "ps/net/loop.h"
#include "ps/proto/messages.h"
#include "tests/base/temporary_folder.h"

namespace ps::net {

inline constexpr char kTestToken[] = "the run's secret";
/// The patience of calls that are answered.
inline constexpr auto kAmple = std::chrono::seconds(30);

/// Everybody may look into it.
class OpenFolder : public TemporaryFolder {
 public:
  OpenFolder();
};

/// Where a node listens: a port of 127.0.0.1, or a socket file.
struct Door {
  Door(uint32_t p) : port(p) {}  // NOLINT(google-explicit-constructor): most tests use ports

  explicit Door(std::string f) : file(std::move(f)) {}

  uint32_t port = 0;
  std::string file;
};

enum class DoorKind { kPort, kFile };

/// A suite that holds for both.
class DoorTest : public testing::TestWithParam<DoorKind> {};

std::string DoorName(const testing::TestParamInfo<DoorKind>& info);

/// Options with the token and every role, at ports and files.
EndpointOptions TestOptions(const std::string& node);
proto::Hello TestHello(const std::string& node);

/// One attempt, without a deadline that a busy machine could miss.
RetryPolicy PatientPolicy();

/// A port on which nobody listens, and which nobody else gets meanwhile; Listen may still take it.
class ReservedPort {
 public:
  ReservedPort();
  ~ReservedPort();
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  uint32_t port() const { return port_; }

 private:
  int fd_;
  uint32_t port_ = 0;
};

/// A push with one chunk of `payload.size() / 4` floats. The payload is borrowed.
proto::PushRequest BorrowedPush(std::span<const std::byte> payload);
/// `size_bytes` bytes that differ by position and `seed`.
std::vector<std::byte> PatternBytes(size_t size_bytes, uint64_t seed);

/// What a handler was told.
struct Event {
  enum class Kind { kConnected, kMessage, kDrained, kClosed } kind = Kind::kClosed;
  proto::PeerId peer;
  uint64_t request_id = 0;
  proto::Message message;
  proto::Hello hello;
  Status status;
};

/// A loop on its own thread with one endpoint, whose events the test waits for.
class TestNode final : public EndpointHandler {
 public:
  using OnMessageHook = std::function<void(proto::PeerId, uint64_t, proto::Message&&)>;

  explicit TestNode(EndpointOptions options);
  ~TestNode() override;

  /// Runs `fn` on the loop and waits until it is done.
  void Do(const std::function<void(Endpoint&)>& fn);
  /// Listens at 127.0.0.1 and returns the port.
  uint32_t Listen();
  /// Listens at a port, or at a file in a folder of the node's own.
  Door Listen(DoorKind kind);
  Result<proto::PeerId> Connect(
      const Door& door, const proto::Hello& hello, const RetryPolicy& retry = PatientPolicy());
  proto::PeerId MustConnect(const Door& door);
  void Send(proto::PeerId peer, uint64_t request_id, const proto::Message& message);

  /// Instead of queueing messages, hand them to `hook` on the loop.
  void set_on_message(OnMessageHook hook);
  /// Makes it send every message back with the same request id.
  void EchoEverything();

  /// The next event; a test that waits for long in vain fails and gets a kClosed event.
  Event Next();
  /// Nothing is waiting to be seen.
  bool HasNoEvent();

  /// Events of this kind are queued only after it was called.
  void TellDrained();

  Loop& loop() { return loop_; }

 private:
  void OnConnected(proto::PeerId peer, const proto::Hello& hello) override;
  void OnMessage(proto::PeerId peer, uint64_t request_id, proto::Message&& message) override;
  void OnClosed(proto::PeerId peer, const Status& why) override;
  void OnDrained(proto::PeerId peer) override;
  void Push(Event event);

  OpenFolder folder_;
  Loop loop_;
  std::unique_ptr<Endpoint> endpoint_;
  OnMessageHook hook_;          // the loop's
  bool tells_drained_ = false;  // the loop's
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;  // guarded by mutex_
  std::thread thread_;
};

/// An endless Connect to a port of 127.0.0.1 that others hold by turns.
class Attempts {
 public:
  Attempts(TestNode* client, uint32_t port);

  /// Until an attempt has failed with a reason that contains `text`.
  void AwaitTrouble(const std::string& text);
  /// Waits for the end.
  Status Outcome();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string trouble_;            // guarded by mutex_
  std::optional<Status> outcome_;  // guarded by mutex_
};

/// Another program that listens at a port of 127.0.0.1 and answers everybody with these bytes.
class Stranger {
 public:
  Stranger(uint32_t port, std::vector<std::byte> answer);
  ~Stranger();
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

 private:
  const std::vector<std::byte> answer_;
  int fd_;
  std::thread thread_;
};

std::vector<std::byte> AsBytes(const std::string& text);

/// A blocking socket that says what no Endpoint would say.
class RawSocket {
 public:
  explicit RawSocket(const Door& door);
  ~RawSocket();
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;

  void Write(std::span<const std::byte> bytes);
  void WriteMessage(const proto::Message& message, uint64_t request_id = 0);
  /// The next frame; an error when the stream ends or does not hold one.
  Result<proto::Message> Read();
  /// Reads until the peer closes; false if that takes too long.
  bool ReadsEnd();
  void Close();

 private:
  bool ReadExactly(std::span<std::byte> out);

  int fd_ = -1;
};

}  // namespace ps::net
