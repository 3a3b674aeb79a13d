// Processes of every kind are killed every few seconds under load: the run goes on, its ledger is
// exact, and every checkpoint that it kept verifies. SPOTPS_SOAK_S makes it longer than half a
// minute in each mode.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "ps/base/random.h"
#include "tests/e2e/train_run.h"

namespace ps::e2e {
namespace {

constexpr int kSecondsByDefault = 30;
constexpr int kTrainSamples = 10000;
/// Three workers with steps of at least 20 ms count some more, as long as none is away. In bsp all
/// repeat what a lost server had not saved.
constexpr int kSamplesPerSecond = 4000;
constexpr int kSamplesPerSecondOfBsp = 2000;

int SoakSeconds() {
  const char* seconds = std::getenv("SPOTPS_SOAK_S");
  return seconds != nullptr ? std::atoi(seconds) : kSecondsByDefault;
}

struct Kills {
  int workers = 0;
  int servers = 0;
  int coordinators = 0;
};

/// Kills processes of a run, all of which are to come back by themselves.
class Killer {
 public:
  Killer(TrainRun* run, uint64_t seed) : run_(*run), random_(seed) {}

  /// One kill, when the run trains. False when it does not any more.
  bool KillOne();

  const Kills& kills() const { return kills_; }

 private:
  void KillWorker(const proto::JobStatus& status);

  TrainRun& run_;
  Random random_;
  Kills kills_;
  TimePoint coordinator_due_{};
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
}

class SoakTest : public E2eTest, public testing::WithParamInterface<std::string> {};

TEST_P(SoakTest, ARunOutlivesAnyOfItsProcesses) {
  const int per_second = GetParam() == "bsp" ? kSamplesPerSecondOfBsp : kSamplesPerSecond;
  const int epochs = std::max(SoakSeconds() * per_second / kTrainSamples, 1);
  job_.SetData(kTrainSamples, 1000)
      .Set(
          "train",
          R"({"minibatch": 32, "evaluate_every_epochs": 0, "epochs": )" + std::to_string(epochs) +
              R"(, "mode": ")" + GetParam() + R"("})")
      .Set("servers", R"({"count": 2})")
      .Set("workers", R"([{"count": 3, "step_ms": 20}])")
      .Set("fleet", R"({"max_detect_s": 2})")
      .Set("checkpoint", R"({"every_s": 1, "keep": 5})");
  const auto seed = static_cast<uint64_t>(SystemTime().UnixMicros());
  RecordProperty("seed", std::to_string(seed));
  std::cout << "seed " << seed << "\n";
  TrainRun run(job_, {.is_replacing = true});
  Killer killer(&run, seed);
  const TimePoint end = SystemTime().Now() + std::chrono::seconds(SoakSeconds());
  while (SystemTime().Now() < end && killer.KillOne()) {
  }
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  run.ExpectNothingLeft();
  run.ExpectExactLedger();

  const Kills& kills = killer.kills();
  const Json summary = run.Summary();
  EXPECT_EQ(summary["state"].text(), "done");
  EXPECT_GT(summary["test_accuracy"].number(), 0.5);
  Process::Options verify;
  verify.program = "psctl";
  verify.arguments = {"checkpoint", "verify", "--all", run.Root()};
  verify.output_stem = job_.folder() + "/verify";
  const Output verified = RunToEnd(verify, kRunPatience);
  EXPECT_EQ(verified.end, ProcessEnd{}) << verified.err << verified.out;
  std::cout << kills.workers << " workers, " << kills.servers << " servers, " << kills.coordinators
            << " coordinators killed; " << summary["samples_counted"].number()
            << " samples counted, accuracy " << summary["test_accuracy"].number() << "\n";
}

INSTANTIATE_TEST_SUITE_P(Modes, SoakTest, testing::Values("async", "bsp"), [](const auto& suite) {
  return suite.param;
});

}  // namespace
}  // namespace ps::e2e
