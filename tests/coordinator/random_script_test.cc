#include <gtest/gtest.h>

#include <algorithm>

#include "ps/base/random.h"
#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

/// A worker that the script moves step by step.
struct ScriptWorker {
  FakeWorker fake;
  std::optional<proto::LeaseGrant> lease;
  uint64_t next = 0;
  std::vector<proto::StepDone> unreported;
};

/// Workers that join, work, repeat themselves, die in every way and leave, in an order drawn from
/// the seed. Shards answer late at random, and now and then another coordinator goes on.
class Script {
 public:
  explicit Script(uint64_t seed) : random_(seed), harness_(Options(&random_)) {}

  void Run() {
    for (const FakeWorker& fake : harness_.StartWithWorkers()) {
      workers_.push_back({fake, {}, 0, {}});
    }
    for (int i = 0; i < 6000 && harness_.status().state != proto::RunState::kDone; ++i) {
      Move();
      if (::testing::Test::HasFailure()) {
        return;
      }
    }
    const proto::JobStatus status = harness_.status();
    EXPECT_EQ(status.state, proto::RunState::kDone)
        << status.detail << ", counted " << status.samples_counted;
    EXPECT_EQ(status.samples_counted, status.samples_total);
    ASSERT_FALSE(status.evaluations.empty());
    EXPECT_LE(status.evaluations.size(), status.epochs);
    EXPECT_EQ(status.evaluations.back().epoch, status.epochs) << "of epochs that end together one";
  }

 private:
  static CoordinatorOptions Options(Random* random) {
    CoordinatorOptions options = SmallJob(static_cast<proto::Mode>(random->Below(3)));
    options.config.train.epochs = static_cast<uint32_t>(1 + random->Below(3));
    options.config.workers = {{2, 7, 1, 1}, {1, 10, 1, 1}};
    options.train_samples = 50 + random->Below(150);
    options.test_samples = 100 + random->Below(900);
    return options;
  }

  void Move() {
    harness_.now += std::chrono::milliseconds(1);
    if (random_.Chance(0.05)) {
      for (uint32_t i = 0; i < harness_.shards.size(); ++i) {
        if (harness_.shards[i].is_mute) {
          harness_.Unmute(i);
        } else {
          harness_.shards[i].is_mute = random_.Chance(0.3);
        }
      }
    }
    if (random_.Chance(0.05)) {
      std::vector<FakeWorker> alive;
      for (const ScriptWorker& worker : workers_) {
        alive.push_back(worker.fake);
      }
      harness_.Wait(harness_.timing.tick * 2, alive);
    }
    if (random_.Chance(0.01)) {
      Restart();
    }
    if (workers_.empty() || (workers_.size() < 5 && random_.Chance(0.01))) {
      Join();
      return;
    }
    const size_t index = random_.Below(workers_.size());
    if (random_.Chance(0.01)) {
      Leave(index);
    } else {
      Advance(&workers_[index]);
    }
  }

  void Join() {
    for (uint32_t i = 0; i < harness_.shards.size(); ++i) {
      harness_.Unmute(i);
    }
    if (harness_.status().state == proto::RunState::kDone) {
      return;
    }
    ScriptWorker worker;
    // With a seat, as a launcher starts it: the end of one that was started by hand is not told.
    uint32_t seat = 0;
    while (std::ranges::find(workers_, WorkerId(seat), [](const ScriptWorker& other) {
             return other.fake.seat;
           }) != workers_.end()) {
      ++seat;
    }
    worker.fake = harness_.Join(seat, ++next_pid_);
    workers_.push_back(worker);
  }

  /// Another coordinator goes on; everybody who works comes back, sooner or later.
  void Restart() {
    harness_.Restart(std::chrono::milliseconds(random_.Below(1000)));
    for (ScriptWorker& worker : workers_) {
      harness_.Reconnect(&worker.fake);
    }
  }

  void Leave(size_t index) {
    const FakeWorker fake = workers_[index].fake;
    workers_.erase(workers_.begin() + static_cast<long>(index));
    // The step in hand may have reached all, some or none of the shards.
    for (FakeShard& shard : harness_.shards) {
      Step& complete = shard.complete[fake.incarnation];
      if (complete < fake.step && random_.Chance(0.5)) {
        complete = fake.step;
      }
    }
    if (random_.Chance(0.4)) {
      harness_.Give(fake.peer, proto::Goodbye{fake.incarnation, "notice", {}});
      harness_.Give(fake.peer, proto::Goodbye{fake.incarnation, "notice", {}});
    }
    harness_.Exit(ProcessKind::kWorker, fake.seat.value, 0, "killed by signal 9");
    harness_.core->OnPeerClosed(fake.peer, harness_.now, harness_.out());
  }

  void Advance(ScriptWorker* worker) {
    if (!worker->unreported.empty() && random_.Chance(0.6)) {
      const proto::StepReport report{worker->fake.incarnation, worker->unreported};
      harness_.Give(worker->fake.peer, report);
      if (random_.Chance(0.8)) {
        worker->unreported.clear();  // else the answer was lost, and all is sent again
      }
      return;
    }
    if (!worker->lease || worker->next == worker->lease->end) {
      if (!worker->unreported.empty()) {
        return;
      }
      worker->lease = harness_.Ask(&worker->fake);
      worker->next = worker->lease ? worker->lease->begin : 0;
      return;
    }
    if (worker->lease->kind == proto::LeaseKind::kEvaluate) {
      harness_.Evaluate(worker->fake, *worker->lease);
      worker->next = worker->lease->end;
      return;
    }
    proto::StepDone done = harness_.MakeStep(&worker->fake, *worker->lease, worker->next);
    done.is_rejected = random_.Chance(0.02);
    harness_.Complete(worker->fake, done.step);
    worker->next = done.end;
    worker->unreported.push_back(done);
  }

  Random random_;
  Harness harness_;
  std::vector<ScriptWorker> workers_;
  int64_t next_pid_ = 5000;
};

TEST(RandomScriptTest, EveryJobEndsWithEverySampleCountedOnce) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Script(seed).Run();
    if (HasFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace ps::coordinator
