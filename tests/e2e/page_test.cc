// The status page of real runs, without a browser: tests/run/page has those with one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "tests/e2e/support/train_run.h"
#include "tests/run/page/raw_http.h"

namespace ps::e2e {
namespace {

using testing::HasSubstr;

/// Where a page is served.
struct Place {
  uint32_t port = 0;
  std::string key;
};

class PageTest : public E2eTest {
 protected:
  PageTest() {
    job_.SetEndless()
        .SetData(60000, 1000)
        .Set("workers", R"([{"count": 3, "type": "spot", "step_ms": 50, "usd_per_hour": 2}])")
        .Set("checkpoint", R"({"enabled": true, "every_s": 1000})");
  }

  static std::optional<Place> PlaceOf(std::string link) {
    const size_t port = link.rfind(':');
    const size_t key = link.find("/#");
    if (!link.starts_with("http://127.0.0.1:") || key == std::string::npos) {
      return std::nullopt;
    }
    link.erase(link.find_last_not_of('\n') + 1);
    return Place{
        static_cast<uint32_t>(std::strtoul(link.c_str() + port + 1, nullptr, 10)),
        link.substr(key + 2)};
  }

  static Json Get(const Place& place, const std::string& path) {
    const run::RawReply reply = run::Fetch(place.port, path, place.key);
    EXPECT_EQ(reply.status, 200) << path << ": " << reply.body;
    return Json::Parse(reply.body).value_or(Json());
  }

  static std::string Order(const Place& place, const std::string& body) {
    return run::Fetch(place.port, "/api/control", place.key, body).body;
  }

  /// Whether something that has this in it comes to be told of the run.
  static bool IsTold(const Place& place, const std::string& path, const std::string& text) {
    return WaitUntil([&] { return Contains(run::Fetch(place.port, path, place.key).body, text); });
  }
};

TEST_F(PageTest, ShowsALostWorkerAndTakesOrders) {
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(64).has_value());
  const std::optional<Place> place = PlaceOf(ReadText(run.Root() + "/page.link"));
  ASSERT_TRUE(place.has_value());

  struct stat about {};

  for (const char* file : {"/page.link", "/page.key"}) {
    ASSERT_EQ(::stat((run.Root() + file).c_str(), &about), 0) << file;
    EXPECT_EQ(about.st_mode & 0777, 0600U) << file;
  }
  EXPECT_EQ(ReadText(run.Root() + "/page.key"), place->key + "\n");
  EXPECT_THAT(Psctl({"status", run.Root()}).out, HasSubstr("page: http://127.0.0.1:"));
  // A log may be read by others.
  EXPECT_FALSE(Contains(run.psctl().Err(), place->key));
  EXPECT_THAT(run.psctl().Err(), HasSubstr("psctl page " + job_.name()));

  const Json state = Get(*place, "/api/state");
  EXPECT_EQ(state["run"]["state"].text(), "training");
  EXPECT_EQ(state["run"]["fleet"]["alive"].number(), 3);
  EXPECT_GT(state["run"]["usd_per_hour"].number(), 0);
  EXPECT_TRUE(IsTold(*place, "/api/history", "\"rows\":[["));
  EXPECT_EQ(run::Fetch(place->port, "/api/state", "").status, 401);
  EXPECT_EQ(run::Fetch(place->port, "/healthz", "").body, "ok\n");

  const auto status = run.Status();
  ASSERT_TRUE(status.has_value() && !Alive(*status).empty());
  ASSERT_EQ(::kill(static_cast<pid_t>(Alive(*status).front().pid), SIGKILL), 0);
  EXPECT_TRUE(IsTold(*place, "/api/state", "\"state\":\"lost\""));
  EXPECT_TRUE(IsTold(*place, "/api/events", "\"kind\":\"revocation\""));
  EXPECT_TRUE(IsTold(*place, "/metrics", "notice=\"no\"} 1\n"));

