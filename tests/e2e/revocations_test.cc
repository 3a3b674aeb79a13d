// Fifty workers killed at random moments of one run: it must not stop, its ledger stays exact, and
// it learns as well as a run that nobody disturbed.

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ps/base/random.h"
#include "tests/base/temporary_folder.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

constexpr int kKills = 50;
/// A kill comes up to so long after the moment at which the last one's is due.
constexpr uint64_t kJitterMillisMax = 60;
/// A step takes so long at least, so that the run lasts long enough for all kills on any machine.
constexpr int kStepMillis = 2;

/// Kills workers of a run and starts others in their place, as a provider and a launcher would.
class Disturber {
 public:
  Disturber(TrainRun* run, uint64_t seed) : run_(*run), random_(seed) {}

  /// Kills `kills` workers at random shares of the job. False when the run ended before.
  bool Disturb(int kills);

  /// Of the killed ones those that had done something. One that was still joining may be nobody's
  /// loss.
  double losses() const { return static_cast<double>(members_.size()); }

 private:
  bool WaitForMoment(double share);
  void KillOneAndReplaceIt();

  TrainRun& run_;
  Random random_;
  proto::JobStatus status_;
  std::vector<std::unique_ptr<Process>> started_;
  std::set<int64_t> members_;
};

bool Disturber::Disturb(int kills) {
  std::vector<double> shares;
  for (int i = 0; i < kills; ++i) {
    shares.push_back(random_.Unit() * 0.96);
  }
  std::sort(shares.begin(), shares.end());
  for (const double share : shares) {
    if (!WaitForMoment(share)) {
      return false;
    }
    KillOneAndReplaceIt();
  }
  return true;
}

/// Until that share of the samples is counted, and a moment longer: what a worker does when it is
/// killed should not depend on what was just counted.
bool Disturber::WaitForMoment(double share) {
  const auto status = run_.WaitFor([share](const proto::JobStatus& s) {
    return s.samples_total > 0 &&
           static_cast<double>(s.samples_counted) >= share * static_cast<double>(s.samples_total);
  });
  if (!status.has_value()) {
    ADD_FAILURE() << "the run stopped, or stands still, before " << share << " of it";
    return false;
  }
  status_ = *status;
  for (const proto::LedgerRow& row : status_.ledger) {
    EXPECT_LE(row.samples_counted + row.samples_leased, row.samples_total) << row.epoch;
  }
  const Duration more = std::chrono::milliseconds(random_.Below(kJitterMillisMax));
  WaitUntil([this] { return !run_.psctl().IsRunning(); }, more);
  return run_.psctl().IsRunning();
}

/// Any live worker process may be hit: one that computes, one that loads its data, one that joins.
void Disturber::KillOneAndReplaceIt() {
  const std::vector<int64_t> workers = run_.Children("ps_worker");
  std::vector<std::string> arguments;
  if (!workers.empty()) {
    const int64_t victim = workers[random_.Below(workers.size())];
    ::kill(static_cast<pid_t>(victim), SIGKILL);
    const std::vector<proto::WorkerRow> rows = Alive(status_);
    const auto row = std::ranges::find(rows, victim, &proto::WorkerRow::pid);
    if (row != rows.end() && row->samples_counted > 0) {
      members_.insert(victim);
    }
    if (row != rows.end() && random_.Chance(0.5)) {
      arguments = {"--seat", std::to_string(row->worker.value)};
    }
  }
  arguments.insert(arguments.end(), {"--emulate-step-us", std::to_string(1000 * kStepMillis)});
  started_.push_back(run_.StartWorker(arguments));
}

class RevocationTest : public E2eTest, public testing::WithParamInterface<std::string> {};

TEST_P(RevocationTest, WorkersKilledAtRandomMomentsCostNothing) {
  // Accuracy has to say something about the kills, not about chance. So the learning rate falls to
  // zero, which takes the noise of the last steps away; after twelve passes another four bring
  // less than half a point; and all 10000 test samples are used. Equal runs then differ by 0.2
  // points. A round of bsp is four times as large a minibatch as a step, so it may step further.
  const std::string lr = GetParam() == "bsp" ? "0.1" : "0.02";
  job_.SetData(10000, 10000)
      .Set("optimizer", R"({"kind": "sgd", "schedule": {"kind": "linear"}, "lr": )" + lr + "}")
      .Set(
          "train",
          R"({"epochs": 12, "minibatch": 32, "lease_steps": 4, "evaluate_every_epochs": 0, )"
          R"("mode": ")" +
              GetParam() + R"("})")
      // Most chunks travel in parts, so that workers die between them.
      .Set("servers", R"({"count": 2, "frame_kib": 32})")
      .Set(
          "workers",
          fmt::format(
              R"([{{"count": 2, "step_ms": {}}}, {{"count": 2, "step_ms": {}}}])",
              kStepMillis,
              3 * kStepMillis))
      .Set("fleet", R"({"max_detect_s": 1})");
  double undisturbed = 0;
  {
    const TemporaryFolder folder;
    TrainRun run(job_.CopyIn(folder.path()));
    ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
    run.ExpectExactLedger();
    undisturbed = run.Summary()["test_accuracy"].number();
  }
  const auto seed = static_cast<uint64_t>(SystemTime().UnixMicros());
  RecordProperty("seed", std::to_string(seed));
  std::cout << "seed " << seed << "\n";
  TrainRun run(job_);
  Disturber disturber(&run, seed);  // owns the replacements, so it stays to the end
  EXPECT_TRUE(disturber.Disturb(kKills));
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
  run.ExpectExactLedger();
  const Json summary = run.Summary();
  EXPECT_EQ(summary["state"].text(), "done");
  EXPECT_GE(disturber.losses(), kKills / 5) << "too few to say anything";
  EXPECT_GE(summary["revocations_unnoticed"].number(), disturber.losses());
  EXPECT_NEAR(summary["test_accuracy"].number(), undisturbed, 0.01);
  std::cout << "accuracy " << undisturbed << " undisturbed, " << summary["test_accuracy"].number()
            << " disturbed; " << disturber.losses() << " of "
            << summary["revocations_unnoticed"].number() << " losses, " << summary["joins"].number()
            << " joins, " << summary["steps_lost"].number() << " steps lost, "
            << summary["steps_partial"].number() << " of them partial\n";
  run.ExpectNothingLeft();
}

INSTANTIATE_TEST_SUITE_P(
    Modes, RevocationTest, testing::Values("async", "ssp", "bsp"), [](const auto& suite) {
      return suite.param;
    });

}  // namespace
}  // namespace ps::e2e
