#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/coordinator/state/model_files.h"
#include "tests/coordinator/checkpoint_fixture.h"
#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

using ::testing::HasSubstr;

/// Keeps what is written.
class FakeSink final : public ModelSink {
 public:
  Status Begin(std::map<std::string, std::string> metadata_in) override {
    ++begun;
    metadata = std::move(metadata_in);
    tensors = {std::vector<float>(1000, -1), std::vector<float>(10, -1)};
    is_finishing = false;
    return Status::Ok();
  }

  Status Write(uint32_t tensor, int64_t begin, std::span<const float> values) override {
    if (write_error.ok()) {
      std::ranges::copy(values, tensors.at(tensor).begin() + begin);
    }
    return write_error;
  }

  void Finish() override { is_finishing = true; }

  std::optional<Status> Outcome() override { return outcome; }

  void Abandon() override { ++abandoned; }

  std::string path() const override { return "runs/small/model.safetensors"; }

  bool IsWhole() const {
    for (uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
      for (size_t i = 0; i < tensors[tensor].size(); ++i) {
        if (tensors[tensor][i] != Harness::ValueOf(tensor, static_cast<int64_t>(i))) {
          return false;
        }
      }
    }
    return is_finishing;
  }

  std::map<std::string, std::string> metadata;
  std::vector<std::vector<float>> tensors;
  Status write_error;
  std::optional<Status> outcome = Status::Ok();  // of Finish; nothing: it takes its time
  bool is_finishing = false;
  int begun = 0;
  int abandoned = 0;
};

class ModelTest : public ::testing::Test {
 protected:
  explicit ModelTest(uint32_t servers = 2, uint32_t chunk_kib = 1)
      : harness_(OptionsWith(&sink_, servers, chunk_kib)) {}

  static CoordinatorOptions OptionsWith(ModelSink* sink, uint32_t servers, uint32_t chunk_kib) {
    CoordinatorOptions options = SmallJob();
    options.config.servers.count = servers;
    options.config.servers.chunk_kib = chunk_kib;
    options.model_sink = sink;
    options.software = "spotps 9.9";
    return options;
  }

  void RunUntilLeaving() {
    workers_ = harness_.StartWithWorkers();
    RunToTheEnd(&harness_, &workers_);
    ASSERT_EQ(harness_.status().state, proto::RunState::kDone);
  }

  /// The workers leave.
  void Leave() {
    CloseAll(&harness_, workers_);
    harness_.Wait(harness_.timing.tick);
  }

  bool AreShardsTold() const {
    return std::ranges::all_of(harness_.shards, [](const FakeShard& s) { return s.is_told; });
  }

  /// The connection of a shard breaks.
  void Disconnect(uint32_t shard) {
    harness_.core->OnPeerClosed(harness_.shards[shard].peer, harness_.now, harness_.out());
    harness_.shards[shard].peer = proto::PeerId();
  }

  FakeSink sink_;
  Harness harness_;
  std::vector<FakeWorker> workers_;
};

TEST_F(ModelTest, AJobEndsWithItsModel) {
  RunUntilLeaving();
  harness_.Wait(harness_.timing.tick);
  EXPECT_EQ(sink_.begun, 0) << "workers are still here";
  sink_.outcome.reset();
  Leave();
  EXPECT_TRUE(sink_.IsWhole());
  EXPECT_FALSE(AreShardsTold()) << "the file is not durable yet";
  EXPECT_EQ(harness_.status().detail, "saving the model");
  sink_.outcome = Status::Ok();
  harness_.Wait(harness_.timing.tick);
  EXPECT_TRUE(AreShardsTold());
  EXPECT_EQ(harness_.status().model_file, "runs/small/model.safetensors");
  EXPECT_EQ(harness_.status().model_problem, "");
  EXPECT_EQ(sink_.begun, 1);
  EXPECT_EQ(sink_.abandoned, 0);
  EXPECT_EQ(sink_.metadata["job"], "small");
  EXPECT_EQ(sink_.metadata["ended"], "done");
  EXPECT_EQ(sink_.metadata["samples"], "200");
  EXPECT_EQ(sink_.metadata["epochs_finished"], "1");
  EXPECT_EQ(sink_.metadata["software"], "spotps 9.9");
}

