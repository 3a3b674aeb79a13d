#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/backend.h"
#include "ps/client/chunk_layout.h"
#include "ps/client/gradient_encoder.h"
#include "ps/client/host_tensors.h"
#include "ps/codec/encoding.h"
#include "ps/proto/exchange.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/cuda_emulation/trainer_rig.h"
#include "worker/model/model_memory.h"

// Gradients that a device encodes, against the same that the host encodes.

namespace ps::worker::test {
namespace {

using codec::Encoding;
using codec::EncodingKind;

/// A frame of 200 bytes: parts of 50 elements.
constexpr size_t kFrameBytes = 200;
constexpr Encoding kWhole{EncodingKind::kF32};
constexpr Encoding kEncodings[] = {
    {EncodingKind::kBf16},
    {EncodingKind::kInt8},
    {EncodingKind::kInt4},
    {EncodingKind::kTopk, 50'000}};

enum class EncodedBy { kDevice, kHost };

/// A trainer on an imaginary device, whose gradients become what travels.
class EncodedRig {
 public:
  EncodedRig(const proto::JobConfig& config, EncodedBy by, const Encoding& encoding)
      : by_(by),
        trainer_(
            Trainer::Make(config, {kernels::MakeCudaBackend(0, kernels::GemmKind::kOwn).value()})
                .value()),
        pushes_(trainer_->TensorPushes()) {
    proto::Placement placement;
    for (uint32_t tensor = 0; tensor < trainer_->TensorElements().size(); ++tensor) {
      constexpr int64_t kChunk = 120;  // the last part of a chunk is shorter
      const int64_t count = trainer_->TensorElements()[tensor];
      for (int64_t begin = 0; begin < count; begin += kChunk) {
        placement.chunks.push_back(
            {MakeChunkKey(tensor, static_cast<uint32_t>(begin / kChunk)),
             static_cast<uint32_t>(std::min(kChunk, count - begin)),
             begin,
             ShardId(0)});
      }
    }
    layout_ =
        client::ChunkLayout::Make(trainer_->TensorElements(), placement, EncodingsOf(encoding))
            .value();
    const auto make = [this](size_t size_bytes) { return trainer_->MakeBuffer(size_bytes); };
    tensors_.emplace(client::HostTensors::Make(layout_, 1, make).value());
    Random random(11);
    parameters_ =
        trainer_->MakeBuffer(static_cast<size_t>(layout_.element_count()) * sizeof(float)).value();
    for (float& value : parameters_.floats()) {
      value = static_cast<float>(random.Unit() - 0.5);
    }
    const proto::TensorLayout tensors(trainer_->TensorElements());
    for (size_t i = 0; i < pushes_.size(); ++i) {
      const auto size = static_cast<size_t>(trainer_->TensorElements()[i]);
      const int64_t at = tensors.OffsetOf(i);
      trainer_->Upload({at, parameters_.floats().subspan(static_cast<size_t>(at), size)});
    }
    trainer_->Settle();
  }

  void Begin(bool has_feedback) {
    if (by_ == EncodedBy::kHost) {
      encoder_.emplace(layout_, kFrameBytes, has_feedback);
    } else {
      EXPECT_TRUE(trainer_->BeginEncodings(layout_, kFrameBytes, has_feedback).ok());
    }
  }

  void Change(const Encoding& encoding, bool has_feedback) {
    EXPECT_TRUE(TryChange(encoding, has_feedback));
  }

  /// False: the device has no room, and the host encodes from now on.
  bool TryChange(const Encoding& encoding, bool has_feedback) {
    layout_.SetEncodings(EncodingsOf(encoding));
    if (encoder_) {
      encoder_->Change(layout_, has_feedback);
      return true;
    }
    const bool has_room = trainer_->SetEncodings(layout_, kFrameBytes, has_feedback).ok();
    if (!has_room) {
      encoder_.emplace(layout_, kFrameBytes, has_feedback);
    }
    return has_room;
  }

  std::string TakeNote() { return trainer_->TakeNote(); }

  bool has_given_up() const { return trainer_->has_given_up_encoding(); }

  /// What the servers decode of a push of these samples, where the f32 values would lie.
  std::vector<float> Push(uint64_t begin, uint64_t end, bool is_local, bool is_last = false) {
    const std::shared_ptr<client::FlatGradient> loan = tensors_->Lend().value();
    std::ranges::fill(loan->floats(), 0.0F);
    client::ComputeTask task;
    task.step = 1;
    task.begin = begin;
    task.end = end;
    task.minibatch = 4;
    task.local_steps = 3;
    task.is_local = is_local;
    const auto finish = [&](uint32_t tensor) { Finish(tensor, is_last, loan.get()); };
    const auto done = trainer_->Step(
        task, {parameters_.floats(), loan->floats(), loan.get()}, {.on_ready = finish});
    EXPECT_TRUE(done.ok()) << done.status();
    for (uint32_t tensor = 0; is_local && tensor < pushes_.size(); ++tensor) {
      finish(tensor);
    }
    held_back = encoder_ ? encoder_->TakeHeldBack() : trainer_->TakeHeldBack().value();
    return Arrived(*loan);
  }

  std::vector<float> Arrived(const client::FlatGradient& gradient) const {
    std::vector<float> values(static_cast<size_t>(layout_.element_count()));
    const proto::ChunkParts parts(kFrameBytes);
    for (const client::ChunkLayout::Chunk& chunk : layout_.chunks()) {
      for (uint32_t part = 0; part < parts.CountOf(chunk.element_count); ++part) {
        const auto [begin, count] = parts.At(chunk.element_count, part);
        const Status status = codec::Decode(
            gradient.EncodingOf(chunk),
            gradient.Piece(chunk, begin, count),
            std::span(values).subspan(static_cast<size_t>(chunk.offset) + begin, count));
        EXPECT_TRUE(status.ok()) << status;
      }
    }
    return values;
  }

  double held_back = 0;

 private:
  std::vector<Encoding> EncodingsOf(const Encoding& encoding) const {
    std::vector<Encoding> encodings;
    for (const proto::PushKind kind : pushes_) {
      encodings.push_back(proto::PushEncodingOf(encoding, kind));
    }
    return encodings;
  }

  void Finish(uint32_t tensor, bool is_last, client::FlatGradient* loan) {
    if (by_ == EncodedBy::kDevice) {
      EXPECT_TRUE(trainer_->FinishEncoded(tensor, is_last, loan).ok());
    }
    if (!encoder_) {
      return;
    }
    if (is_last || encoder_->EndsFeedback(tensor)) {
      encoder_->HandOver(tensor, loan);
    } else {
      encoder_->Encode(tensor, loan->floats());
    }
  }

  const EncodedBy by_;
  const std::unique_ptr<Trainer> trainer_;
  const std::vector<proto::PushKind> pushes_;
  client::ChunkLayout layout_;
  std::optional<client::HostTensors> tensors_;
  std::optional<client::GradientEncoder> encoder_;
  Buffer parameters_;
};

class EncoderOnDeviceTest : public testing::Test {
 protected:
  EncoderOnDeviceTest() : config_(PictureJob(folder_)) {
    config_.model.layers = {Conv2d(4, 3), BatchNorm(), Relu(), Flatten(), Linear(16), Linear(3)};
    config_.train.minibatch = 4;
    config_.optimizer.lr = 0.1F;
  }

  ~EncoderOnDeviceTest() override { EXPECT_EQ(cuda_emulation::TakeFailure(), ""); }

  const DataFolder folder_;
  proto::JobConfig config_;
};

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b, double bound) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], bound) << i;
  }
}

