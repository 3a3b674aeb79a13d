// psctl set: what the steps of new leases have.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/rollback_fixture.h"

namespace ps::coordinator {
namespace {

using proto::Mode;
using ::testing::HasSubstr;

constexpr codec::Encoding kInt8{codec::EncodingKind::kInt8};

/// What a job file would say, since changes are checked as one.
void MakeWhole(CoordinatorOptions* options) {
  options->config.model.name = "mlp";
  options->config.data.directory = "/data";
}

class SettingsTest : public RollbackTest {
 protected:
  explicit SettingsTest(Mode mode = Mode::kAsync) : RollbackTest(MakeWhole, mode) {}

  void Ask(const std::vector<proto::ConfigOverride>& changes) {
    control_ = harness_.Connect(proto::Role::kControl);
    harness_.Give(control_, proto::SetRequest{changes});
  }

  proto::StepsStatus AskAndGet(const std::vector<proto::ConfigOverride>& changes) {
    Ask(changes);
    const auto reply = harness_.Take<proto::SetReply>(control_);
    EXPECT_TRUE(reply.has_value());
    return reply.value_or(proto::SetReply()).steps;
  }

  std::string RefusalOf(const std::vector<proto::ConfigOverride>& changes) {
    Ask(changes);
    const auto refusal = harness_.Take<proto::Refusal>(control_);
    return refusal ? refusal->message : "it is not refused";
  }

  proto::StepsStatus steps() const { return harness_.status().steps; }

  std::string NewestEvent() const { return harness_.status().events.back().text; }

  proto::PeerId control_;
};

class BspSettingsTest : public SettingsTest {
 protected:
  BspSettingsTest() : SettingsTest(Mode::kBsp) {}
};

TEST_F(SettingsTest, TheNextLeaseOfEachWorkerHasThem) {
  Begin();
  EXPECT_EQ(grants_[0].settings, proto::StepSettings());
  const proto::StepsStatus set = AskAndGet({{"exchange.push", "int8"}, {"exchange.pull", "bf16"}});
  EXPECT_EQ(set.in_force.push, kInt8);
  EXPECT_EQ(set.changes, 1U);
  EXPECT_THAT(
      NewestEvent(),
      HasSubstr("exchange.push=int8, exchange.pull=bf16 with each worker's next lease, "
                "exchange.push=f32, exchange.pull=f32 before: psctl"));
  harness_.Work(&workers_[0], grants_[0]);
  const auto grant = harness_.Ask(&workers_[0]);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->settings, set.in_force);
  FakeWorker late = harness_.Join(std::nullopt, 77);
  const auto first = harness_.Ask(&late);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->settings, set.in_force) << "who joins later has them, too";
}

TEST_F(SettingsTest, AnotherCoordinatorGoesOnWithThem) {
  Begin();
  AskAndGet({{"exchange.push", "topk:0.01"}, {"exchange.error_feedback", "false"}});
  const proto::StepsStatus before = steps();
  harness_.Restart();
  for (FakeWorker& worker : workers_) {
    harness_.Reconnect(&worker);
  }
  EXPECT_EQ(steps().in_force, before.in_force);
  EXPECT_EQ(steps().changes, 1U);
  harness_.Work(&workers_[0], grants_[0]);
  const auto grant = harness_.Ask(&workers_[0]);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->settings.push.ToText(), "topk:0.01");
  EXPECT_FALSE(grant->settings.has_feedback);
}

TEST_F(BspSettingsTest, AllStepsOfARoundHaveTheSame) {
  Begin();
  harness_.Work(&workers_[0], grants_[0]);
  const proto::StepsStatus set = AskAndGet({{"exchange.push", "int8"}});
  EXPECT_EQ(set.in_force.push, codec::Encoding()) << "a round is open";
  EXPECT_EQ(set.wanted.push, kInt8);
  EXPECT_THAT(NewestEvent(), HasSubstr("exchange.push=int8 with the next round"));
  harness_.Work(&workers_[1], grants_[1]);
  EXPECT_EQ(steps().in_force.push, codec::Encoding());
  harness_.Work(&workers_[2], grants_[2]);
  EXPECT_EQ(steps().in_force.push, kInt8);
  for (FakeWorker& worker : workers_) {
    const auto grant = harness_.Ask(&worker);
    ASSERT_TRUE(grant.has_value());
    EXPECT_EQ(grant->settings.push, kInt8);
  }
}

TEST_F(BspSettingsTest, AJobThatGoesBackKeepsThem) {
  BeginAndWrite();
  AskAndGet({{"exchange.pull", "bf16"}});
  Round();
  const proto::StepsStatus before = steps();
  ASSERT_EQ(before.in_force.pull.kind, codec::EncodingKind::kBf16);
  Lose(0);
  Read();
  ShardsReturn(0);
  WorkersReturn();
  EXPECT_EQ(steps().in_force, before.in_force);
  FinishRun();
}

TEST_F(SettingsTest, WhatCanNotChangeIsRefusedAndNothingHasChanged) {
  Begin();
  EXPECT_THAT(
      RefusalOf({{"exchange.push", "int8"}, {"train.minibatch", "16"}}),
      HasSubstr("train.minibatch can't change while the job trains"));
  EXPECT_EQ(steps().changes, 0U);
  EXPECT_EQ(steps().in_force.push, codec::Encoding());
  EXPECT_THAT(RefusalOf({{"exchange.push", "int9"}}), HasSubstr("did you mean int8?"));
  EXPECT_THAT(
      RefusalOf({{"train.local_steps", "8"}}),
      HasSubstr("in a job that began with train.local_steps 1"));
  EXPECT_THAT(RefusalOf({}), HasSubstr("nothing is to change"));
  harness_.Give(control_, proto::StopRequest{});
  EXPECT_THAT(RefusalOf({{"exchange.push", "int8"}}), HasSubstr("the run is ending"));
}

/// A job whose steps have four minibatches.
class LocalSettingsTest : public CheckpointTest {
 protected:
  LocalSettingsTest()
      : CheckpointTest([](CoordinatorOptions* options) {
          MakeWhole(options);
          options->config.train.local_steps = 4;
          options->config.train.lease_steps = 4;
        }) {}
};

TEST_F(LocalSettingsTest, StepsHaveAsManyMinibatchesAsTheirLeaseSays) {
  Begin();
  EXPECT_EQ(grants_[0].local_steps, 4U);
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::SetRequest{{{"train.local_steps", "2"}}});
  ASSERT_TRUE(harness_.Take<proto::SetReply>(control).has_value());
  harness_.Work(&workers_[0], grants_[0]);
  const auto grant = harness_.Ask(&workers_[0]);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->local_steps, 2U);
  EXPECT_EQ(grant->settings.local_steps, 2U);
  harness_.Work(&workers_[0], *grant);
  harness_.Work(&workers_[1], grants_[1]);
  EXPECT_TRUE(harness_.core->Check().ok()) << "steps of before count as they were leased";
}

}  // namespace
}  // namespace ps::coordinator