TEST_F(ModelTest, AStoppedJobLeavesWhatItHas) {
  workers_ = harness_.StartWithWorkers();
  harness_.Work(&workers_[0], harness_.AskAll(&workers_)[0]);
  harness_.core->RequestStop(false, "enough", harness_.now, harness_.out());
  for (const FakeWorker& worker : workers_) {
    harness_.Give(worker.peer, proto::Goodbye{worker.incarnation, "stop", {}});
  }
  Leave();
  EXPECT_TRUE(sink_.IsWhole());
  EXPECT_TRUE(AreShardsTold());
  EXPECT_EQ(sink_.metadata["ended"], "stopped");
  EXPECT_EQ(harness_.status().model_file, "runs/small/model.safetensors");
}

TEST_F(ModelTest, AnImmediateEndLeavesNone) {
  workers_ = harness_.StartWithWorkers();
  harness_.AskAll(&workers_);
  harness_.core->RequestStop(true, "enough", harness_.now, harness_.out());
  harness_.Wait(harness_.timing.tick);
  EXPECT_TRUE(AreShardsTold());
  EXPECT_EQ(sink_.begun, 0);
  EXPECT_EQ(harness_.status().model_problem, "the run was ended at once");
}

TEST_F(ModelTest, AHurryWhileItIsSavedLeavesNone) {
  RunUntilLeaving();
  sink_.outcome.reset();
  Leave();
  harness_.core->RequestStop(true, "enough", harness_.now, harness_.out());
  EXPECT_TRUE(harness_.core->is_finished());
  EXPECT_EQ(sink_.abandoned, 1);
  EXPECT_EQ(harness_.status().model_problem, "the run was ended at once");
}

TEST_F(ModelTest, BeforeTrainingThereIsNoModel) {
  harness_.StartWithShards();
  harness_.core->RequestStop(false, "enough", harness_.now, harness_.out());
  EXPECT_EQ(harness_.status().model_file, "");
  EXPECT_EQ(harness_.status().model_problem, "");
  EXPECT_EQ(sink_.begun, 0);
}

TEST_F(ModelTest, AFailedJobKeepsItsModelWhenAllShardsAnswer) {
  workers_ = harness_.StartWithWorkers();
  harness_.AskAll(&workers_);
  proto::Refusal refusal;
  refusal.code = StatusCode::kInvalidArgument;
  refusal.message = "a fault";
  harness_.Give(harness_.shards[0].peer, refusal);
  EXPECT_EQ(harness_.status().state, proto::RunState::kFailed);
  Leave();
  EXPECT_TRUE(sink_.IsWhole());
  EXPECT_EQ(sink_.metadata["ended"], "failed");
  EXPECT_TRUE(AreShardsTold());
}

TEST_F(ModelTest, AServerThatIsLostWhileItIsReadCostsTheModelAlone) {
  RunUntilLeaving();
  harness_.shards[1].is_mute = true;
  Leave();
  EXPECT_FALSE(AreShardsTold());
  harness_.Exit(ProcessKind::kServer, 0, 500, "killed by signal 9 (Killed)");
  EXPECT_EQ(harness_.status().model_problem, "") << "of that one all is here";
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9 (Killed)");
  EXPECT_EQ(harness_.status().model_problem, "server 1 was lost: killed by signal 9 (Killed)");
  EXPECT_EQ(sink_.abandoned, 1);
  EXPECT_FALSE(sink_.is_finishing);
  EXPECT_TRUE(harness_.shards[0].is_told);
  EXPECT_EQ(harness_.status().state, proto::RunState::kDone);
  EXPECT_EQ(harness_.core->exit_code(), 0);
}

