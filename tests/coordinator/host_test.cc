#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "ps/coordinator/coordinator_host.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/memory_storage.h"
#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

class Nobody final : public net::EndpointHandler {
 public:
  void OnConnected(proto::PeerId, const proto::Hello&) override {}

  void OnMessage(proto::PeerId, uint64_t, proto::Message&&) override {}

  void OnClosed(proto::PeerId, const Status&) override {}
};

/// A host whose fleet starts nothing, with a control file in a folder of the test's own.
class CoordinatorHostTest : public ::testing::Test {
 protected:
  CoordinatorHostTest() {
    options_.job = SmallJob();
    options_.job.config.fleet.max_detect_s = 0.5F;
    options_.job.config.run.listen = "127.0.0.1";
    options_.token = "secret";
    options_.control_path = folder_ / "control";
  }

  /// A server that never starts, however often it is tried, ends the job.
  void LoseAServer(CoordinatorHost* host) {
    for (int i = 0; i < 6; ++i) {
      host->OnProcessExited(
          {proto::ProcessKind::kServer,
           1,
           fleet_.NewestOf(proto::ProcessKind::kServer, 1),
           "exited with code 1",
           true,
           ""});
    }
  }

  TemporaryFolder folder_;
  CoordinatorHost::Options options_;
  FakeFleet fleet_;
  Nobody nobody_;
};

TEST_F(CoordinatorHostTest, ClosesOnlyWhenItsOwnerLetsGo) {
  CoordinatorHost host(options_, &NullLogger());
  ASSERT_TRUE(host.Listen().ok());
  host.loop().RunAfter({}, [&] { LoseAServer(&host); });
  int asked = 0;
  host.Run(
      {.fleet = &fleet_, .may_close = [&] { return ++asked == 3; }, .on_limit = {}, .on_wait = {}});
  EXPECT_EQ(asked, 3);
  EXPECT_TRUE(host.core().is_finished());
  EXPECT_EQ(host.core().exit_code(), 1);
  EXPECT_FALSE(host.limit_reached().has_value());
  EXPECT_FALSE(std::filesystem::exists(options_.control_path));
}

TEST_F(CoordinatorHostTest, EndsAtOnceWithoutAskingAnybody) {
  CoordinatorHost host(options_, &NullLogger());
  ASSERT_TRUE(host.Listen().ok());
  host.loop().RunAfter({}, [&] { host.EndAtOnce("told to"); });
  host.Run({.fleet = &fleet_, .may_close = [] { return false; }, .on_limit = {}, .on_wait = {}});
  EXPECT_EQ(fleet_.servers.size(), 2U);
  EXPECT_EQ(host.core().outcome().code(), StatusCode::kCancelled);
}

/// It ends in the middle of its work, and says nothing to anybody.
TEST_F(CoordinatorHostTest, EndsWhenAServerHasMetOneOfALaterTerm) {
  CoordinatorHost host(options_, &NullLogger());
  const Result<uint32_t> port = host.Listen();
  ASSERT_TRUE(port.ok()) << port.status();
  net::Endpoint server(&host.loop(), {}, &NullLogger(), &nobody_);
  proto::Term said = 0;
  const proto::Hello hello{proto::Role::kShard, "secret", "s0", Incarnation(), 2};
  host.loop().RunAfter({}, [&] {
    server.Connect("127.0.0.1", *port, hello, [&](const Result<proto::PeerId>& peer) {
      ASSERT_TRUE(peer.ok()) << peer.status();
      said = server.TermOf(*peer);
    });
  });
  host.Run({.fleet = &fleet_, .may_close = [] { return true; }, .on_limit = {}, .on_wait = {}});
  EXPECT_TRUE(host.core().is_outranked());
  EXPECT_FALSE(host.core().is_ending());
  EXPECT_LE(said, 1U);
}

TEST_F(CoordinatorHostTest, TheSecondRequestToStopChangesNothing) {
  CoordinatorHost host(options_, &NullLogger());
  ASSERT_TRUE(host.Listen().ok());
  host.loop().RunAfter({}, [&] {
    host.RequestStop("the first reason");
    host.RequestStop("the second reason");
    EXPECT_TRUE(host.is_stopping());
  });
  host.Run({.fleet = &fleet_, .may_close = [] { return true; }, .on_limit = {}, .on_wait = {}});
  EXPECT_EQ(host.core().outcome().message(), "the first reason");
}

