#include "run/page/page_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ps/json/json_value.h"
#include "tests/run/sample_status.h"

namespace ps::run {
namespace {

using testing::HasSubstr;

class FakeSource final : public PageSource {
 public:
  Now Look() override { return now; }

  std::string History(double after_unix_s, uint32_t thinned) override {
    return "{\"after\":" + std::to_string(after_unix_s) +
           ",\"thinned\":" + std::to_string(thinned) + "}";
  }

  std::vector<proto::EventRow> EventsAfter(uint64_t after) override {
    proto::EventRow event;
    event.number = after + 1;
    event.text = "<script>alert(1)</script>";
    return {event};
  }

  const PageSteering* steering() const override { return can_steer ? &orders : nullptr; }

  Now now = {
      std::make_shared<const PageLook>(
          std::make_shared<const proto::JobStatus>(MakeStatus()), R"({"usd":3})"),
      0.5};
  bool can_steer = true;
  int asked = 0;
  const PageSteering orders = {
      .ask = [this](const proto::Message& /*request*/) -> Result<proto::Message> {
        ++asked;
        return proto::Message(proto::PauseReply{});
      },
      .checkpoint_now = []() -> Result<uint64_t> { return Status::Unavailable("not now"); }};
};

class PageRoutesTest : public testing::Test {
 protected:
  PageRoutesTest() {
    auto first = std::make_unique<FakeSource>();
    auto second = std::make_unique<FakeSource>();
    first_ = first.get();
    second_ = second.get();
    second_->can_steer = false;
    std::vector<PageRun> runs;
    runs.push_back({"a-1", std::move(first)});
    runs.push_back({"b-2", std::move(second)});
    routes_ = std::make_unique<PageRoutes>(std::move(runs), "key", "spotps 9");
  }

  PageReply Get(
      const std::string& path,
      const std::string& key = "key",
      std::map<std::string, std::string> query = {}) {
    PageRequest request;
    request.method = "GET";
    request.path = path;
    request.query = std::move(query);
    request.host = "127.0.0.1:80";
    request.authorization = "Bearer " + key;
    return routes_->Answer(request);
  }

  PageReply Post(const std::string& body, const std::string& key = "key") {
    PageRequest request;
    request.method = "POST";
    request.path = "/api/control";
    request.host = "127.0.0.1:80";
    request.authorization = "Bearer " + key;
    request.content_type = "application/json";
    request.body = body;
    return routes_->Answer(request);
  }

