#include "run/page/page_control.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace ps::run {
namespace {

class PageControlTest : public testing::Test {
 protected:
  /// What is said of the order; else the error.
  std::string Do(const std::string& body) {
    asked_.reset();
    const Result<std::string> said = DoAsAsked(body, steering_);
    return said.ok() ? *said : "error: " + std::string(said.status().message());
  }

  template <typename Request>
  Request Asked() {
    EXPECT_TRUE(asked_.has_value() && std::holds_alternative<Request>(*asked_));
    return asked_.has_value() && std::holds_alternative<Request>(*asked_)
               ? std::get<Request>(*asked_)
               : Request();
  }

  std::optional<proto::Message> asked_;
  proto::Message answer_;
  Result<uint64_t> checkpoint_ = uint64_t{7};
  const PageSteering steering_ = {
      .ask = [this](proto::Message request) -> Result<proto::Message> {
        asked_ = std::move(request);
        return answer_;
      },
      .checkpoint_now = [this] { return checkpoint_; }};
};

TEST_F(PageControlTest, ScalesWorkersAndServers) {
  proto::ScaleReply reply;
  reply.fleet = {{.type = "spot", .wanted = 5}, {.type = "od", .wanted = 1}};
  reply.servers.wanted = 2;
  answer_ = reply;
  EXPECT_EQ(
      Do(R"({"do":"scale","type":"spot","workers":5})"), "6 workers and 2 servers are wanted now");
  const proto::ScaleRequest workers = Asked<proto::ScaleRequest>();
  ASSERT_EQ(workers.changes.size(), 1U);
  EXPECT_EQ(workers.changes[0].type, "spot");
  EXPECT_EQ(workers.changes[0].count, 5);
  EXPECT_FALSE(workers.changes[0].is_servers);
  EXPECT_FALSE(workers.changes[0].is_relative);
  Do(R"({"do":"scale","servers":3})");
  const proto::ScaleRequest servers = Asked<proto::ScaleRequest>();
  ASSERT_EQ(servers.changes.size(), 1U);
  EXPECT_TRUE(servers.changes[0].is_servers);
  EXPECT_EQ(servers.changes[0].count, 3);
}

TEST_F(PageControlTest, DrainsPausesSwitchesStops) {
  answer_ = proto::NoticeReply{30'000};
  EXPECT_EQ(
      Do(R"({"do":"drain","worker":3})"),
      "worker 3 hands over and leaves within 30 s; its group is smaller by one");
  EXPECT_EQ(Asked<proto::NoticeRequest>().worker, WorkerId(3));
  EXPECT_EQ(Asked<proto::NoticeRequest>().grace_ms, 30'000U);
  EXPECT_TRUE(Asked<proto::NoticeRequest>().is_release);
  EXPECT_FALSE(Asked<proto::NoticeRequest>().is_server);
  answer_ = proto::PauseReply{};
  EXPECT_EQ(Do(R"({"do":"pause"})"), "training pauses after the steps in hand");
  EXPECT_TRUE(Asked<proto::PauseRequest>().is_paused);
  EXPECT_EQ(Do(R"({"do":"continue"})"), "training goes on");
  EXPECT_FALSE(Asked<proto::PauseRequest>().is_paused);
  proto::ModeReply mode;
  mode.modes.wanted = {proto::Mode::kSsp, 4};
  answer_ = mode;
  EXPECT_EQ(
      Do(R"({"do":"mode","mode":"ssp:4"})"), "the mode is ssp:4 when the steps in hand are done");
  EXPECT_EQ(Asked<proto::ModeRequest>().wanted, (proto::ModeChoice{proto::Mode::kSsp, 4}));
  answer_ = proto::StopReply{};
  EXPECT_EQ(Do(R"({"do":"stop"})"), "the run ends after the steps in hand");
  EXPECT_FALSE(Asked<proto::StopRequest>().is_immediate);
  EXPECT_EQ(Do(R"({"do":"stop","now":true})"), "the run ends at once");
  EXPECT_TRUE(Asked<proto::StopRequest>().is_immediate);
}

TEST_F(PageControlTest, BeginsACheckpoint) {
  EXPECT_EQ(Do(R"({"do":"checkpoint"})"), "checkpoint 7 is being written");
  checkpoint_ = uint64_t{0};
  EXPECT_EQ(Do(R"({"do":"checkpoint"})"), "a checkpoint is written with the next round");
  checkpoint_ = Status::Unavailable("a checkpoint is under way");
  EXPECT_EQ(Do(R"({"do":"checkpoint"})"), "error: a checkpoint is under way");
}

TEST_F(PageControlTest, PassesARefusalOn) {
  answer_ = proto::Refusal{.code = StatusCode::kNotFound, .message = "there is no worker 9"};
  EXPECT_EQ(Do(R"({"do":"drain","worker":9})"), "error: there is no worker 9");
  answer_ = proto::StatusReply{};
  EXPECT_EQ(Do(R"({"do":"pause"})"), "error: the coordinator gave another answer than expected");
}

TEST_F(PageControlTest, RefusesWhatItDoesNotKnow) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "error: a request is an object: {\"do\": \"pause\"}"},
      {"{}", "error: do is \"\"; allowed: scale, drain, pause, continue, mode, checkpoint, stop"},
      {R"({"do":"rm"})",
       "error: do is \"rm\"; allowed: scale, drain, pause, continue, mode, checkpoint, stop"},
      {R"({"do":5})", "error: do is a text"},
      {R"({"do":"pause","then":"stop"})", "error: \"then\" is no member of this request"},
      {R"({"do":"scale"})", "error: scale has workers or servers, a number"},
      {R"({"do":"scale","workers":1,"servers":1})",
       "error: scale has workers or servers, a number"},
      {R"({"do":"scale","workers":-1})", "error: workers is a whole number, 0 to 16384"},
      {R"({"do":"scale","workers":1.5})", "error: workers is a whole number, 0 to 16384"},
      {R"({"do":"scale","workers":16385})", "error: workers is a whole number, 0 to 16384"},
      {R"({"do":"scale","workers":"4"})", "error: workers is a whole number, 0 to 16384"},
      {R"({"do":"scale","servers":1025})", "error: servers is a whole number, 0 to 1024"},
      {R"({"do":"scale","servers":1,"type":"a"})", "error: servers have no type"},
      {R"({"do":"drain"})", "error: worker is a whole number, 0 to 16384"},
      {R"({"do":"drain","worker":1,"grace_s":0})",
       "error: grace_s is a number above 0, at most 86400"},
      {R"({"do":"drain","worker":1,"grace_s":1e9})",
       "error: grace_s is a number above 0, at most 86400"},
      {R"({"do":"stop","now":"yes"})", "error: now is true or false"}};
  for (const auto& [body, said] : cases) {
    EXPECT_EQ(Do(body), said) << body;
    EXPECT_FALSE(asked_.has_value()) << body;
  }
  for (const char* body : {"", "{", "\xff", R"({"do":"pause","do":"stop"})"}) {
    EXPECT_EQ(Do(body).substr(0, 6), "error:") << body;
    EXPECT_FALSE(asked_.has_value()) << body;
  }
  EXPECT_EQ(Do(R"({"do":"mode","mode":"fast"})").substr(0, 17), "error: mode wants");
}

}  // namespace
}  // namespace ps::run