/// Answers as it is told to, and notes what it was shown.
class ScriptedPolicy final : public proto::FleetPolicy {
 public:
  using Answer = std::function<proto::FleetDecision(const proto::PolicyView& view)>;

  explicit ScriptedPolicy(Answer answer) : answer_(std::move(answer)) {}

  proto::Asker asker() const override { return proto::Asker::kPolicy; }

  double look_every_s() const override { return 1e-3; }

  proto::FleetDecision Look(const proto::PolicyView& view) override { return answer_(view); }

 private:
  const Answer answer_;
};

TEST_F(CoordinatorHostTest, ItsPolicyIsAskedAndItsDecisionsAreTaken) {
  std::vector<proto::PolicyView> views;  // of the policy's thread, until Run has ended
  std::vector<std::string> lines;
  CoordinatorHost host(options_, &NullLogger());
  ASSERT_TRUE(host.Listen().ok());
  const std::string type = options_.job.config.workers.front().type;
  auto answer = [&](const proto::PolicyView& view) -> proto::FleetDecision {
    views.push_back(view);
    switch (views.size()) {
      case 1:
        return {
            .changes = {{.type = type, .count = 2}},
            .why = "two will do",
            .memory = proto::PolicyRecord{.available = {7}}};
      case 2:
        return {.changes = {{.type = "nothing", .count = 2}}, .why = "one that there is not"};
      case 3:
        return {.wants_newer_view = true};
      default:
        host.loop().Post([&] { host.EndAtOnce("seen enough"); }).Ignore("it ends anyway");
        return {};
    }
  };
  host.Run(
      {.fleet = &fleet_,
       .may_close = [] { return true; },
       .on_limit = {},
       .on_wait = {},
       .policy = std::make_unique<ScriptedPolicy>(answer),
       .on_decision = [&](const std::string& line) { lines.push_back(line); }});
  ASSERT_GE(views.size(), 4U);
  EXPECT_EQ(views[1].status.workers_wanted, 2U);
  EXPECT_EQ(views[1].memory.available, std::vector<uint32_t>{7});
  EXPECT_FALSE(views[1].was_refused);
  EXPECT_TRUE(views[2].was_refused);
  EXPECT_EQ(views[2].memory.available, std::vector<uint32_t>{7}) << "it stays";
  EXPECT_FALSE(views[3].was_refused);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0], "policy: two will do");
  EXPECT_EQ(lines[1], "policy: one that there is not");
  EXPECT_NE(lines[2].find("the policy's fleet was refused: "), std::string::npos);
}

TEST_F(CoordinatorHostTest, APolicyThatThinksForEverIsLeftToItself) {
  CoordinatorHost host(options_, &NullLogger());
  ASSERT_TRUE(host.Listen().ok());

  struct Gate {
    std::promise<void> asked;
    std::promise<void> open;
    std::promise<void> gone;
  };

  const auto gate = std::make_shared<Gate>();
  std::future<void> gone = gate->gone.get_future();
  auto answer = [gate](const proto::PolicyView& view) -> proto::FleetDecision {
    gate->asked.set_value();
    gate->open.get_future().wait();
    EXPECT_TRUE(view.is_ending());
    gate->gone.set_value();
    return {};
  };
  std::thread ender([&] {
    gate->asked.get_future().wait();
    host.loop().Post([&] { host.EndAtOnce("now"); }).Ignore("it is asked once");
  });
  host.Run(
      {.fleet = &fleet_,
       .may_close = [] { return true; },
       .on_limit = {},
       .on_wait = {},
       .policy = std::make_unique<ScriptedPolicy>(answer)});
  ender.join();
  EXPECT_TRUE(host.core().is_ending());
  gate->open.set_value();
  gone.wait();
}

TEST_F(CoordinatorHostTest, APlaceThatHoldsNoSocketIsNamedWithTheRemedy) {
  options_.control_path = folder_ / "missing/control";
  CoordinatorHost host(options_, &NullLogger());
  const Result<uint32_t> port = host.Listen();
  ASSERT_FALSE(port.ok());
  EXPECT_NE(port.status().message().find("run.directory"), std::string::npos) << port.status();
}

TEST_F(CoordinatorHostTest, AnAddressThatCannotBeListenedOnNamesTheFields) {
  options_.job.config.run.listen = "192.0.2.1";
  CoordinatorHost host(options_, &NullLogger());
  const Result<uint32_t> port = host.Listen();
  ASSERT_FALSE(port.ok());
  EXPECT_NE(port.status().message().find("run.listen"), std::string::npos) << port.status();
}

