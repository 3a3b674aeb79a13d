#include "tests/net/test_node.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <future>
#include <utility>

#include "ps/base/random.h"

namespace ps::net {
namespace {

// Only a broken program waits this long.
constexpr auto kPatience = std::chrono::seconds(30);

}  // namespace

OpenFolder::OpenFolder() {
  EXPECT_EQ(::chmod(path().c_str(), 0755), 0);
}

std::string DoorName(const testing::TestParamInfo<DoorKind>& info) {
  return info.param == DoorKind::kPort ? "Port" : "File";
}

EndpointOptions TestOptions(const std::string& node) {
  EndpointOptions options;
  options.node = node;
  options.token = kTestToken;
  options.roles = {proto::Role::kWorker, proto::Role::kShard, proto::Role::kControl};
  options.file_roles = options.roles;
  options.handshake_timeout = kPatience;
  options.linger = kPatience;
  return options;
}

proto::Hello TestHello(const std::string& node) {
  proto::Hello hello;
  hello.role = proto::Role::kWorker;
  hello.token = kTestToken;
  hello.node = node;
  return hello;
}

RetryPolicy PatientPolicy() {
  RetryPolicy policy;
  policy.connect_timeout = kPatience;
  policy.reply_timeout = kPatience;
  return policy;
}

ReservedPort::ReservedPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  // A bound socket that does not listen lets a listener beside it if both allow reuse.
  const int on = 1;
  EXPECT_EQ(::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  port_ = ntohs(address.sin_port);
}

ReservedPort::~ReservedPort() {
  ::close(fd_);
}

Attempts::Attempts(TestNode* client, uint32_t port) {
  RetryPolicy retry = PatientPolicy();
  retry.attempts_max = UINT32_MAX;
  retry.first = retry.limit = std::chrono::milliseconds(2);
  retry.report_after = retry.report_every = std::chrono::milliseconds(1);
  retry.on_trouble = [this](const Status& why) {
    const std::lock_guard lock(mutex_);
    trouble_ = std::string(why.message());
    changed_.notify_all();
  };
  client->Do([&](Endpoint& endpoint) {
    endpoint.Connect(
        "127.0.0.1",
        port,
        TestHello("early"),
        [this](const Result<proto::PeerId>& peer) {
          const std::lock_guard lock(mutex_);
          outcome_ = peer.status();
          changed_.notify_all();
        },
        retry);
  });
}

void Attempts::AwaitTrouble(const std::string& text) {
  std::unique_lock lock(mutex_);
  const bool has_come = changed_.wait_for(lock, kAmple, [&] {
    return outcome_.has_value() || trouble_.find(text) != std::string::npos;
  });
  EXPECT_TRUE(has_come && !outcome_) << "it gave up, or the reason is: " << trouble_;
}

Status Attempts::Outcome() {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, kAmple, [&] { return outcome_.has_value(); })) << trouble_;
  return outcome_.value_or(Status::DeadlineExceeded("still trying"));
}

Stranger::Stranger(uint32_t port, std::vector<std::byte> answer)
    : answer_(std::move(answer)), fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  EXPECT_EQ(::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(::listen(fd_, 8), 0);
  thread_ = std::thread([this] {
    int guest = -1;
    while ((guest = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0) {
      EXPECT_EQ(
          ::send(guest, answer_.data(), answer_.size(), MSG_NOSIGNAL),
          static_cast<ssize_t>(answer_.size()));
      ::shutdown(guest, SHUT_WR);
      std::array<std::byte, 4096> ignored;
      while (::recv(guest, ignored.data(), ignored.size(), 0) > 0) {
      }
      ::close(guest);
    }
  });
}

Stranger::~Stranger() {
  ::shutdown(fd_, SHUT_RDWR);  // accept returns
  thread_.join();
  ::close(fd_);
}

std::vector<std::byte> AsBytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

proto::PushRequest BorrowedPush(std::span<const std::byte> payload) {
  proto::PushRequest push;
  push.step = 1;
  push.samples = 1;
  push.chunk_count = 1;
  if (!payload.empty()) {
    push.chunks.push_back(
        {MakeChunkKey(0, 0), static_cast<uint32_t>(payload.size() / sizeof(float))});
    push.payload.parts.push_back(payload);
  }
  return push;
}

std::vector<std::byte> PatternBytes(size_t size_bytes, uint64_t seed) {
  std::vector<std::byte> bytes(size_bytes);
  Random random(seed);
  for (std::byte& b : bytes) {
    b = static_cast<std::byte>(random.Next());
  }
  return bytes;
}

TestNode::TestNode(EndpointOptions options)
    : endpoint_(std::make_unique<Endpoint>(&loop_, std::move(options), &NullLogger(), this)),
      thread_([this] { loop_.Run(); }) {}

TestNode::~TestNode() {
  loop_.Stop();
  thread_.join();
  endpoint_.reset();
}

void TestNode::Do(const std::function<void(Endpoint&)>& fn) {
  std::promise<void> done;
  const Status posted = loop_.Post([&] {
    fn(*endpoint_);
    done.set_value();
  });
  ASSERT_TRUE(posted.ok()) << posted;
  done.get_future().wait();
}

uint32_t TestNode::Listen() {
  uint32_t port = 0;
  Do([&](Endpoint& endpoint) {
    const Result<uint32_t> result = endpoint.Listen("127.0.0.1", 0);
    ASSERT_TRUE(result.ok()) << result.status();
    port = result.value();
  });
  return port;
}

Door TestNode::Listen(DoorKind kind) {
  if (kind == DoorKind::kPort) {
    return Listen();
  }
  const std::string file = folder_ / "door.sock";
  Do([&](Endpoint& endpoint) {
    const Status status = endpoint.ListenAtFile(file);
    EXPECT_TRUE(status.ok()) << status;
  });
  return Door(file);
}

Result<proto::PeerId> TestNode::Connect(
    const Door& door, const proto::Hello& hello, const RetryPolicy& retry) {
  std::promise<Result<proto::PeerId>> done;
  const auto tell = [&](Result<proto::PeerId> peer) { done.set_value(std::move(peer)); };
  Do([&](Endpoint& endpoint) {
    if (door.file.empty()) {
      endpoint.Connect("127.0.0.1", door.port, hello, tell, retry);
    } else {
      endpoint.ConnectToFile(door.file, hello, tell, retry);
    }
  });
  return done.get_future().get();
}

proto::PeerId TestNode::MustConnect(const Door& door) {
  const Result<proto::PeerId> peer = Connect(door, TestHello("tester"));
  EXPECT_TRUE(peer.ok()) << peer.status();
  return peer.ok() ? peer.value() : proto::PeerId();
}

void TestNode::Send(proto::PeerId peer, uint64_t request_id, const proto::Message& message) {
  Do([&](Endpoint& endpoint) { endpoint.Send(peer, request_id, message); });
}

void TestNode::set_on_message(OnMessageHook hook) {
  Do([&](Endpoint&) { hook_ = std::move(hook); });
}

void TestNode::EchoEverything() {
  set_on_message([this](proto::PeerId peer, uint64_t request_id, proto::Message&& message) {
    endpoint_->Send(peer, request_id, std::move(message));
  });
}

Event TestNode::Next() {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kPatience, [&] { return !events_.empty(); })) {
    ADD_FAILURE() << "no event came";
    return {};
  }
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

