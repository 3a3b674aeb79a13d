// The status page in a headless Chromium. PS_SCREENSHOTS=FOLDER keeps pictures of it,
// PS_BROWSER_LOOKS=N makes MemoryDoesNotGrow look so often (3600: an hour's looks).

#include "tests/run/page/browser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "run/page/http_server.h"
#include "run/page/page_board.h"
#include "run/page/page_routes.h"
#include "tests/e2e/support/train_run.h"
#include "tests/run/sample_status.h"

namespace ps::run {
namespace {

using e2e::Alive;
using e2e::ReadText;
using e2e::TrainRun;

/// The page's own and no others were asked for, and nothing that came from a run became HTML.
void ExpectOwnRequestsAlone(Browser* browser) {
  EXPECT_EQ(
      browser
          ->Run("return performance.getEntriesByType('resource').filter("
                "e => !e.name.startsWith(location.origin) && !e.name.startsWith('data:')).length")
          .number(),
      0);
  EXPECT_EQ(browser->Run("return document.images.length + document.scripts.length").number(), 1);
}

class BrowserTest : public e2e::E2eTest {
 protected:
  void SetUp() override {
    if (const std::string why = Browser::WhyNot(); !why.empty()) {
      GTEST_SKIP() << why;
    }
    E2eTest::SetUp();
    browser_ = Browser::Start(folder_.path());
    ASSERT_NE(browser_, nullptr);
  }

  std::string Text(const std::string& selector) {
    return browser_->Run("return document.querySelector('" + selector + "').innerText").text();
  }

  bool Shows(const std::string& selector, const std::string& text) {
    return browser_->Becomes(
        "document.querySelector('" + selector + "').innerText.includes('" + text + "')");
  }

  std::unique_ptr<Browser> browser_;
};

TEST_F(BrowserTest, FollowsARunAndSteersIt) {
  job_.SetEndless()
      .SetData(60000, 1000)
      // A name that would be a picture whose absence runs a script.
      .Set(
          "workers",
          R"([{"count": 4, "type": "<img src=x onerror=document.title=1>", "step_ms": 40,)"
          R"( "usd_per_hour": 2}])")
      .Set("checkpoint", R"({"enabled": true, "every_s": 1000})");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(64).has_value());
  browser_->Open(ReadText(run.Root() + "/page.link"));
  ASSERT_TRUE(Shows("#state", "training"));
  std::cout
      << "first load: "
      << browser_->Run("return performance.getEntriesByType('navigation')[0].loadEventEnd").number()
      << " ms\n";
  EXPECT_EQ(Text("#name"), job_.name());
  EXPECT_TRUE(
      browser_->Becomes("document.querySelectorAll('#workers-table tbody tr').length == 4"));
  // Live: what is counted grows, and so does the curve.
  browser_->Run("window.was = document.querySelector('#counted').innerText");
  EXPECT_TRUE(browser_->Becomes("document.querySelector('#counted').innerText != window.was"));
  EXPECT_TRUE(browser_->Becomes(
      "document.querySelector('#charts path.series').getAttribute('d').split('L').length > 3"));
  browser_->TakePicture("live");

  const auto status = run.Status();
  ASSERT_TRUE(status.has_value() && !Alive(*status).empty());
  ASSERT_EQ(::kill(static_cast<pid_t>(Alive(*status).front().pid), SIGKILL), 0);
  EXPECT_TRUE(Shows("#workers-table", "lost"));
  EXPECT_TRUE(Shows("#events", "killed by signal 9"));
  browser_->TakePicture("lost");

  browser_->Click("#do-pause");
  ASSERT_TRUE(browser_->Becomes("document.querySelector('#sure').open"));
  browser_->Click("#sure-no");
  EXPECT_TRUE(browser_->Becomes("!document.querySelector('#sure').open"));
  EXPECT_EQ(Text("#said"), "");
  browser_->Click("#do-pause");
  ASSERT_TRUE(browser_->Becomes("document.querySelector('#sure').open"));
  browser_->TakePicture("sure");
  browser_->Click("#sure-yes");
  EXPECT_TRUE(Shows("#said", "training pauses"));
  EXPECT_TRUE(Shows("#state", "paused"));
  EXPECT_TRUE(Shows("#do-pause", "Continue"));
  browser_->Click("#do-pause");
  EXPECT_TRUE(Shows("#state", "training"));
  browser_->Click("#workers-table tbody tr:first-child button");
  ASSERT_TRUE(browser_->Becomes("document.querySelector('#sure').open"));
  browser_->Click("#sure-yes");
  EXPECT_TRUE(Shows("#said", "hands over and leaves"));
  EXPECT_TRUE(Shows("#workers-table", "left"));
  ExpectOwnRequestsAlone(browser_.get());

