#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "tests/coordinator/checkpoint_fixture.h"

namespace ps::coordinator {

/// A job whose servers all go back together when one of them is lost.
class RollbackTest : public CheckpointTest {
 protected:
  explicit RollbackTest(
      proto::Mode mode = proto::Mode::kBsp,
      proto::RecoveryKind recovery = proto::RecoveryKind::kAuto)
      : CheckpointTest(mode, recovery) {}

  RollbackTest(const std::function<void(CoordinatorOptions*)>& change, proto::Mode mode)
      : CheckpointTest(change, mode) {}

  /// Everybody does what he was granted and asks for more.
  void Round() {
    for (size_t i = 0; i < workers_.size(); ++i) {
      harness_.Work(&workers_[i], grants_[i]);
    }
    grants_ = harness_.AskAll(&workers_);
  }

  /// Checkpoint 1 is open after two rounds.
  void BeginAndOpen() {
    Begin();
    Round();
    Wait(kEvery);
    Round();
    ASSERT_THAT(disk_.opened, ::testing::ElementsAre(1));
  }

  void BeginAndWrite() {
    BeginAndOpen();
    Written();
    ASSERT_EQ(checkpoints().newest, 1U);
  }

  void Lose(uint32_t server) {
    harness_.Exit(ProcessKind::kServer, server, PidOf(server), "killed by signal 9");
  }

  int64_t PidOf(uint32_t shard) const { return harness_.shards[shard].pid; }

  /// The disk has read the manifest that was asked for last.
  void Read() {
    ASSERT_FALSE(disk_.reads.empty());
    const uint64_t wanted = disk_.reads.back();
    const auto write = std::ranges::find(disk_.writes, wanted, &ManifestWrite::checkpoint);
    ASSERT_NE(write, disk_.writes.end());
    harness_.core->OnManifestRead(wanted, write->manifest, harness_.now, harness_.out());
  }

  void ReadFails() {
    harness_.core->OnManifestRead(
        disk_.reads.back(), Status::Corruption("a flipped bit"), harness_.now, harness_.out());
  }

  /// Shards connect again; `lost` as another process.
  void ShardsReturn(uint32_t lost) {
    for (uint32_t i = 0; i < harness_.shards.size(); ++i) {
      const int64_t pid = PidOf(i);
      harness_.RegisterShard(i, i == lost ? pid + 1000 : pid);
    }
  }

  void WorkersReturn() {
    for (FakeWorker& worker : workers_) {
      worker = harness_.Join(worker.seat.value, 1000 + worker.seat.value, true);
    }
  }

  void FinishRun() {
    RunToTheEnd(&harness_, &workers_);
    EXPECT_EQ(harness_.status().samples_counted, harness_.status().samples_total);
    uint64_t samples = 0;
    for (const proto::WorkerRow& row : harness_.status().workers) {
      samples += row.samples_counted;
    }
    EXPECT_EQ(samples, harness_.status().samples_total) << "the rows add up";
  }

  const proto::ShardSetup& NewestSetup(uint32_t shard) const {
    return harness_.shards[shard].setups.back();
  }
};

/// One whose checkpoints can't be restored.
class FallbackTest : public RollbackTest {
 protected:
  using RollbackTest::RollbackTest;

  static proto::RestoreFailed FailureOf(uint32_t shard, const proto::ShardSetup& setup) {
    return {
        ShardId(shard),
        setup.life,
        setup.restore.checkpoint,
        StatusCode::kCorruption,
        "chunk 3 is damaged"};
  }

  /// The shard can't do what its newest set-up wants.
  void Fails(uint32_t shard) {
    const proto::ShardSetup setup = NewestSetup(shard);
    harness_.Give(harness_.shards[shard].peer, FailureOf(shard, setup));
  }

  /// Checkpoints 1 and 2 exist.
  void BeginAndWriteTwo() {
    BeginAndWrite();
    Wait(kEvery);
    Round();
    Written();
    ASSERT_EQ(checkpoints().newest, 2U);
  }

  /// Two shards, of which the second says nothing to its set-up.
  void ReturnWithoutAnswer() {
    harness_.RegisterShard(0, PidOf(0));
    harness_.shards[1].is_mute = true;
    harness_.RegisterShard(1, PidOf(1) + 1000);
    for (const proto::Message& message : harness_.shards[1].unanswered) {
      if (const auto* setup = std::get_if<proto::ShardSetup>(&message)) {
        harness_.shards[1].setups.push_back(*setup);
      }
    }
    harness_.shards[1].unanswered.clear();
  }
};

/// The same where the lost server alone goes back.
class PartialFallbackTest : public FallbackTest {
 protected:
  PartialFallbackTest() : FallbackTest(proto::Mode::kAsync) {}
};

}  // namespace ps::coordinator
