// Processes of every kind are killed and frozen under load, the disk fills up, the network is cut
// as a whole and link by link: the run goes on, its ledger is exact, and every checkpoint that it
// kept verifies. SPOTPS_SOAK_S makes it longer than half a minute in each mode, and wants a disk to
// fill and a network to cut; SPOTPS_SOAK_SEED repeats choices.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>

#include <array>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/random.h"
#include "tests/e2e/support/machine.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using std::chrono::milliseconds;

constexpr int kSecondsByDefault = 30;
/// In which everything that can be done is done once, also where each takes twice its time.
constexpr int kSecondsForAll = 240;
/// fleet.max_detect_s: who is frozen or cut off for longer is lost.
constexpr int kDetectMs = 2000;
/// fleet.orphan_grace_s: a coordinator that is frozen for half of it is killed, and another one has
/// the other half to come.
constexpr int kGraceMs = 16000;

int64_t Setting(const char* name, int64_t otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::atoll(value) : otherwise;
}

int SoakSeconds() {
  return static_cast<int>(Setting("SPOTPS_SOAK_S", kSecondsByDefault));
}

enum class Deed : uint8_t { kKill, kFreeze, kFreezeForLong, kFillDisk, kCutNetwork, kCutLink };
enum class Kind : uint8_t { kWorker, kServer, kCoordinator, kNone };

struct Disturbance {
  Deed deed{};
  Kind kind{};

  std::string Text() const {
    constexpr std::array kDeeds = {
        "killed",
        "frozen",
        "frozen until it is lost",
        "disk filled",
        "network cut",
        "link cut in one direction"};
    constexpr std::array kKinds = {"worker ", "server ", "coordinator ", ""};
    return std::string(kKinds[static_cast<size_t>(kind)]) + kDeeds[static_cast<size_t>(deed)];
  }
};

/// Disturbs a run that is to go on by itself.
class Disturber {
 public:
  struct World {
    std::string disk;          // the folder whose disk may be filled; "": no disk of its own
    bool has_network = false;  // of its own, which may be cut
    bool has_links = false;    // which may be cut one by one
  };

  Disturber(TrainRun* run, World world, uint64_t seed);

  /// Whether the run trains, and goes on counting samples: the last disturbance has not stopped it.
  std::optional<proto::JobStatus> AwaitProgress();
  /// One disturbance of a run that trains. False when it does not.
  bool DisturbOnce();

  /// What there is to do here.
  const std::vector<Disturbance>& all() const { return all_; }

  const std::map<std::string, int>& done() const { return done_; }

 private:
  /// The next one that can be done now: all of them in some order, then again in another.
  Disturbance Draw(const proto::JobStatus& status, int64_t* victim);
  /// 0: there is none of this kind now.
  int64_t VictimOf(Kind kind, const proto::JobStatus& status);
  void FillDisk(const proto::JobStatus& status);
  void CutLink(const proto::JobStatus& status);

  /// While something is wrong. Ends early with the run.
  void Wait(Duration time) {
    WaitUntil([this] { return !run_.psctl().IsRunning(); }, time);
  }

  Duration Between(int from_ms, int to_ms) {
    return milliseconds(
        from_ms + static_cast<int64_t>(random_.Below(static_cast<uint64_t>(to_ms - from_ms))));
  }

  /// One that lives for a while each time is started again for ever.
  void DelayCoordinator() { coordinator_due_ = SystemTime().Now() + std::chrono::seconds(11); }

  TrainRun& run_;
  const World world_;
  Random random_;
  std::vector<Disturbance> all_;
  std::vector<Disturbance> left_;  // of this round
  std::map<std::string, int> done_;
  TimePoint coordinator_due_{};
};

Disturber::Disturber(TrainRun* run, World world, uint64_t seed)
    : run_(*run), world_(std::move(world)), random_(seed) {
  for (const Kind kind : {Kind::kWorker, Kind::kServer, Kind::kCoordinator}) {
    for (const Deed deed : {Deed::kKill, Deed::kFreeze, Deed::kFreezeForLong}) {
      all_.push_back({deed, kind});
    }
  }
  if (!world_.disk.empty()) {
    all_.push_back({Deed::kFillDisk, Kind::kNone});
  }
  if (world_.has_network) {
    all_.push_back({Deed::kCutNetwork, Kind::kNone});
  }
  if (world_.has_links) {
    all_.push_back({Deed::kCutLink, Kind::kNone});
  }
}