  FakeSource* first_ = nullptr;
  FakeSource* second_ = nullptr;
  std::unique_ptr<PageRoutes> routes_;
};

TEST_F(PageRoutesTest, ThePageItselfWantsNoKeyAndHasNoFigures) {
  for (const char* path : {"/", "/page.js", "/page.css"}) {
    const PageReply reply = Get(path, "");
    EXPECT_EQ(reply.status, 200) << path;
    EXPECT_GT(reply.body->size(), 1000U) << path;
    EXPECT_EQ(reply.body->find("fashion"), std::string::npos) << path;
    EXPECT_EQ(reply.body->find("http://1"), std::string::npos) << path;
  }
  EXPECT_EQ(Get("/", "").type, "text/html; charset=utf-8");
  EXPECT_EQ(Get("/page.js", "").type, "text/javascript; charset=utf-8");
  EXPECT_EQ(*Get("/healthz", "").body, "ok\n");
}

/// Whatever came into a text from a worker or a job: it is put in as text.
TEST_F(PageRoutesTest, ThePagePutsNothingInAsHtml) {
  const std::string script = *Get("/page.js", "").body;
  for (const char* way :
       {"innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function"}) {
    EXPECT_EQ(script.find(way), std::string::npos) << way;
  }
  const std::string html = *Get("/", "").body;
  EXPECT_EQ(html.find("style="), std::string::npos);
  EXPECT_EQ(html.find("onclick"), std::string::npos);
  EXPECT_EQ(html.find("//"), html.find("//data"));  // no other host
}

TEST_F(PageRoutesTest, AllElseWantsTheKey) {
  for (const char* path : {"/metrics", "/api/runs", "/api/state", "/api/history", "/api/events"}) {
    EXPECT_EQ(Get(path, "").status, 401) << path;
    EXPECT_EQ(Get(path, "kez").status, 401) << path;
    EXPECT_EQ(Get(path).status, 200) << path;
  }
  EXPECT_EQ(Post(R"({"do":"pause"})", "").status, 401);
  EXPECT_EQ(first_->asked, 0);
  EXPECT_EQ(Get("/nothing", "").status, 401);
  EXPECT_EQ(Get("/nothing").status, 404);
}

TEST_F(PageRoutesTest, TellsTheStateOfARun) {
  const PageReply reply = Get("/api/state");
  const Result<JsonValue> json = ParseJson(*reply.body, "state");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->At("age_s")->text, "0.5");
  EXPECT_EQ(json->At("can_steer")->text, "true");
  EXPECT_EQ(json->At("run.name")->text, "fashion-mnist");
  EXPECT_EQ(json->At("run.plan.usd")->text, "3");
  EXPECT_THAT(*Get("/api/state", "key", {{"run", "b-2"}}).body, HasSubstr("\"can_steer\":false"));
  EXPECT_EQ(Get("/api/state", "key", {{"run", "c"}}).status, 404);
  EXPECT_EQ(*Get("/api/runs").body, R"([{"run":"a-1"},{"run":"b-2"}])");
  first_->now = {};
  EXPECT_EQ(Get("/api/state").status, 503);
  EXPECT_EQ(Get("/metrics").status, 503);
}

TEST_F(PageRoutesTest, TakesNumbersThatAreNone) {
  EXPECT_EQ(
      *Get("/api/history", "key", {{"after", "1.5"}, {"thinned", "2"}}).body,
      R"({"after":1.500000,"thinned":2})");
  EXPECT_EQ(
      *Get("/api/history", "key", {{"after", "x"}, {"thinned", "-1"}}).body,
      R"({"after":0.000000,"thinned":0})");
  EXPECT_THAT(*Get("/api/events", "key", {{"after", "7"}}).body, HasSubstr("\"number\":8"));
  EXPECT_THAT(*Get("/api/events", "key", {{"after", "7 "}}).body, HasSubstr("\"number\":1"));
}

TEST_F(PageRoutesTest, OrdersAreJsonByPost) {
  EXPECT_EQ(
      *Post(R"({"do":"pause"})").body, R"({"said":"training pauses after the steps in hand"})");
  EXPECT_EQ(first_->asked, 1);
  EXPECT_EQ(Get("/api/control").status, 405);
  PageRequest request;
  request.method = "POST";
  request.path = "/api/state";
  request.host = "127.0.0.1:80";
  request.authorization = "Bearer key";
  EXPECT_EQ(routes_->Answer(request).status, 405);
  request.path = "/api/control";
  request.content_type = "text/plain";  // what a form of another page can send
  request.body = R"({"do":"pause"})";
  EXPECT_EQ(routes_->Answer(request).status, 415);
  request.content_type = "application/json";
  request.host = "rebound.example:80";
  request.authorization = "";
  EXPECT_EQ(routes_->Answer(request).status, 421);
  request.authorization = "Bearer key";
  request.host = "127.0.0.1:80";
  request.origin = "http://evil.example";
  EXPECT_EQ(routes_->Answer(request).status, 403);
  request.origin = "";
  request.query = {{"run", "b-2"}};
  EXPECT_EQ(routes_->Answer(request).status, 409);
  EXPECT_EQ(first_->asked, 1);
  EXPECT_EQ(Post("{").status, 400);
  EXPECT_EQ(Post(R"({"do":"checkpoint"})").status, 503);
  EXPECT_EQ(*Post(R"({"do":"checkpoint"})").body, R"({"error":"not now"})");
}

}  // namespace
}  // namespace ps::run
