#include "ps/server/shard_host.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ps/crypto/worker_token.h"
#include "tests/checkpoint/memory_storage.h"
#include "tests/net/test_node.h"

namespace ps::server {
namespace {

using net::TestNode;

constexpr WorkerId kWorker(1);
constexpr WorkerId kAnother(2);

class NoLog final : public LogSink {
 public:
  void Write(LogLevel /*level*/, std::string_view /*line*/) override {}
};

/// A shard that has registered and is not set up; a worker that says what it wants.
class ShardHostTest : public ::testing::Test {
 protected:
  ShardHostTest() : coordinator_(net::TestOptions("c")) {
    ShardHost::Options options;
    options.coordinator_host = "127.0.0.1";
    options.coordinator_port = coordinator_.Listen();
    options.token = net::kTestToken;
    options.listen_host = "127.0.0.1";
    options.advertised_host = "127.0.0.1";
    host_.emplace(options, storage_, &no_log_);
    thread_ = std::thread([this] { end_ = host_->Run(); });
    EXPECT_EQ(coordinator_.Next().kind, net::Event::Kind::kConnected);
    const net::Event registered = coordinator_.Next();
    const auto* const shard = std::get_if<proto::RegisterShard>(&registered.message);
    EXPECT_NE(shard, nullptr);
    port_ = shard == nullptr ? 0 : shard->port;
  }

  ~ShardHostTest() override {
    host_->Stop();
    thread_.join();
    EXPECT_EQ(end_.code(), StatusCode::kCancelled) << end_;
  }

  /// What the shard answers to one who showed this token.
  std::string AnswerTo(const std::string& token, const proto::Message& message) {
    TestNode worker(net::TestOptions("w"));
    proto::Hello hello = net::TestHello("w");
    hello.role = proto::Role::kWorker;
    hello.token = token;
    const Result<proto::PeerId> peer = worker.Connect(port_, hello);
    if (!peer.ok()) {
      return std::string(peer.status().message());
    }
    worker.Send(*peer, 7, message);
    const net::Event answer = worker.Next();
    EXPECT_EQ(answer.request_id, 7U);
    const auto* const refusal = std::get_if<proto::Refusal>(&answer.message);
    return refusal == nullptr ? "no refusal" : refusal->message;
  }

  static proto::Message PushOf(WorkerId worker, std::span<const std::byte> payload) {
    proto::PushRequest push = net::BorrowedPush(payload);
    push.worker = worker;
    return push;
  }

  static proto::Message PullOf(WorkerId worker) {
    proto::PullRequest pull;
    pull.worker = worker;
    return pull;
  }

  const std::shared_ptr<checkpoint::MemoryStorage> storage_ =
      std::make_shared<checkpoint::MemoryStorage>();
  NoLog no_log_;
  TestNode coordinator_;
  std::optional<ShardHost> host_;
  Status end_;
  std::thread thread_;
  uint32_t port_ = 0;
  const std::vector<std::byte> payload_ = net::PatternBytes(16, 1);
};

TEST_F(ShardHostTest, ATokenOfOneWorkerLetsNobodySpeakAsAnother) {
  const std::string token = crypto::MakeWorkerToken(net::kTestToken, kWorker);
  const std::string refused = "this token lets nobody push or pull as another worker";
  const std::string heard = "this shard is not set up yet";
  EXPECT_EQ(AnswerTo(token, PushOf(kAnother, payload_)), refused);
  EXPECT_EQ(AnswerTo(token, PullOf(kAnother)), refused);
  EXPECT_EQ(AnswerTo(token, PushOf(kWorker, payload_)), heard);
  EXPECT_EQ(AnswerTo(token, PullOf(kWorker)), heard);
  EXPECT_EQ(AnswerTo(net::kTestToken, PullOf(kAnother)), heard) << "the run's own is for any";
}

TEST_F(ShardHostTest, ATokenThatWasChangedLetsNobodyIn) {
  std::string token = crypto::MakeWorkerToken(net::kTestToken, kWorker);
  token[1] = '2';
  const std::string answer = AnswerTo(token, PullOf(kAnother));
  EXPECT_NE(answer.find("token"), std::string::npos) << answer;
  EXPECT_EQ(answer.find("set up"), std::string::npos) << answer;
}

}  // namespace
}  // namespace ps::server
