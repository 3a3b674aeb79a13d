// Processes of every kind are killed and frozen under load, the disk fills up, the network is cut:
// the run goes on, its ledger is exact, and every checkpoint that it kept verifies.
// SPOTPS_SOAK_S makes it longer than half a minute in each mode; SPOTPS_SOAK_SEED repeats choices.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ps/base/random.h"
#include "tests/e2e/support/machine.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using std::chrono::milliseconds;

constexpr int kSecondsByDefault = 30;
constexpr int kTrainSamples = 10000;
/// Three workers with steps of at least 20 ms count some more, as long as none is away. In bsp all
/// repeat what a lost server had not saved.
constexpr int kSamplesPerSecond = 4000;
constexpr int kSamplesPerSecondOfBsp = 2000;
/// fleet.max_detect_s: who is frozen or cut off for longer is lost.
constexpr int kDetectMs = 2000;

int64_t Setting(const char* name, int64_t otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::atoll(value) : otherwise;
}

int SoakSeconds() {
  return static_cast<int>(Setting("SPOTPS_SOAK_S", kSecondsByDefault));
}

/// Disturbs a run that is to go on by itself.
class Disturber {
 public:
  struct World {
    std::string disk;          // the folder whose disk may be filled; "": no disk of its own
    bool has_network = false;  // of its own, which may be cut
  };

  Disturber(TrainRun* run, World world, uint64_t seed)
      : run_(*run), world_(std::move(world)), random_(seed) {}

  /// One disturbance, when the run trains. False when it does not any more.
  bool DisturbOnce();

  const std::map<std::string, int>& done() const { return done_; }

 private:
  struct Victim {
    int64_t pid = 0;   // 0: there is none of this kind now
    std::string kind;  // "workers"
  };

  Victim Choose(const proto::JobStatus& status);
  void Kill(const proto::JobStatus& status);
  /// For less or for more than it takes to be declared lost.
  void FreezeOne(const proto::JobStatus& status);

  /// While something is wrong. Ends early with the run.
  void Wait(Duration time) {
    WaitUntil([this] { return !run_.psctl().IsRunning(); }, time);
  }

  Duration Between(int from_ms, int to_ms) {
    return milliseconds(
        from_ms + static_cast<int64_t>(random_.Below(static_cast<uint64_t>(to_ms - from_ms))));
  }

  int64_t SomeWorker(const proto::JobStatus& status);
  int64_t SomeServer(const proto::JobStatus& status);
  /// 0 when the last one was not long ago: one that lives for a while each time is started again
  /// for ever.
  int64_t CoordinatorIfDue();

  void DelayCoordinator() { coordinator_due_ = SystemTime().Now() + std::chrono::seconds(11); }

  TrainRun& run_;
  const World world_;
  Random random_;
  std::map<std::string, int> done_;
  TimePoint coordinator_due_{};
};

bool Disturber::DisturbOnce() {
  // The last one has not stopped it. Where all go back, counted samples become fewer first.
  uint64_t samples = 0;
  const auto status = run_.WaitFor([&samples](const proto::JobStatus& s) {
    if (s.state != proto::RunState::kTraining || samples == 0 || s.samples_counted < samples) {
      samples = s.samples_counted;
      return false;
    }
    return s.samples_counted > samples;
  });
  if (!status.has_value()) {
    return false;
  }
  Wait(Between(500, 3000));
  const uint64_t choice = random_.Below(10);
  if (choice == 0 && !world_.disk.empty()) {
    const DiskFiller filler(world_.disk + "/filler");
    ++done_["disk filled"];
    // Killed before its journal has caught up it would be followed by another run, which goes on
    // from the newest checkpoint: CoordinatorTest sees that.
    DelayCoordinator();
    Wait(Between(500, 4000));
    // What was not written then is not what the next process reads.
    if (random_.Chance(0.5)) {
      Kill(*status);
      Wait(Between(100, 1000));
    }
  } else if (choice == 1 && world_.has_network) {
    const NetworkCut cut;
    ++done_["network cut"];
    Wait(Between(100, 2 * kDetectMs));
  } else if (choice <= 4) {
    FreezeOne(*status);
  } else {
    Kill(*status);
  }
  return true;
}

int64_t Disturber::SomeWorker(const proto::JobStatus& status) {
  const std::vector<proto::WorkerRow> alive = Alive(status);
  return alive.empty() ? 0 : alive[random_.Below(alive.size())].pid;
}

int64_t Disturber::SomeServer(const proto::JobStatus& status) {
  return status.shards.empty() ? 0 : status.shards[random_.Below(status.shards.size())].pid;
}

int64_t Disturber::CoordinatorIfDue() {
  if (SystemTime().Now() < coordinator_due_) {
    return 0;
  }
  DelayCoordinator();
  return run_.CoordinatorPid();
}