TEST_F(EncoderOnDeviceTest, WhatTravelsIsWhatTheHostWouldHaveMade) {
  for (const Encoding& encoding : kEncodings) {
    for (const bool has_feedback : {false, true}) {
      for (const bool is_local : {false, true}) {
        EncodedRig host(config_, EncodedBy::kHost, encoding);
        EncodedRig device(config_, EncodedBy::kDevice, encoding);
        host.Begin(has_feedback);
        device.Begin(has_feedback);
        for (uint64_t step = 0; step < 4; ++step) {  // the second is recorded, the others repeated
          ASSERT_EQ(device.Push(step, step + 8, is_local), host.Push(step, step + 8, is_local))
              << encoding.ToText() << " step " << step;
          EXPECT_NEAR(device.held_back, host.held_back, 1e-4 * host.held_back);
          EXPECT_EQ(device.held_back > 0, has_feedback) << encoding.ToText();
        }
      }
    }
  }
}

TEST_F(EncoderOnDeviceTest, ClippedGradientsAreEncodedWhenTheyAreClipped) {
  config_.optimizer.clip_norm = 0.01F;
  EncodedRig host(config_, EncodedBy::kHost, {EncodingKind::kInt8});
  EncodedRig device(config_, EncodedBy::kDevice, {EncodingKind::kInt8});
  host.Begin(true);
  device.Begin(true);
  for (uint64_t step = 0; step < 3; ++step) {
    ASSERT_EQ(device.Push(step, step + 4, false), host.Push(step, step + 4, false));
  }
}