TEST_F(CoordinatorHostTest, AnotherHostGoesOnFromTheJournalAtTheSamePort) {
  checkpoint::MemoryStorage storage;
  options_.job.test_samples = 0;
  const auto open = [&] {
    auto journal = JobJournal::Open(storage, "journal", "boot", &NullLogger());
    PS_CHECK(journal.ok()) << journal.status();
    return std::move(journal).value();
  };
  std::vector<proto::EventRow> told;
  const auto tell = [&told](const proto::EventRow& event) { told.push_back(event); };
  uint32_t port = 0;
  {
    const std::unique_ptr<JobJournal> journal = open();
    options_.journal = journal.get();
    CoordinatorHost killed(options_, &NullLogger());
    port = killed.Listen().value();
    killed.loop().RunAfter({}, [&] { killed.loop().Stop(); });
    killed.Run(
        {.fleet = &fleet_,
         .may_close = [] { return true; },
         .on_limit = {},
         .on_wait = {},
         .on_event = tell});
    EXPECT_TRUE(killed.StatusNow().journal.is_on);
    EXPECT_EQ(killed.StatusNow().journal.restarts, 0U);
  }
  WriteFileAtomically(options_.control_path, "left by a process that was killed").Ignore("below");
  const std::vector<proto::EventRow> of_killed = std::exchange(told, {});
  ASSERT_FALSE(of_killed.empty());
  EXPECT_EQ(of_killed.front().code, proto::EventCode::kJobStarted);
  EXPECT_EQ(of_killed.front().number, 1U);
  EXPECT_GT(of_killed.front().unix_s, 0);
  const FakeFleet before = std::exchange(fleet_, FakeFleet());
  const auto launch_of = [&before](ProcessKind kind, uint32_t index) {
    return before.launches.at({kind, index}).back();
  };
  const std::unique_ptr<JobJournal> journal = open();
  options_.journal = journal.get();
  options_.recovered = journal->Recover().value();
  ASSERT_TRUE(options_.recovered.has_value());
  options_.recovered->launches = {
      {ProcessKind::kServer, 0, launch_of(ProcessKind::kServer, 0), 1, 1},
      {ProcessKind::kWorker, 2, launch_of(ProcessKind::kWorker, 2), 2, 1}};
  CoordinatorHost host(options_, &NullLogger());
  const Result<uint32_t> again = host.Listen();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, port);
  std::vector<uint32_t> started;
  host.loop().RunAfter({}, [&] {
    started = fleet_.servers;
    LoseAServer(&host);
  });
  host.Run(
      {.fleet = &fleet_,
       .may_close = [] { return true; },
       .on_limit = {},
       .on_wait = {},
       .on_event = tell});
  ASSERT_GT(told.size(), of_killed.size());
  EXPECT_TRUE(std::equal(of_killed.begin(), of_killed.end(), told.begin())) << "the journal has it";
  EXPECT_EQ(told[of_killed.size()].code, proto::EventCode::kJobResumed);
  EXPECT_EQ(told.back().code, proto::EventCode::kFinished);
  ASSERT_FALSE(host.StatusNow().events.empty());
  EXPECT_EQ(host.StatusNow().events.back(), told.back());
  EXPECT_EQ(host.StatusNow().journal.restarts, 1U);
  EXPECT_EQ(started, (std::vector<uint32_t>{1})) << "server 0 was started before";
  EXPECT_EQ(fleet_.workers.size(), 2U) << "so was worker 2";
  EXPECT_EQ(host.core().exit_code(), 1);
}

TEST_F(CoordinatorHostTest, AManifestThatTheJournalDoesNotKnowIsTheNewestCheckpoint) {
  options_.job.checkpoints = {{4, 2, 60}, {5, 2, 77}};
  options_.job.next_checkpoint = 6;
  RecoveredJob recovered;
  recovered.state = MakeJobState(options_.job);
  recovered.state.checkpoints.kept = {{3, 2, 40}, {4, 2, 60}};
  recovered.state.checkpoints.next = 5;
  recovered.state.checkpoints.committed = 4;
  options_.recovered = recovered;
  CoordinatorHost host(options_, &NullLogger());
  ASSERT_TRUE(host.Listen().ok());
  const proto::CheckpointsState now = host.core().StateAt(TimePoint()).checkpoints;
  EXPECT_EQ(now.kept, options_.job.checkpoints);
  EXPECT_EQ(now.next, 6U);
  EXPECT_EQ(now.committed, 5U);
}

}  // namespace
}  // namespace ps::coordinator
