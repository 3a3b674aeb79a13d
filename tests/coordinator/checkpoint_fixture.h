#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "ps/coordinator/state/manifest_disk.h"
#include "tests/coordinator/harness.h"

namespace ps::coordinator {

/// Keeps what is asked of it.
class FakeDisk final : public ManifestDisk {
 public:
  void NoteOpened(uint64_t checkpoint) override { opened.push_back(checkpoint); }

  void Commit(ManifestWrite write) override { writes.push_back(std::move(write)); }

  void Read(uint64_t checkpoint) override { reads.push_back(checkpoint); }

  void NoteSetAside(std::vector<checkpoint::SetAside> all) override { set_aside = std::move(all); }

  std::vector<uint64_t> opened;
  std::vector<ManifestWrite> writes;
  std::vector<uint64_t> reads;
  std::vector<checkpoint::SetAside> set_aside;  // as noted last
};

inline CoordinatorOptions OptionsWith(FakeDisk* disk, proto::Mode mode = proto::Mode::kAsync) {
  CoordinatorOptions options = SmallJob(mode);
  options.config.checkpoint.every_s = 1;
  options.config.checkpoint.keep = 2;
  options.manifests = disk;
  return options;
}

/// A job that makes a checkpoint every second.
class CheckpointTest : public ::testing::Test {
 protected:
  explicit CheckpointTest(proto::Mode mode = proto::Mode::kAsync)
      : CheckpointTest(mode, proto::RecoveryKind::kAuto) {}

  CheckpointTest(proto::Mode mode, proto::RecoveryKind recovery)
      : CheckpointTest(
            [&](CoordinatorOptions* options) { options->config.checkpoint.recovery = recovery; },
            mode) {}

  explicit CheckpointTest(
      const std::function<void(CoordinatorOptions*)>& change,
      proto::Mode mode = proto::Mode::kAsync)
      : harness_([&] {
          CoordinatorOptions options = OptionsWith(&disk_, mode);
          change(&options);
          return options;
        }()) {}

  /// Everybody has joined and holds a lease: the job trains.
  void Begin() {
    workers_ = harness_.StartWithWorkers();
    grants_ = harness_.AskAll(&workers_);
  }

  void Wait(Duration duration) { harness_.Wait(duration, workers_); }

  /// The disk has done the newest write.
  void Written(const Status& status = Status::Ok()) {
    ASSERT_FALSE(disk_.writes.empty());
    harness_.core->OnManifestWritten(
        disk_.writes.back().checkpoint, status, harness_.now, harness_.out());
  }

  proto::CheckpointStatus checkpoints() const { return harness_.status().checkpoints; }

  FakeDisk disk_;
  Harness harness_;
  std::vector<FakeWorker> workers_;
  std::vector<proto::LeaseGrant> grants_;

 public:
  /// After so long the next one is due.
  static constexpr Duration kEvery = std::chrono::milliseconds(1100);
};

}  // namespace ps::coordinator
