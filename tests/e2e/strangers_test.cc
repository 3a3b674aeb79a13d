// Whoever else finds the ports of a run, or its control socket: refused in words where there is
// somebody to tell, and without any effect on the run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "ps/base/host_port.h"
#include "ps/base/random.h"
#include "tests/e2e/support/socket.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class StrangerTest : public E2eTest {
 protected:
  /// Starts a run, and waits until it trains.
  void StartRun() {
    job_.SetEndless().Set("workers", R"([{"count": 2, "slowdown": 6}])");
    run_ = std::make_unique<TrainRun>(job_);
    const auto status = run_->WaitForSamples(256);
    ASSERT_TRUE(status.has_value());
    doors_.push_back(*run_->Address());
    for (const proto::ShardRow& row : status->shards) {
      const Result<HostPort> address = ParseHostPort(row.address);
      ASSERT_TRUE(address.ok()) << address.status();
      doors_.push_back(*address);
    }
    ASSERT_EQ(doors_.size(), 3U);
  }

  /// The run trains on when the strangers are done, as if nobody had called.
  void ExpectUndisturbed() {
    const auto status = run_->Status();
    ASSERT_TRUE(status.has_value());
    EXPECT_TRUE(run_->WaitForSamples(status->samples_counted + 256).has_value());
    const Json summary = StopCleanly(run_.get());
    EXPECT_EQ(summary["joins"].number(), 2);
    EXPECT_EQ(summary["steps_lost"].number(), 0);
    EXPECT_EQ(summary["samples_rejected"].number(), 0);
    EXPECT_EQ(summary["revocations_unnoticed"].number(), 0);
  }

  /// To everything that listens.
  std::vector<std::unique_ptr<RawConnection>> ConnectEverywhere() const {
    std::vector<std::unique_ptr<RawConnection>> connections;
    for (const HostPort& door : doors_) {
      connections.push_back(std::make_unique<RawConnection>(door));
    }
    connections.push_back(std::make_unique<RawConnection>(run_->ControlSocket()));
    return connections;
  }

  proto::Hello WorkersHello(const std::string& token) const {
    proto::Hello hello;
    hello.role = proto::Role::kWorker;
    hello.token = token;
    hello.node = "stranger";
    return hello;
  }

  std::unique_ptr<TrainRun> run_;
  std::vector<HostPort> doors_;  // the coordinator's, then each shard's
};

void ExpectRefusal(const RawConnection& connection, const ::testing::Matcher<std::string>& text) {
  const std::optional<proto::Message> answer = connection.Receive();
  ASSERT_TRUE(answer.has_value()) << "no answer";
  const auto* refusal = std::get_if<proto::Refusal>(&*answer);
  ASSERT_NE(refusal, nullptr) << "answered with message type " << proto::MessageTypeOf(*answer);
  EXPECT_THAT(refusal->message, text);
  EXPECT_TRUE(connection.WaitForEnd());
}

TEST_F(StrangerTest, AnotherProtocolVersionIsRefusedWithBothNumbers) {
  ASSERT_NO_FATAL_FAILURE(StartRun());
  const uint16_t version = proto::kProtocolVersion + 1;
  for (const auto& connection : ConnectEverywhere()) {
    connection->Send(EncodeAsVersion(WorkersHello(run_->Token()), version));
    ExpectRefusal(
        *connection,
        AllOf(
            HasSubstr("version"),
            HasSubstr(std::to_string(version)),
            HasSubstr(std::to_string(proto::kProtocolVersion))));
  }
  ExpectUndisturbed();
}

TEST_F(StrangerTest, AWrongTokenIsRefusedInWords) {
  ASSERT_NO_FATAL_FAILURE(StartRun());
  for (const HostPort& door : doors_) {
    for (const std::string& token : {std::string(), std::string(64, '0'), run_->Token() + "0"}) {
      const RawConnection connection(door);
      connection.Send(WorkersHello(token));
      ExpectRefusal(connection, HasSubstr("wrong token"));
    }
  }
  WriteText(folder_ / "wrong", std::string(64, 'a') + "\n");
  const Output worker = RunToEnd(
      {.program = "ps_worker",
       .arguments =
           {"--coordinator",
            doors_[0].host + ":" + std::to_string(doors_[0].port),
            "--token-file",
            folder_ / "wrong"},
       .output_stem = folder_ / "stranger"});
  EXPECT_EQ(worker.end, ProcessEnd{1});
  EXPECT_THAT(worker.err, HasSubstr("wrong token"));
  ExpectUndisturbed();
}