  EXPECT_THAT(Order(*place, R"({"do":"pause"})"), HasSubstr("training pauses"));
  EXPECT_TRUE(IsTold(*place, "/api/state", "\"state\":\"paused\""));
  EXPECT_THAT(Order(*place, R"({"do":"continue"})"), HasSubstr("training goes on"));
  EXPECT_TRUE(IsTold(*place, "/api/state", "\"state\":\"training\""));
  // Pausing has written one.
  EXPECT_TRUE(WaitUntil(
      [&] { return Contains(Order(*place, R"({"do":"checkpoint"})"), "is being written"); }));
  EXPECT_TRUE(IsTold(*place, "/api/events", "\"kind\":\"checkpoint\""));
  EXPECT_THAT(
      Order(*place, R"({"do":"scale","type":"spot","workers":2})"),
      HasSubstr("2 workers and 2 servers are wanted now"));
  EXPECT_TRUE(IsTold(*place, "/api/state", "\"wanted\":2"));
  EXPECT_THAT(Order(*place, R"({"do":"drain","worker":77})"), HasSubstr("error"));
  EXPECT_THAT(Order(*place, R"({"do":"mode","mode":"ssp:4"})"), HasSubstr("ssp:4"));
  EXPECT_TRUE(IsTold(*place, "/api/state", "\"mode\":\"ssp:4\""));
  EXPECT_THAT(Psctl({"events", run.Root()}).out, HasSubstr("asked by psctl"));
  EXPECT_THAT(Order(*place, R"({"do":"stop"})"), HasSubstr("the run ends"));
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  ExpectConsistentLedger(run.Summary());
  run.ExpectNothingLeft();
  EXPECT_EQ(ReadText(run.Root() + "/page.link"), "");
  EXPECT_EQ(ReadText(run.Root() + "/page.key"), "");
}

TEST_F(PageTest, ComesBackWithTheCoordinatorAtTheSameLink) {
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(64).has_value());
  const std::string link = ReadText(run.Root() + "/page.link");
  const std::optional<Place> place = PlaceOf(link);
  ASSERT_TRUE(place.has_value());
  ASSERT_TRUE(IsTold(*place, "/api/history", "\"rows\":[["));
  const Json before = Get(*place, "/api/history");
  const double begin = before["rows"][0][0].number();
  ASSERT_EQ(::kill(static_cast<pid_t>(run.CoordinatorPid()), SIGKILL), 0);
  EXPECT_TRUE(IsTold(*place, "/api/state", "\"coordinator_restarts\":1"));
  EXPECT_EQ(ReadText(run.Root() + "/page.link"), link);
  EXPECT_EQ(Get(*place, "/api/history")["rows"][0][0].number(), begin);
  EXPECT_TRUE(IsTold(*place, "/api/events", "\"number\":1,"));
  StopCleanly(&run);
}

TEST_F(PageTest, ARunGoesOnWithoutItsPage) {
  TrainRun first(job_);
  ASSERT_TRUE(first.WaitForSamples(64).has_value());
  const std::optional<Place> taken = PlaceOf(ReadText(first.Root() + "/page.link"));
  ASSERT_TRUE(taken.has_value());
  const TemporaryFolder folder;
  const std::string port = std::to_string(taken->port);
  TrainRun second(
      job_.CopyIn(folder.path()), {.arguments = {"--set", "run.page=127.0.0.1:" + port}});
  ASSERT_TRUE(second.WaitForSamples(64).has_value());
  EXPECT_THAT(
      second.psctl().Err(),
      HasSubstr("page   none: cannot listen at 127.0.0.1:" + port + ": Address already in use"));
  const Output page = Psctl({"page", second.Root()});
  EXPECT_EQ(page.end.code, 1);
  EXPECT_THAT(page.err, HasSubstr("serves no page"));
  StopCleanly(&second);
  const TemporaryFolder third_folder;
  TrainRun third(job_.CopyIn(third_folder.path()), {.arguments = {"--set", "run.page=off"}});
  ASSERT_TRUE(third.WaitForSamples(64).has_value());
  EXPECT_FALSE(Contains(third.psctl().Err(), "\npage "));
  EXPECT_EQ(ReadText(third.Root() + "/page.link"), "");
  StopCleanly(&third);
  StopCleanly(&first);
}