std::optional<proto::JobStatus> Disturber::AwaitProgress() {
  // Where all go back, counted samples become fewer first.
  uint64_t samples = 0;
  return run_.WaitFor([&samples](const proto::JobStatus& s) {
    if (s.state != proto::RunState::kTraining || samples == 0 || s.samples_counted < samples) {
      samples = s.samples_counted;
      return false;
    }
    return s.samples_counted > samples;
  });
}

bool Disturber::DisturbOnce() {
  const auto status = AwaitProgress();
  if (!status.has_value()) {
    return false;
  }
  Wait(Between(500, 3000));
  int64_t victim = 0;
  const Disturbance chosen = Draw(*status, &victim);
  ++done_[chosen.Text()];
  switch (chosen.deed) {
    case Deed::kKill:
      ::kill(static_cast<pid_t>(victim), SIGKILL);
      break;
    case Deed::kFreeze: {
      const Freeze freeze(victim);
      Wait(Between(100, kDetectMs));
      break;
    }
    case Deed::kFreezeForLong: {
      const Freeze freeze(victim);
      Wait(
          chosen.kind == Kind::kCoordinator ? Between(kGraceMs / 2 + 500, kGraceMs * 3 / 4)
                                            : Between(kDetectMs + kDetectMs / 2, 4 * kDetectMs));
      break;
    }
    case Deed::kFillDisk:
      FillDisk(*status);
      break;
    case Deed::kCutNetwork: {
      const NetworkCut cut;
      Wait(Between(100, 2 * kDetectMs));
      break;
    }
    case Deed::kCutLink:
      CutLink(*status);
      break;
  }
  return true;
}

Disturbance Disturber::Draw(const proto::JobStatus& status, int64_t* victim) {
  if (left_.empty()) {
    left_ = all_;
    for (size_t i = left_.size(); i > 1; --i) {
      std::swap(left_[i - 1], left_[random_.Below(i)]);
    }
  }
  for (size_t i = left_.size(); i > 0; --i) {
    const Disturbance next = left_[i - 1];
    *victim = VictimOf(next.kind, status);
    if (next.kind == Kind::kNone || *victim > 0) {
      left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(i - 1));
      return next;
    }
  }
  *victim = VictimOf(Kind::kWorker, status);
  return {Deed::kFreeze, Kind::kWorker};
}

int64_t Disturber::VictimOf(Kind kind, const proto::JobStatus& status) {
  const std::vector<proto::WorkerRow> alive = Alive(status);
  switch (kind) {
    case Kind::kWorker:
      return alive.empty() ? 0 : alive[random_.Below(alive.size())].pid;
    case Kind::kServer:
      return status.shards.empty() ? 0 : status.shards[random_.Below(status.shards.size())].pid;
    case Kind::kCoordinator:
      if (SystemTime().Now() < coordinator_due_) {
        return 0;
      }
      DelayCoordinator();
      return run_.CoordinatorPid();
    case Kind::kNone:
      break;
  }
  return 0;
}

void Disturber::FillDisk(const proto::JobStatus& status) {
  const DiskFiller filler(world_.disk + "/filler");
  // Killed before its journal has caught up it would be followed by another run, which goes on
  // from the newest checkpoint: CoordinatorTest sees that.
  DelayCoordinator();
  Wait(Between(500, 4000));
  // What was not written then is not what the next process reads.
  if (random_.Chance(0.5)) {
    const Kind kind = random_.Chance(0.5) ? Kind::kServer : Kind::kWorker;
    if (const int64_t victim = VictimOf(kind, status); victim > 0) {
      ::kill(static_cast<pid_t>(victim), SIGKILL);
    }
    Wait(Between(100, 1000));
  }
}

