// Processes of every kind are killed every few seconds under load: the run goes on, its ledger is
// exact, and every checkpoint that it kept verifies. SPOTPS_SOAK_S makes it longer than half a
// minute in each mode.

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "ps/base/random.h"
#include "tests/e2e/train_run.h"

namespace ps::e2e {
namespace {

constexpr int kSecondsByDefault = 30;

Duration SoakTime() {
  const char* seconds = std::getenv("SPOTPS_SOAK_S");
  return std::chrono::seconds(seconds != nullptr ? std::atoi(seconds) : kSecondsByDefault);
}

struct Kills {
  int workers = 0;
  int servers = 0;
  int coordinators = 0;
};

/// Kills processes of a run, and starts another worker for each that it has killed: nobody else
/// does. Servers and the coordinator are to come back by themselves.
class Killer {
 public:
  Killer(TrainRun* run, uint64_t seed) : run_(*run), random_(seed) {}

  /// One kill, when the run trains. False when it does not come to that, which is a failure.
  bool KillOne();

  const Kills& kills() const { return kills_; }

 private:
  void KillWorker(const proto::JobStatus& status);

  TrainRun& run_;
  Random random_;
  Kills kills_;
  TimePoint coordinator_due_{};
  std::vector<std::unique_ptr<Process>> started_;
};

bool Killer::KillOne() {
  // The last kill has not stopped it. Where all go back, counted samples become fewer first.
  uint64_t samples = 0;
  const auto status = run_.WaitFor([&samples](const proto::JobStatus& s) {
    if (s.state != "training" || samples == 0 || s.samples_counted < samples) {
      samples = s.samples_counted;
      return false;
    }
    return s.samples_counted > samples;
  });
  if (!status.has_value()) {
    ADD_FAILURE() << "the run ended, or stands still, after " << kills_.workers << " workers, "
                  << kills_.servers << " servers and " << kills_.coordinators
                  << " coordinators were killed\n"
                  << run_.psctl().Err();
    return false;
  }
  const Duration more = std::chrono::milliseconds(500 + random_.Below(2500));
  WaitUntil([this] { return !run_.psctl().IsRunning(); }, more);
  switch (random_.Below(4)) {
    case 0: {
      const auto& shard = status->shards[random_.Below(status->shards.size())];
      if (shard.pid > 0) {
        ::kill(static_cast<pid_t>(shard.pid), SIGKILL);
        ++kills_.servers;
      }
      break;
    }
    case 1: {
      // One that lives for a while each time is started again for ever.
      const int64_t pid = run_.CoordinatorPid();
      if (pid > 0 && SystemTime().Now() >= coordinator_due_) {
        ::kill(static_cast<pid_t>(pid), SIGKILL);
        ++kills_.coordinators;
        coordinator_due_ = SystemTime().Now() + std::chrono::seconds(11);
      }
      break;
    }
    default:
      KillWorker(*status);
  }
  return true;
}

void Killer::KillWorker(const proto::JobStatus& status) {
  const std::vector<proto::WorkerRow> alive = Alive(status);
  if (!alive.empty()) {
    ::kill(static_cast<pid_t>(alive[random_.Below(alive.size())].pid), SIGKILL);
    ++kills_.workers;
  }
  started_.push_back(run_.StartWorker());
}

class SoakTest : public E2eTest, public testing::WithParamInterface<std::string> {};

TEST_P(SoakTest, ARunOutlivesAnyOfItsProcesses) {
  job_.SetData(20000, 1000)
      .Set(
          "train",
          R"({"epochs": 10000, "minibatch": 32, "evaluate_every_epochs": 0, "mode": ")" +
              GetParam() + R"("})")
      .Set("servers", R"({"count": 2})")
      .Set("workers", R"([{"count": 3, "step_ms": 20}])")
      .Set("fleet", R"({"max_detect_s": 2})")
      .Set("checkpoint", R"({"every_s": 1, "keep": 5})");
  const auto seed = static_cast<uint64_t>(SystemTime().UnixMicros());
  RecordProperty("seed", std::to_string(seed));
  std::cout << "seed " << seed << "\n";
  TrainRun run(job_);
  Killer killer(&run, seed);
  const TimePoint end = SystemTime().Now() + SoakTime();
  while (SystemTime().Now() < end && killer.KillOne()) {
  }
  const auto status = run.WaitFor([](const proto::JobStatus& s) { return s.state == "training"; });
  ASSERT_TRUE(status.has_value()) << run.psctl().Err();
  const std::string root = run.Root();
  Process::Options stop;
  stop.program = "psctl";
  stop.arguments = {"stop", root};
  stop.output_stem = job_.folder() + "/stop";
  EXPECT_EQ(RunToEnd(stop).end, ProcessEnd{});
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  run.ExpectNothingLeft();

  const Kills& kills = killer.kills();
  const Json summary = run.Summary();
  EXPECT_EQ(summary["state"].text(), "stopped");
  for (const auto& row : status->ledger) {
    EXPECT_LE(row.samples_counted + row.samples_leased, row.samples_total) << row.epoch;
  }
  Process::Options verify = stop;
  verify.arguments = {"checkpoint", "verify", "--all", root};
  verify.output_stem = job_.folder() + "/verify";
  const Output verified = RunToEnd(verify, kRunPatience);
  EXPECT_EQ(verified.end, ProcessEnd{}) << verified.err << verified.out;
  std::cout << kills.workers << " workers, " << kills.servers << " servers, " << kills.coordinators
            << " coordinators killed; " << summary["samples_counted"].number()
            << " samples counted\n";
}

INSTANTIATE_TEST_SUITE_P(Modes, SoakTest, testing::Values("async", "bsp"), [](const auto& suite) {
  return suite.param;
});

}  // namespace
}  // namespace ps::e2e