TEST_F(PageTest, ShowsEndedRunsSideBySide) {
  job_.Set("train", R"({"epochs": 1, "minibatch": 64})").SetData(2048, 500);
  TrainRun run(job_);
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  TrainRun again(job_);
  EXPECT_EQ(again.WaitForEnd(), ProcessEnd{});
  Process page(
      {.program = "psctl",
       .arguments = {"page"},
       .directory = job_.folder(),
       .output_stem = folder_ / "page"});
  ASSERT_TRUE(WaitUntil([&] { return page.Out().ends_with("\n"); })) << page.Err();
  const std::optional<Place> place = PlaceOf(page.Out());
  ASSERT_TRUE(place.has_value()) << page.Out();
  EXPECT_THAT(page.Err(), HasSubstr("ssh -N -L " + std::to_string(place->port)));
  // Runs of other tests that go on meanwhile are there, too.
  const Json runs = Get(*place, "/api/runs");
  size_t shown = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string id = runs[i]["run"].text();
    const Json state = Get(*place, "/api/state?run=" + id);
    if (!state["run"]["run_directory"].text().starts_with(job_.runs())) {
      continue;
    }
    ++shown;
    EXPECT_EQ(state["run"]["state"].text(), "done");
    EXPECT_EQ(state["run"]["samples_counted"].number(), 2048);
    EXPECT_GT(Get(*place, "/api/history?run=" + id)["rows"].size(), 0U);
    EXPECT_GT(Get(*place, "/api/events?run=" + id).size(), 3U);
  }
  EXPECT_EQ(shown, 2U);
  EXPECT_EQ(run::Fetch(place->port, "/api/control", place->key, R"({"do":"stop"})").status, 409);
  page.Signal(SIGINT);
  EXPECT_EQ(page.Wait(), ProcessEnd{});
}

/// A Prometheus as people run it reads a run's figures.
TEST_F(PageTest, PrometheusScrapesIt) {
  if (std::system("command -v prometheus > /dev/null") != 0) {
    GTEST_SKIP() << "prometheus is not installed (scripts/setup.sh --tests installs it)";
  }
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(64).has_value());
  const std::optional<Place> place = PlaceOf(ReadText(run.Root() + "/page.link"));
  ASSERT_TRUE(place.has_value());
  WriteText(
      folder_ / "prometheus.yml",
      "global: {scrape_interval: 200ms}\nscrape_configs:\n- job_name: spotps\n"
      "  authorization: {credentials_file: " +
          run.Root() + "/page.key}\n  static_configs: [{targets: ['127.0.0.1:" +
          std::to_string(place->port) + "']}]\n");
  // A free port: the one of a listener that is gone.
  uint32_t port = 0;
  {
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
  }
  const Process prometheus(
      {.program = "/usr/bin/prometheus",
       .arguments =
           {"--config.file=" + (folder_ / "prometheus.yml"),
            "--storage.tsdb.path=" + (folder_ / "tsdb"),
            "--web.listen-address=127.0.0.1:" + std::to_string(port)},
       .directory = folder_.path(),
       .output_stem = folder_ / "prometheus"});
  std::string answer;
  EXPECT_TRUE(WaitUntil([&] {
    answer = run::Fetch(port, "/api/v1/query?query=spotps_samples_counted_total", "").body;
    const auto json = Json::Parse(answer);
    return json.has_value() && json->Has("data") && (*json)["data"]["result"].size() == 1 &&
           std::strtod((*json)["data"]["result"][0]["value"][1].text().c_str(), nullptr) >= 64;
  })) << answer
      << prometheus.Err();
  EXPECT_THAT(answer, HasSubstr("\"job_name\":\"" + job_.name() + "\""));
  StopCleanly(&run);
}

}  // namespace
}  // namespace ps::e2e