TEST_F(ModelTest, AServerThatIsNoPartOfTheJobCostsNothing) {
  RunUntilLeaving();
  harness_.shards[1].is_mute = true;
  harness_.Exit(ProcessKind::kServer, 2, 502, "exited");
  Leave();
  EXPECT_EQ(harness_.status().model_problem, "");
}

class ModelOfThreeServersTest : public ModelTest {
 protected:
  /// Two chunks: one server has none.
  ModelOfThreeServersTest() : ModelTest(3, 64) {}
};

TEST_F(ModelOfThreeServersTest, AServerWithoutChunksThatIsLostCostsNothing) {
  RunUntilLeaving();
  harness_.Exit(ProcessKind::kServer, 2, 502, "killed");
  Leave();
  EXPECT_EQ(harness_.status().model_problem, "");
  EXPECT_TRUE(sink_.IsWhole());
}

TEST_F(ModelOfThreeServersTest, AServerWithChunksThatIsLostCostsTheModel) {
  RunUntilLeaving();
  harness_.Exit(ProcessKind::kServer, 0, 500, "killed");
  Leave();
  EXPECT_THAT(harness_.status().model_problem, HasSubstr("server 0 was lost: killed"));
}

TEST_F(ModelTest, AShardThatComesBackIsAskedForTheRest) {
  RunUntilLeaving();
  harness_.shards[0].is_mute = true;
  Leave();
  ASSERT_EQ(harness_.shards[0].unanswered.size(), 1U);
  harness_.shards[0].unanswered.clear();
  harness_.shards[0].is_mute = false;
  Disconnect(0);
  harness_.Wait(harness_.timing.detect);
  EXPECT_FALSE(AreShardsTold());
  harness_.RegisterShard(0, 500);
  harness_.Wait(harness_.timing.tick);
  ASSERT_EQ(harness_.shards[0].pulls.size(), 1U);
  EXPECT_TRUE(harness_.shards[0].pulls[0].held.empty());
  EXPECT_TRUE(sink_.IsWhole());
  EXPECT_TRUE(AreShardsTold());
}

TEST_F(ModelTest, AShardThatStaysAwayOrSendsNothingIsNotWaitedForForEver) {
  RunUntilLeaving();
  harness_.shards[0].is_mute = true;
  Leave();
  harness_.Wait(harness_.timing.lease * 9);
  EXPECT_THAT(
      harness_.status().model_problem, HasSubstr("shard 0 did not send its parameters after 8"));
  EXPECT_FALSE(sink_.is_finishing);
}

TEST_F(ModelTest, AShardThatIsGoneForTooLongIsNamed) {
  RunUntilLeaving();
  harness_.shards[1].is_mute = true;
  Leave();
  Disconnect(1);
  harness_.Wait(proto::Timing::Of(harness_.options.config).server_detect * 2);
  EXPECT_THAT(harness_.status().model_problem, HasSubstr("shard 1 has been gone for 24."));
  EXPECT_TRUE(harness_.core->is_finished());
}

TEST_F(ModelTest, AFullDiskIsSaid) {
  RunUntilLeaving();
  sink_.write_error = Status::Io("cannot write: No space left on device");
  Leave();
  EXPECT_EQ(harness_.status().model_problem, "cannot write: No space left on device");
  EXPECT_EQ(harness_.status().model_file, "");
  EXPECT_EQ(sink_.abandoned, 1);
  EXPECT_TRUE(AreShardsTold());
}

TEST_F(ModelTest, AFileThatDoesNotBecomeDurableIsSaid) {
  RunUntilLeaving();
  sink_.outcome = Status::Io("cannot sync");
  Leave();
  EXPECT_EQ(harness_.status().model_problem, "cannot sync");
  EXPECT_TRUE(AreShardsTold());
}

