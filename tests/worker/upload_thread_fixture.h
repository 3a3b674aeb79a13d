#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "ps/client/chunk_layout.h"
#include "ps/client/host_tensors.h"
#include "tests/worker/data/data_files.h"
#include "tests/worker/model/model_builder.h"
#include "worker/trainer.h"
#include "worker/upload_thread.h"

namespace ps::worker::test {

/// A worker's trainer, its tensors and its upload thread, for which a test is loop and task.
class UploadThreadTest : public testing::Test {
 protected:
  UploadThreadTest() { WriteIdxSet(folder_, 20, 7); }

  ~UploadThreadTest() override { uploads_.Stop(); }

  void MakeTrainer(Layers layers, bool has_second_copy) {
    proto::JobConfig config;
    config.data.directory = folder_.path();
    config.model.layers = std::move(layers);
    config.train.overlap = has_second_copy;
    trainer_ = Trainer::Make(config, {backend_}).value();
    proto::Placement placement;
    placement.version = 1;
    for (size_t i = 0; i < trainer_->TensorElements().size(); ++i) {
      const auto elements = static_cast<uint32_t>(trainer_->TensorElements()[i]);
      placement.chunks.push_back(
          {MakeChunkKey(static_cast<uint32_t>(i), 0), elements, 0, ShardId(0)});
    }
    layout_ = client::ChunkLayout::Make(trainer_->TensorElements(), placement).value();
    const auto make = [this](size_t size_bytes) { return trainer_->MakeBuffer(size_bytes); };
    tensors_.emplace(client::HostTensors::Make(layout_, 1, make).value());
  }

  /// All parameters come, each tensor in a frame of its own.
  void Come(float value) {
    for (const client::ChunkLayout::Chunk& chunk : layout_.chunks()) {
      auto frame = std::make_shared<Buffer>(chunk.element_count * sizeof(float));
      for (uint32_t i = 0; i < chunk.element_count; ++i) {
        frame->floats()[i] = value * static_cast<float>(i % 5);
      }
      client::PullIntake::Fresh fresh;
      fresh.key = chunk.key;
      fresh.offset = chunk.offset;
      fresh.bytes = frame->bytes();
      fresh.element_count = chunk.element_count;
      fresh.owner = std::move(frame);
      uploads_.Put(std::move(fresh), &*tensors_, trainer_.get());
    }
  }

  struct Values {
    float during = 0;  // that come before the task has taken its own
    float behind = 0;  // and as soon as it has
    uint64_t samples = 8;
  };

  /// The gradient of a step, and whether it let values on.
  std::vector<float> Step(const Values& values) {
    uploads_.BeginTask();
    if (values.during != 0) {
      Come(values.during);
    }
    EXPECT_TRUE(uploads_.AwaitTaskValues());
    Trainer::StepWatch watch;
    has_let_on_ = false;
    watch.on_taken = [&] {
      has_let_on_ = true;
      uploads_.LetOn();
      if (values.behind != 0) {
        Come(values.behind);
      }
      uploads_.AwaitAll();  // as early as it can be
    };
    Buffer gradient = trainer_->MakeBuffer(tensors_->parameters().size_bytes()).value();
    std::ranges::fill(gradient.floats(), 0.0F);
    client::ComputeTask task;
    task.begin = 3;
    task.end = 3 + values.samples;
    const auto done = trainer_->Step(task, {tensors_->parameters(), gradient.floats()}, watch);
    EXPECT_TRUE(done.ok()) << done.status();
    uploads_.EndTask();
    return {gradient.floats().begin(), gradient.floats().end()};
  }

  /// The gradient with these parameters alone.
  std::vector<float> StepWith(float value) {
    uploads_.AwaitAll();
    Come(value);
    return Step({});
  }

  void ExpectThatAStepReadsWhatCameBefore(bool has_second_copy) {
    MakeTrainer({Flatten(), Linear(3)}, has_second_copy);
    std::vector<std::vector<float>> expected;
    for (const float value : {0.01F, 0.02F, 0.03F, 0.04F}) {
      expected.push_back(StepWith(value));
    }
    EXPECT_NE(expected[0], expected[1]);
    uploads_.AwaitAll();
    Come(0.01F);
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(Step({.during = 0.02F, .behind = 0.03F}), expected[0]);
      EXPECT_EQ(has_let_on_, has_second_copy);
      EXPECT_EQ(Step({.during = 0.04F}), expected[has_second_copy ? 2 : 1]);
      EXPECT_EQ(Step({.during = 0.03F, .behind = 0.01F}), expected[3]);
      if (!has_second_copy) {
        uploads_.AwaitAll();
        Come(0.01F);
      }
    }
    uploads_.AwaitAll();
    trainer_->Settle();
  }

  void ExpectThatTooFewSamplesKeepTheHostsMemory() {
    MakeTrainer({Flatten(), Linear(4), BatchNorm(), Linear(3)}, true);
    Come(0.01F);
    const std::vector<float> expected = Step({.samples = 1});
    Come(0.01F);
    EXPECT_EQ(Step({.during = 0.02F, .behind = 0.03F, .samples = 1}), expected);
    EXPECT_FALSE(has_let_on_);
    uploads_.AwaitAll();
    EXPECT_NE(Step({.samples = 1}), expected) << "the next one has what came meanwhile";
    uploads_.AwaitAll();
    trainer_->Settle();
  }

  std::shared_ptr<kernels::Backend> backend_;
  const DataFolder folder_;
  std::unique_ptr<Trainer> trainer_;
  client::ChunkLayout layout_;
  std::optional<client::HostTensors> tensors_;
  bool has_let_on_ = false;
  UploadThread uploads_;
};

}  // namespace ps::worker::test