TEST_F(StrangerTest, TheTokenOpensNoControlAndTheControlSocketNothingElse) {
  ASSERT_NO_FATAL_FAILURE(StartRun());
  proto::Hello control = WorkersHello(run_->Token());
  control.role = proto::Role::kControl;
  for (const HostPort& door : doors_) {
    const RawConnection connection(door);
    connection.Send(control);
    ExpectRefusal(connection, HasSubstr("no connections from a control"));
  }
  const RawConnection connection(run_->ControlSocket());
  connection.Send(WorkersHello(run_->Token()));
  ExpectRefusal(connection, HasSubstr("no connections from a worker"));
  ExpectUndisturbed();
}

TEST_F(StrangerTest, AMemberOfNothingIsRefusedWhatItAsksFor) {
  // It has the token and speaks the protocol, but never joined.
  ASSERT_NO_FATAL_FAILURE(StartRun());
  proto::PushRequest push;
  push.incarnation = Incarnation(1000);
  push.step = 1;
  push.samples = 1;
  push.chunk_count = 1;
  push.chunks = {{MakeChunkKey(0, 0), 4}};
  const std::vector<std::byte> zeros(16);
  push.payload.parts.emplace_back(zeros);
  proto::LeaseRequest lease;
  lease.incarnation = Incarnation(1);  // somebody else's
  const std::vector<proto::Message> requests{lease, push, push};
  for (size_t i = 0; i < doors_.size(); ++i) {
    const RawConnection connection(doors_[i]);
    connection.Send(WorkersHello(run_->Token()));
    const auto hello = connection.Receive();
    ASSERT_TRUE(hello.has_value() && std::holds_alternative<proto::HelloReply>(*hello)) << i;
    connection.Send(requests[i]);
    const auto answer = connection.Receive();
    ASSERT_TRUE(answer.has_value()) << i;
    const auto* refusal = std::get_if<proto::Refusal>(&*answer);
    ASSERT_NE(refusal, nullptr) << i;
    EXPECT_NE(refusal->message, "") << i;
  }
  ExpectUndisturbed();
}

/// What careless or hostile programs send to a port.
std::vector<std::vector<std::byte>> Garbage(const proto::Hello& hello, Random* random) {
  std::vector<std::vector<std::byte>> all;
  for (const size_t bytes : {1U, 39U, 40U, 4096U, 300'000U}) {
    std::vector<std::byte> noise(bytes);
    for (std::byte& byte : noise) {
      byte = static_cast<std::byte>(random->Below(256));
    }
    all.push_back(std::move(noise));
  }
  const std::string http = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const auto http_bytes = std::as_bytes(std::span(http));
  all.emplace_back(http_bytes.begin(), http_bytes.end());
  const std::vector<std::byte> whole = proto::EncodeMessage(hello, 1).head;
  all.emplace_back(whole.begin(), whole.end() - 1);  // cut off
  all.push_back(whole);                              // one bit of the body is wrong
  all.back().back() ^= std::byte{1};
  all.push_back(whole);  // a header that claims more than anybody may send
  const auto head = std::span(all.back()).first<proto::kFrameHeaderBytes>();
  Result<proto::FrameHeader> header = proto::DecodeFrameHeader(head, proto::FrameLimits());
  header->payload_bytes = uint64_t{1} << 60;
  proto::EncodeFrameHeader(*header, head);
  all.push_back(whole);  // noise after a proper Hello
  all.back().insert(all.back().end(), all[3].begin(), all[3].end());
  return all;
}

TEST_F(StrangerTest, GarbageDisturbsNobody) {
  ASSERT_NO_FATAL_FAILURE(StartRun());
  const auto seed = static_cast<uint64_t>(SystemTime().UnixMicros());
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const auto garbage = Garbage(WorkersHello(run_->Token()), &random);
  const auto silent = ConnectEverywhere();  // and never says a word
  for (const std::vector<std::byte>& bytes : garbage) {
    for (const auto& connection : ConnectEverywhere()) {
      connection->Send(bytes);
    }
  }
  for (const auto& connection : silent) {
    EXPECT_TRUE(connection->WaitForEnd()) << "a silent connection is kept open";
  }
  ExpectUndisturbed();
}

}  // namespace
}  // namespace ps::e2e