TEST_F(ModelTest, WhatIsNoPartOfTheModelIsNotWritten) {
  RunUntilLeaving();
  harness_.shards[0].is_mute = true;
  Leave();
  proto::PullReply reply;
  reply.chunks.push_back({MakeChunkKey(5, 0), 0, 1, 0});
  harness_.Give(harness_.shards[0].peer, reply);
  EXPECT_THAT(harness_.status().model_problem, HasSubstr("no part of the chunks"));
}

TEST_F(ModelTest, AnotherCoordinatorReadsItFromTheBeginning) {
  RunUntilLeaving();
  harness_.shards[0].is_mute = true;
  Leave();
  EXPECT_EQ(sink_.begun, 1);
  harness_.shards[0].is_mute = false;
  harness_.Restart();
  harness_.Wait(harness_.timing.detect * 2);
  EXPECT_EQ(sink_.begun, 2);
  EXPECT_TRUE(sink_.IsWhole());
  EXPECT_TRUE(AreShardsTold());
  EXPECT_EQ(harness_.status().model_file, "runs/small/model.safetensors");
}

TEST_F(ModelTest, AShardThatWasAwayForLongHasAsLongAgainToComeBack) {
  workers_ = harness_.StartWithWorkers();
  Disconnect(0);
  harness_.Wait(harness_.timing.server_detect - harness_.timing.heartbeat, workers_);
  RunToTheEnd(&harness_, &workers_);
  harness_.Wait(harness_.timing.detect * 2);
  EXPECT_EQ(harness_.status().model_problem, "");
  harness_.Wait(harness_.timing.server_detect);
  EXPECT_EQ(harness_.status().model_file, "");
  EXPECT_THAT(harness_.status().model_problem, HasSubstr("shard 0 has been gone for"));
}

TEST_F(ModelTest, ACoordinatorThatSleptBlamesNoShard) {
  RunUntilLeaving();
  harness_.now += harness_.timing.server_detect * 2;
  Leave();
  EXPECT_EQ(harness_.status().model_problem, "");
  EXPECT_TRUE(sink_.IsWhole());
}

TEST_F(ModelTest, ACoordinatorThatIsAskedToStopAsSoonAsItWakesBlamesNoShard) {
  RunUntilLeaving();
  sink_.outcome.reset();
  harness_.shards[1].is_mute = true;
  Leave();
  harness_.now += harness_.timing.server_detect * 2;
  harness_.core->RequestStop(false, "Ctrl-C", harness_.now, harness_.out());
  EXPECT_EQ(harness_.status().model_problem, "");
}

TEST(ModelOfALostServerTest, IsReadFromTheServerThatComesBackWhileTheRunEnds) {
  FakeSink sink;
  FakeDisk disk;
  CoordinatorOptions options = OptionsWith(&disk);
  options.model_sink = &sink;
  Harness harness(std::move(options));
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  harness.core->RequestStop(false, "enough", harness.now, harness.out());
  harness.Exit(proto::ProcessKind::kServer, 1, 501, "killed by signal 9");
  CloseAll(&harness, workers);
  harness.Wait(harness.timing.detect * 8);
  EXPECT_EQ(harness.status().state, proto::RunState::kStopped);
  EXPECT_EQ(harness.status().model_file, "") << "half of it is not there";
  harness.shards[1].membership = proto::Membership();
  harness.shards[1].is_mute = true;
  harness.RegisterShard(1, 777);
  harness.shards[1].is_mute = false;  // the set-up is lost, and has to come again
  harness.Wait(harness.timing.retry_limit * 2);
  ASSERT_EQ(disk.writes.size(), 1U) << "a last checkpoint";
  harness.core->OnManifestWritten(
      disk.writes[0].checkpoint, Status::Ok(), harness.now, harness.out());
  harness.Wait(harness.timing.lease);
  EXPECT_TRUE(sink.IsWhole());
  EXPECT_EQ(harness.status().model_file, sink.path());
}

}  // namespace
}  // namespace ps::coordinator