/// Of the coordinator, or of a server: to those who are connected to it, or from them.
void Disturber::CutLink(const proto::JobStatus& status) {
  std::vector<std::string> addresses;
  for (const proto::ShardRow& shard : status.shards) {
    addresses.push_back(shard.address);
  }
  if (const std::optional<HostPort> coordinator = run_.Address()) {
    addresses.push_back(FormatHostPort(coordinator->host, coordinator->port));
  }
  const Result<HostPort> end = ParseHostPort(addresses.at(random_.Below(addresses.size())));
  ASSERT_TRUE(end.ok()) << end.status().message();
  const LinkCut cut(
      static_cast<uint16_t>(end->port),
      random_.Chance(0.5) ? LinkCut::Way::kTo : LinkCut::Way::kFrom);
  Wait(Between(100, 2 * kDetectMs));
}

class SoakTest : public E2eTest, public testing::WithParamInterface<std::string> {
 protected:
  void TearDown() override {
    if (has_disk_) {
      ::umount2(job_.folder().c_str(), MNT_DETACH);
    }
  }

  /// What of the machine may be disturbed. A long run is for all of it: what is missing is a
  /// failure then. The suite leaves full disks to DiskTest, which fills them at one moment of a
  /// run.
  Disturber::World MakeWorld() {
    const bool is_long = std::getenv("SPOTPS_SOAK_S") != nullptr;
    Disturber::World world;
    if (is_long) {
      const testing::AssertionResult disk = MountSmallDisk(job_.folder(), "size=1g");
      EXPECT_TRUE(disk) << "no disk could be filled";
      has_disk_ = static_cast<bool>(disk);
      world.disk = disk ? job_.folder() : "";
    }
    const testing::AssertionResult network = UnshareNetwork();
    EXPECT_TRUE(network || !is_long) << "no network could be cut: " << network.message();
    world.has_network = static_cast<bool>(network);
    std::cout << (network ? "" : std::string("no network is cut: ") + network.message() + "\n");
    if (network) {
      const testing::AssertionResult links = PrepareLinkCuts();
      EXPECT_TRUE(links || !is_long) << links.message();
      world.has_links = static_cast<bool>(links);
    }
    return world;
  }

 private:
  bool has_disk_ = false;
};

TEST_P(SoakTest, ARunOutlivesWhateverIsDoneToItsProcessesDiskAndNetwork) {
  const Disturber::World world = MakeWorld();
  const std::string copies = folder_ / "copies";  // not on the disk that fills up
  ASSERT_FALSE(HasFailure()) << "SPOTPS_SOAK_S wants root, to disturb everything";
  job_.SetData(10000, 1000)
      .Set("train", R"({"minibatch": 32, "epochs": 100000, "mode": ")" + GetParam() + R"("})")
      .Set("servers", R"({"count": 2})")
      .Set("workers", R"([{"count": 3, "step_ms": 20}])")
      .Set(
          "fleet",
          R"({"max_detect_s": )" + std::to_string(kDetectMs / 1000) + R"(, "orphan_grace_s": )" +
              std::to_string(kGraceMs / 1000) + "}")
      .Set("checkpoint", R"({"every_s": 1, "keep": 5, "copy_to": ")" + copies + R"("})");
  const auto seed = static_cast<uint64_t>(Setting("SPOTPS_SOAK_SEED", SystemTime().UnixMicros()));
  RecordProperty("seed", std::to_string(seed));
  std::cout << "seed " << seed << "\n";
  TrainRun run(job_, {.is_replacing = true});
  Disturber disturber(&run, world, seed);
  const TimePoint end = SystemTime().Now() + std::chrono::seconds(SoakSeconds());
  bool is_training = true;
  while (is_training && SystemTime().Now() < end) {
    is_training = disturber.DisturbOnce();
  }
  ASSERT_TRUE(is_training && disturber.AwaitProgress()) << "the run did not last";
  const Json summary = StopCleanly(&run);
  EXPECT_GT(summary["test_accuracy"].number(), 0.5);
  EXPECT_FALSE(disturber.done().empty());
  for (const Disturbance& disturbance : disturber.all()) {
    EXPECT_TRUE(SoakSeconds() < kSecondsForAll || disturber.done().contains(disturbance.Text()))
        << "no " << disturbance.Text();
  }
  for (const std::string& kept : {run.Root(), copies}) {
    const Output verified = RunToEnd(
        {.program = "psctl",
         .arguments = {"checkpoint", "verify", "--all", kept},
         .output_stem = job_.folder() + "/verify"},
        kRunPatience);
    EXPECT_EQ(verified.end, ProcessEnd{}) << kept << verified.err << verified.out;
  }
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