  browser_->Click("#do-stop");
  ASSERT_TRUE(browser_->Becomes("document.querySelector('#sure').open"));
  browser_->Click("#sure-yes");
  EXPECT_EQ(run.WaitForEnd(), e2e::ProcessEnd{});
  EXPECT_TRUE(browser_->Becomes("!document.querySelector('#trouble').hidden"));
  EXPECT_TRUE(Shows("#trouble", "psctl page"));
}

TEST_F(BrowserTest, AWrongKeyShowsWhereTheRightOneIs) {
  job_.SetEndless();
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(64).has_value());
  const std::string link = ReadText(run.Root() + "/page.link");
  browser_->Open(link.substr(0, link.find('#')) + "#wrong");
  EXPECT_TRUE(Shows("#trouble", "psctl page"));
  EXPECT_EQ(Text("#tiles"), "");
  StopCleanly(&run);
}

/// A fleet that no test machine holds, served as a coordinator would.
class LargePageTest : public BrowserTest {
 protected:
  void SetUp() override {
    BrowserTest::SetUp();
    if (browser_ == nullptr) {
      return;
    }
    PageBoard::Options options;
    options.plan = R"({"usd":30,"usd_low":25,"usd_high":40,"seconds":7200,"seconds_low":6500,)"
                   R"("seconds_high":9000,"loss_target":0.3})";
    options.steering.ask = [](const proto::Message& /*request*/) -> Result<proto::Message> {
      return proto::Message(proto::PauseReply{});
    };
    options.steering.checkpoint_now = []() -> Result<uint64_t> { return uint64_t{1}; };
    options.wait_max = Duration::zero();
    auto board = std::make_unique<PageBoard>(std::move(options));
    board_ = board.get();
    std::vector<PageRun> runs;
    runs.push_back({"large", std::move(board)});
    const auto routes = std::make_shared<PageRoutes>(std::move(runs), "key", "spotps");
    auto server = HttpServer::Start({"127.0.0.1", 0}, {}, [routes](const PageRequest& request) {
      return routes->Answer(request);
    });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(server).value();
    PutUp(10'000);
    browser_->Open(PageLink(server_->address(), "key"));
  }

  void TearDown() override {
    browser_.reset();
    server_.reset();
  }

  void PutUp(uint32_t workers) {
    proto::JobStatus status = MakeStatus();
    status.workers.clear();
    status.modes = {};
    status.mode = proto::Mode::kAsync;
    status.usd_spent = 12.5;
    status.usd_per_hour = 310;
    status.workers_wanted = workers;
    status.samples_per_s = 812.0 * workers;
    for (uint32_t i = 0; i < workers; ++i) {
      proto::WorkerRow row = MakeWorkerRow(i, i + 1, proto::WorkerRowState::kComputing);
      row.type = i % 3 == 0 ? "g5.xlarge" : "g4dn.xlarge";
      row.stats.samples_per_s = 700 + (i * 7919) % 300;
      row.host = "10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250);
      row.usd_per_hour = 0.31;
      status.workers.push_back(std::move(row));
    }
    status.workers[1234].silent_s = 2.5;
    status.workers[77].state = proto::WorkerRowState::kLost;
    status.workers[77].reason = "killed by signal 9";
    status.checkpoints.is_on = true;
    status.checkpoints.newest = 12;
    status.checkpoints.committed = 12;
    status.checkpoints.age_s = 42;
    status.fleet = {
        {.type = "g5.xlarge", .wanted = 3334, .present = 3334},
        {.type = "g4dn.xlarge",
         .wanted = 6666,
         .present = 6665,
         .waiting = 1,
         .wait_s = 30,
         .why = "zone b: 2 failures"}};
    status.servers.count = status.servers.wanted = 2;
    board_->PutUp(std::move(status), Duration::zero(), SystemTime().Now());
    for (int i = 0; i < 400; ++i) {
      HistoryPoint point;
      point.unix_s = 1.7e9 + points_;
      point.elapsed_s = points_;
      point.train_loss = 2.3 / (1 + 0.01 * points_) + 0.02 * ((points_ * 37) % 11);
      point.train_accuracy = 1 - 1 / (1.2 + 0.01 * points_);
      point.test_loss = 0.1 + 2.3 / (1 + 0.01 * (points_ / 60) * 60);
      point.test_accuracy = 1 - 1 / (1.3 + 0.009 * (points_ / 60) * 60);
      point.samples_per_s = 8e6 + 1e5 * ((points_ * 13) % 17);
      point.workers = static_cast<double>(workers) - (points_ / 40) % 7;
      point.usd_spent = 0.03 * points_;
      board_->AddPoint(point);
      ++points_;
    }
  }

  PageBoard* board_ = nullptr;
  std::unique_ptr<HttpServer> server_;
  int points_ = 0;
};

TEST_F(LargePageTest, ShowsTenThousandWorkersInAFewRows) {
  ASSERT_TRUE(Shows("#state", "training"));
  EXPECT_TRUE(Shows("#tiles", "9,999"));
  EXPECT_TRUE(Shows("#tiles", "of 10,000"));
  EXPECT_TRUE(
      browser_->Becomes("document.querySelectorAll('#workers-table tbody tr').length == 20"));
  EXPECT_TRUE(Shows("#workers-table tbody tr:first-child", "1234"));
  EXPECT_TRUE(Shows("#workers-table", "lost"));
  EXPECT_TRUE(Shows("#workers-title", "9,980 more"));
  EXPECT_TRUE(Shows("#types-table", "zone b"));
  EXPECT_LT(browser_->Run("return document.querySelectorAll('*').length").number(), 1500);
  ExpectOwnRequestsAlone(browser_.get());
}

TEST_F(LargePageTest, FitsLightDarkAndPhone) {
  ASSERT_TRUE(Shows("#state", "training"));
  const auto background = [&] {
    return browser_->Run("return getComputedStyle(document.body).backgroundColor").text();
  };
  const auto fits = [&](const std::string& name) {
    EXPECT_TRUE(browser_->Becomes("document.documentElement.dataset.looks >= 2")) << name;
    EXPECT_TRUE(browser_->Becomes("document.documentElement.scrollWidth <= window.innerWidth"))
        << name;
    browser_->TakePicture(name);
  };
  const std::string light = background();
  fits("light");
  browser_->Command(
      "Emulation.setEmulatedMedia",
      R"({"features":[{"name":"prefers-color-scheme","value":"dark"}]})");
  EXPECT_NE(background(), light);
  fits("dark");
  browser_->Command(
      "Emulation.setDeviceMetricsOverride",
      R"({"width":390,"height":844,"deviceScaleFactor":2,"mobile":true})");
  fits("phone-dark");
  browser_->Command("Emulation.setEmulatedMedia", R"({"features":[]})");
  EXPECT_EQ(background(), light);
  fits("phone");
  // Buttons that a thumb hits.
  EXPECT_GE(
      browser_->Run("return document.querySelector('#do-stop').getBoundingClientRect().height")
          .number(),
      40);
}

TEST_F(LargePageTest, MemoryDoesNotGrow) {
  ASSERT_TRUE(Shows("#state", "training"));
  const char* const wanted = std::getenv("PS_BROWSER_LOOKS");
  const int looks = wanted == nullptr ? 240 : std::atoi(wanted);
  browser_->Command("Performance.enable");
  const auto measure = [&](const std::string& name) {
    browser_->Command("HeapProfiler.collectGarbage");
    const e2e::Json metrics = browser_->Command("Performance.getMetrics")["metrics"];
    for (size_t i = 0; i < metrics.size(); ++i) {
      if (metrics[i]["name"].text() == name) {
        return metrics[i]["value"].number();
      }
    }
    ADD_FAILURE() << name;
    return 0.0;
  };
  uint64_t event = 0;
  const auto look = [&](int times) {
    for (int done = 0; done < times; done += 60) {
      PutUp(1300 + static_cast<uint32_t>(event % 50));
      for (int i = 0; i < 200; ++i) {
        proto::EventRow row;
        row.number = ++event;
        row.unix_s = 1.7e9 + static_cast<double>(event);
        row.text = "worker " + std::to_string(event) + " joined from somewhere";
        board_->AddEvent(row);
      }
      browser_->Run(
          "const end = arguments[arguments.length - 1];"
          "(async () => { for (let i = 0; i < 60; ++i) await look(); end(1); })();",
          true);
    }
  };
  look(looks / 2);  // until all bounds are reached
  const double heap = measure("JSHeapUsedSize");
  const double nodes = measure("Nodes");
  look(looks / 2);
  const double heap_after = measure("JSHeapUsedSize");
  const double nodes_after = measure("Nodes");
  std::cout << "heap " << heap << " to " << heap_after << " bytes, nodes " << nodes << " to "
            << nodes_after << ", " << looks << " looks\n";
  EXPECT_LT(heap_after, heap + (1 << 20));
  EXPECT_LT(nodes_after, nodes + 200);
}

}  // namespace
}  // namespace ps::run