TEST_F(EncoderOnDeviceTest, AQuarterOfTheBytesLeaveTheDevice) {
  EncodedRig device(config_, EncodedBy::kDevice, {EncodingKind::kInt8});
  EncodedRig whole(config_, EncodedBy::kDevice, kWhole);
  device.Begin(false);
  whole.Begin(false);
  device.Push(0, 4, false);
  whole.Push(0, 4, false);
  cuda_emulation::TakeTraffic();
  device.Push(0, 4, false);
  const uint64_t encoded = cuda_emulation::TakeTraffic().downloaded;
  whole.Push(0, 4, false);
  const uint64_t in_full = cuda_emulation::TakeTraffic().downloaded;
  EXPECT_LT(encoded, in_full * 3 / 10);
}

/// The last push takes along what is kept: it loses nothing of what was ever computed.
TEST_F(EncoderOnDeviceTest, TheLastPushHandsOverWhatIsKept) {
  for (const Encoding& encoding : kEncodings) {
    for (const bool is_local : {false, true}) {
      EncodedRig host(config_, EncodedBy::kHost, encoding);
      EncodedRig device(config_, EncodedBy::kDevice, encoding);
      host.Begin(true);
      device.Begin(true);
      for (uint64_t step = 0; step < 3; ++step) {
        device.Push(step, step + 8, is_local);
        host.Push(step, step + 8, is_local);
      }
      ExpectNear(device.Push(1, 9, is_local, true), host.Push(1, 9, is_local, true), 2e-6);
      ASSERT_EQ(device.Push(2, 10, is_local), host.Push(2, 10, is_local)) << "nothing was left";
    }
  }
}