bool TestNode::HasNoEvent() {
  const std::lock_guard lock(mutex_);
  return events_.empty();
}

void TestNode::OnConnected(proto::PeerId peer, const proto::Hello& hello) {
  Event event;
  event.kind = Event::Kind::kConnected;
  event.peer = peer;
  event.hello = hello;
  Push(std::move(event));
}

void TestNode::OnMessage(proto::PeerId peer, uint64_t request_id, proto::Message&& message) {
  if (hook_) {
    hook_(peer, request_id, std::move(message));
    return;
  }
  Event event;
  event.kind = Event::Kind::kMessage;
  event.peer = peer;
  event.request_id = request_id;
  event.message = std::move(message);
  Push(std::move(event));
}

void TestNode::OnClosed(proto::PeerId peer, const Status& why) {
  Event event;
  event.kind = Event::Kind::kClosed;
  event.peer = peer;
  event.status = why;
  Push(std::move(event));
}

void TestNode::TellDrained() {
  Do([&](Endpoint&) { tells_drained_ = true; });
}

void TestNode::OnDrained(proto::PeerId peer) {
  if (tells_drained_) {
    Event event;
    event.kind = Event::Kind::kDrained;
    event.peer = peer;
    Push(std::move(event));
  }
}

void TestNode::Push(Event event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  changed_.notify_all();
}

RawSocket::RawSocket(const Door& door)
    : fd_(::socket(door.file.empty() ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (door.file.empty()) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(door.port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  } else {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    EXPECT_LT(door.file.size(), sizeof(address.sun_path));
    std::strncpy(address.sun_path, door.file.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  const timeval patience = {std::chrono::seconds(kPatience).count(), 0};
  EXPECT_EQ(::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
}

RawSocket::~RawSocket() {
  Close();
}

void RawSocket::Close() {
  if (fd_ >= 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

void RawSocket::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) {
      return;  // the peer has closed: what it said is read next
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

void RawSocket::WriteMessage(const proto::Message& message, uint64_t request_id) {
  const proto::EncodedMessage frame = proto::EncodeMessage(message, request_id);
  Write(frame.head);
  for (const auto& part : frame.payload.parts) {
    Write(part);
  }
}

bool RawSocket::ReadExactly(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = ::recv(fd_, out.data(), out.size(), 0);
    if (n <= 0) {
      return false;
    }
    out = out.subspan(static_cast<size_t>(n));
  }
  return true;
}

Result<proto::Message> RawSocket::Read() {
  std::array<std::byte, proto::kFrameHeaderBytes> head;
  if (!ReadExactly(head)) {
    return Status::Unavailable("the stream ended");
  }
  PS_ASSIGN(const proto::FrameHeader header, proto::DecodeFrameHeader(head, {}));
  std::vector<std::byte> flatbuffer(header.header_bytes + header.padding_bytes());
  const auto payload = std::make_shared<Buffer>(header.payload_bytes);
  if (!ReadExactly(flatbuffer) || !ReadExactly(payload->bytes())) {
    return Status::Unavailable("the stream ended within a frame");
  }
  return proto::DecodeMessage(
      header,
      std::span(flatbuffer).first(header.header_bytes),
      payload->size() == 0 ? proto::Payload() : proto::Payload::Own(payload, header.payload_bytes));
}

bool RawSocket::ReadsEnd() {
  std::array<std::byte, 65536> scratch;
  while (true) {
    const ssize_t n = ::recv(fd_, scratch.data(), scratch.size(), 0);
    if (n == 0 || (n < 0 && errno == ECONNRESET)) {
      return true;
    }
    if (n < 0) {
      return false;
    }
  }
}

}  // namespace ps::net
