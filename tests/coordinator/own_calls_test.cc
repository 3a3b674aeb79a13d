#include "ps/coordinator/own_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ps/coordinator/coordinator_host.h"
#include "tests/base/temporary_folder.h"
#include "tests/coordinator/checkpoint_fixture.h"

namespace ps::coordinator {
namespace {

/// The connections.
class Connections final : public proto::Outbox {
 public:
  void Send(proto::PeerId to, uint64_t /*request_id*/, proto::Message /*message*/) override {
    sent.push_back(to.value);
  }

  bool IsBacklogged(proto::PeerId /*peer*/) const override { return true; }

  void Close(proto::PeerId peer) override { closed.push_back(peer.value); }

  std::vector<uint64_t> sent;
  std::vector<uint64_t> closed;
};

TEST(OwnCallsTest, AnswersGoToWhoeverAskedAndAllElseToConnections) {
  Connections connections;
  OwnCalls calls(&connections);
  std::vector<std::string> answers;
  const auto note = [&answers](const std::string& name) {
    return [&answers, name](const proto::Message& reply) {
      answers.push_back(
          name + (std::holds_alternative<proto::StopReply>(reply) ? " StopReply" : " ?"));
    };
  };
  const proto::PeerId first = calls.Open(note("first"));
  const proto::PeerId second = calls.Open(note("second"));
  ASSERT_NE(first, second);
  EXPECT_FALSE(calls.IsBacklogged(first));
  EXPECT_TRUE(calls.IsBacklogged(proto::PeerId(1)));
  calls.Send(second, 1, proto::StopReply{});
  calls.Send(proto::PeerId(1), 1, proto::StopReply{});
  calls.Send(second, 1, proto::StopReply{});  // an asker gets one
  calls.Close(first);
  calls.Close(proto::PeerId(2));
  calls.Send(first, 1, proto::StopReply{});  // as a message to a connection that is gone
  EXPECT_THAT(answers, ::testing::ElementsAre("second StopReply"));
  EXPECT_THAT(connections.sent, ::testing::ElementsAre(1, first.value));
  EXPECT_THAT(connections.closed, ::testing::ElementsAre(2));
}

TEST(OwnCallsTest, AHostAnswersItsOwnProcessAsItWouldPsctl) {
  const TemporaryFolder folder;
  CoordinatorHost::Options options;
  options.job = SmallJob();
  options.job.config.run.listen = "127.0.0.1";
  options.token = "secret";
  options.control_path = folder / "control";
  FakeFleet fleet;
  CoordinatorHost host(std::move(options), &NullLogger());
  ASSERT_TRUE(host.Listen().ok());
  std::vector<proto::Message> answers;
  Result<uint64_t> checkpoint = uint64_t{1};
  host.loop().RunAfter({}, [&] {
    answers.push_back(host.Ask(proto::StatusRequest{}));
    answers.push_back(host.Ask(proto::NoticeRequest{.worker = WorkerId(99), .grace_ms = 1000}));
    answers.push_back(host.Ask(proto::JoinRequest{}));  // no request of a person
    checkpoint = host.CheckpointNow();
    answers.push_back(host.Ask(proto::StopRequest{}));
  });
  host.Run({.fleet = &fleet, .may_close = [] { return true; }, .on_limit = {}, .on_wait = {}});
  ASSERT_EQ(answers.size(), 4U);
  EXPECT_TRUE(std::holds_alternative<proto::StatusReply>(answers[0]));
  EXPECT_TRUE(std::holds_alternative<proto::Refusal>(answers[1]));
  EXPECT_TRUE(std::holds_alternative<proto::Refusal>(answers[2]));
  EXPECT_TRUE(std::holds_alternative<proto::StopReply>(answers[3]));
  EXPECT_EQ(checkpoint.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(checkpoint.status().message()), ::testing::HasSubstr("checkpoint.enabled"));
}

class CheckpointNowTest : public CheckpointTest {
 protected:
  Result<uint64_t> Ask() { return harness_.core->CheckpointNow(harness_.now, harness_.out()); }
};

TEST_F(CheckpointNowTest, BeginsOneOutOfTurnAndNoneBesideIt) {
  EXPECT_EQ(Ask().status().code(), StatusCode::kUnavailable);  // nothing is trained yet
  Begin();
  const Result<uint64_t> begun = Ask();
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(checkpoints().open, *begun);
  const Result<uint64_t> again = Ask();
  EXPECT_EQ(again.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(again.status().message(), "a checkpoint is under way");
  EXPECT_EQ(checkpoints().open, *begun);
}

}  // namespace
}  // namespace ps::coordinator