TEST_F(EncoderOnDeviceTest, AChangeLosesNothingOfWhatIsKept) {
  EncodedRig host(config_, EncodedBy::kHost, {EncodingKind::kInt4});
  EncodedRig device(config_, EncodedBy::kDevice, {EncodingKind::kInt4});
  host.Begin(true);
  device.Begin(true);
  const auto push = [&](uint64_t begin, double bound) {
    for (int step = 0; step < 2; ++step) {
      ASSERT_NO_FATAL_FAILURE(ExpectNear(
          device.Push(begin, begin + 4, false), host.Push(begin, begin + 4, false), bound))
          << begin;
    }
  };
  const auto change = [&](const Encoding& encoding, bool has_feedback) {
    host.Change(encoding, has_feedback);
    device.Change(encoding, has_feedback);
  };
  push(0, 0);
  change({EncodingKind::kInt8}, true);
  push(1, 0);
  change(kWhole, true);
  push(2, 2e-6);
  change({EncodingKind::kTopk, 50'000}, true);
  push(3, 2e-6);
  change({EncodingKind::kInt8}, false);  // what top-k has kept goes with the next push
  push(4, 2e-6);
  change({EncodingKind::kInt8}, true);
  push(5, 2e-6);
}

TEST_F(EncoderOnDeviceTest, ANewSessionBeginsWithNothingKept) {
  EncodedRig host(config_, EncodedBy::kHost, {EncodingKind::kInt4});
  EncodedRig device(config_, EncodedBy::kDevice, {EncodingKind::kInt4});
  for (int session = 0; session < 2; ++session) {
    host.Begin(true);
    device.Begin(true);
    for (uint64_t step = 0; step < 3; ++step) {
      ASSERT_EQ(device.Push(step, step + 4, false), host.Push(step, step + 4, false)) << session;
    }
  }
}

/// As a worker's thread does then: it encodes by itself, and what the device has kept goes along.
TEST_F(EncoderOnDeviceTest, WithoutMemoryForAChangeTheHostGoesOnAndNothingIsLost) {
  EncodedRig host(config_, EncodedBy::kHost, {EncodingKind::kInt4});
  EncodedRig device(config_, EncodedBy::kDevice, {EncodingKind::kInt4});
  host.Begin(true);
  device.Begin(true);
  for (uint64_t step = 0; step < 2; ++step) {
    ASSERT_EQ(device.Push(step, step + 4, false), host.Push(step, step + 4, false));
  }
  cuda_emulation::SetDeviceMemory(1);
  EXPECT_FALSE(device.TryChange({EncodingKind::kInt8}, true));  // which needs more bytes
  EXPECT_NE(device.TakeNote().find("so the CPU makes them"), std::string::npos);
  cuda_emulation::SetDeviceMemory(0);
  host.Change({EncodingKind::kInt8}, true);
  for (uint64_t step = 0; step < 3; ++step) {
    ASSERT_NO_FATAL_FAILURE(
        ExpectNear(device.Push(step, step + 4, false), host.Push(step, step + 4, false), 2e-6));
  }
}

/// The memory goes to the step, whose gradient leaves whole; from then on the host encodes.
TEST_F(EncoderOnDeviceTest, AStepThatNeedsTheMemoryGetsIt) {
  config_.model.layers = {Flatten(), Linear(600), Relu(), Linear(3)};
  const Model model = MakeModel(config_.model, {1, 8, 9}, 3).value();
  const auto said =
      static_cast<double>(MemoryOf(model, {.samples = 8, .has_own_memory = true}).total());
  std::vector<float> whole;
  {
    EncodedRig host(config_, EncodedBy::kHost, kWhole);
    host.Begin(true);
    whole = host.Push(0, 8, false);
  }
  EncodedRig device(config_, EncodedBy::kDevice, {EncodingKind::kInt8});
  device.Begin(true);
  cuda_emulation::SetDeviceMemory(static_cast<size_t>(1.3 * said));
  const std::vector<float> pushed = device.Push(0, 8, false);
  cuda_emulation::SetDeviceMemory(0);
  EXPECT_TRUE(device.has_given_up());
  EXPECT_NE(device.TakeNote().find("so the CPU makes them"), std::string::npos);
  EXPECT_EQ(pushed, whole) << "it left as f32";
}

/// The same when something is kept: it goes along with that push, from the host.
TEST_F(EncoderOnDeviceTest, WhatIsKeptIsNotLostWhenAStepNeedsTheMemory) {
  config_.model.layers = {Flatten(), Linear(600), Relu(), Linear(3)};
  std::vector<float> whole;
  {
    EncodedRig host(config_, EncodedBy::kHost, {EncodingKind::kInt4});
    host.Begin(true);
    host.Push(0, 4, false);
    host.Push(1, 5, false);
    whole = host.Push(0, 12, false, true);
  }
  EncodedRig device(config_, EncodedBy::kDevice, {EncodingKind::kInt4});
  device.Begin(true);
  device.Push(0, 4, false);
  device.Push(1, 5, false);
  const Model model = MakeModel(config_.model, {1, 8, 9}, 3).value();
  const auto said =
      static_cast<double>(MemoryOf(model, {.samples = 12, .has_own_memory = true}).total());
  cuda_emulation::SetDeviceMemory(static_cast<size_t>(1.3 * said));
  const std::vector<float> pushed = device.Push(0, 12, false);  // more samples than before
  cuda_emulation::SetDeviceMemory(0);
  EXPECT_TRUE(device.has_given_up());
  ExpectNear(pushed, whole, 2e-6);
}

/// A batch norm learns nothing from a single sample: the push is zeros.
TEST_F(EncoderOnDeviceTest, AStepThatIsPassedOverPushesNothing) {
  config_.model.layers = {Flatten(), Linear(4), BatchNorm(), Linear(3)};
  EncodedRig device(config_, EncodedBy::kDevice, {EncodingKind::kInt8});
  device.Begin(true);
  device.Push(0, 4, false);
  const std::vector<float> nothing = device.Push(4, 5, false);
  EXPECT_EQ(nothing[0], 0);
  EncodedRig fresh(config_, EncodedBy::kDevice, {EncodingKind::kInt8});
  fresh.Begin(true);
  fresh.Push(0, 4, false);
  ASSERT_EQ(device.Push(5, 9, false), fresh.Push(5, 9, false)) << "what was kept stays";
}

}  // namespace
}  // namespace ps::worker::test