Disturber::Victim Disturber::Choose(const proto::JobStatus& status) {
  switch (random_.Below(4)) {
    case 0:
      return {SomeServer(status), "servers"};
    case 1:
      return {CoordinatorIfDue(), "coordinators"};
    default:
      return {SomeWorker(status), "workers"};
  }
}

void Disturber::Kill(const proto::JobStatus& status) {
  if (const Victim victim = Choose(status); victim.pid > 0) {
    ::kill(static_cast<pid_t>(victim.pid), SIGKILL);
    ++done_[victim.kind + " killed"];
  }
}

void Disturber::FreezeOne(const proto::JobStatus& status) {
  if (const Victim victim = Choose(status); victim.pid > 0) {
    const Freeze freeze(victim.pid);
    ++done_[victim.kind + " frozen"];
    Wait(random_.Chance(0.5) ? Between(100, kDetectMs) : Between(kDetectMs, 3 * kDetectMs));
  }
}

class SoakTest : public E2eTest, public testing::WithParamInterface<std::string> {
 protected:
  void TearDown() override {
    if (has_disk_) {
      ::umount2(job_.folder().c_str(), MNT_DETACH);
    }
  }

  Disturber::World MakeWorld() {
    Disturber::World world;
    // The suite leaves full disks to DiskTest, which fills them at one moment of a run.
    const testing::AssertionResult disk = std::getenv("SPOTPS_SOAK_S") != nullptr
                                              ? MountSmallDisk(job_.folder(), "size=1g")
                                              : testing::AssertionFailure()
                                                    << "SPOTPS_SOAK_S is not set";
    const testing::AssertionResult network = UnshareNetwork();
    has_disk_ = static_cast<bool>(disk);
    world.disk = disk ? job_.folder() : "";
    world.has_network = static_cast<bool>(network);
    std::cout << (disk ? "" : std::string("no disk is filled: ") + disk.message() + "\n")
              << (network ? "" : std::string("no network is cut: ") + network.message() + "\n");
    return world;
  }

 private:
  bool has_disk_ = false;
};

TEST_P(SoakTest, ARunOutlivesWhateverIsDoneToItsProcessesDiskAndNetwork) {
  const int per_second = GetParam() == "bsp" ? kSamplesPerSecondOfBsp : kSamplesPerSecond;
  const int epochs = std::max(SoakSeconds() * per_second / kTrainSamples, 1);
  const Disturber::World world = MakeWorld();
  job_.SetData(kTrainSamples, 1000)
      .Set(
          "train",
          R"({"minibatch": 32, "evaluate_every_epochs": 0, "epochs": )" + std::to_string(epochs) +
              R"(, "mode": ")" + GetParam() + R"("})")
      .Set("servers", R"({"count": 2})")
      .Set("workers", R"([{"count": 3, "step_ms": 20}])")
      .Set("fleet", R"({"max_detect_s": )" + std::to_string(kDetectMs / 1000) + "}")
      .Set("checkpoint", R"({"every_s": 1, "keep": 5})");
  const auto seed = static_cast<uint64_t>(Setting("SPOTPS_SOAK_SEED", SystemTime().UnixMicros()));
  RecordProperty("seed", std::to_string(seed));
  std::cout << "seed " << seed << "\n";
  TrainRun run(job_, {.is_replacing = true});
  Disturber disturber(&run, world, seed);
  const TimePoint end = SystemTime().Now() + std::chrono::seconds(SoakSeconds());
  while (SystemTime().Now() < end && disturber.DisturbOnce()) {
  }
  // The more was disturbed, the more is left.
  const Duration rest = kRunPatience + std::chrono::seconds(SoakSeconds());
  EXPECT_EQ(run.WaitForEnd(rest), ProcessEnd{});
  run.ExpectNothingLeft();
  run.ExpectExactLedger();

  const Json summary = run.Summary();
  EXPECT_EQ(summary["state"].text(), "done");
  EXPECT_GT(summary["test_accuracy"].number(), 0.5);
  Process::Options verify;
  verify.program = "psctl";
  verify.arguments = {"checkpoint", "verify", "--all", run.Root()};
  verify.output_stem = job_.folder() + "/verify";
  const Output verified = RunToEnd(verify, kRunPatience);
  EXPECT_EQ(verified.end, ProcessEnd{}) << verified.err << verified.out;
  for (const auto& [what, times] : disturber.done()) {
    std::cout << times << " " << what << ", ";
  }
  std::cout << summary["samples_counted"].number() << " samples counted, accuracy "
            << summary["test_accuracy"].number() << "\n";
}

INSTANTIATE_TEST_SUITE_P(Modes, SoakTest, testing::Values("async", "bsp"), [](const auto& suite) {
  return suite.param;
});

}  // namespace
}  // namespace ps::e2e
