#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/backend.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/worker/model/model_builder.h"
#include "tests/worker/model/network_rig.h"
#include "tests/worker/upload_thread_fixture.h"

// Values that come to a device during a step are those of the next one.

namespace ps::worker::test {
namespace {

using cuda_emulation::Issue;
using cuda_emulation::IssueKind;
using testing::HasSubstr;

proto::ModelConfig UploadedModel(Layers layers) {
  proto::ModelConfig config;
  config.layers = std::move(layers);
  return config;
}

/// Pinned memory of a network's caller, for one step after the other.
class Caller {
 public:
  Caller(const NetworkRig& rig, kernels::Backend* backend)
      : network_(rig.network.get()),
        images_(backend, rig.images),
        labels_(backend, rig.labels),
        backend_(backend) {
    for (const std::vector<float>& gradient : rig.gradients) {
      gradients_.push_back(memory_.emplace_back(backend, gradient).span());
    }
  }

  /// Tensors with values of their own, each time others.
  std::vector<std::span<const float>> MakeValues(const NetworkRig& rig) {
    std::vector<std::span<const float>> values;
    ++versions_;
    for (const std::vector<float>& parameters : rig.parameters) {
      const std::span<float> span = memory_.emplace_back(backend_, parameters).span();
      std::ranges::for_each(span, [this](float& x) { x *= 1 + 0.1F * versions_; });
      values.emplace_back(span);
    }
    return values;
  }

  /// Gradients with the parameters on the device; `on_begin` as of Network::StepOptions.
  std::vector<std::vector<float>> Step(
      const std::vector<std::span<const float>>& parameters, std::function<void()> on_begin = {}) {
    const auto loss = network_->TrainStep(
        parameters,
        {images_.span(), labels_.span()},
        {.step = 1, .on_begin = std::move(on_begin)},
        gradients_,
        {});
    EXPECT_TRUE(loss.ok()) << loss.status();
    std::vector<std::vector<float>> gradients;
    for (const std::span<float> gradient : gradients_) {
      gradients.emplace_back(gradient.begin(), gradient.end());
    }
    return gradients;
  }

 private:
  Network* const network_;
  const PinnedValues<float> images_;
  const PinnedValues<uint32_t> labels_;
  kernels::Backend* const backend_;
  std::vector<PinnedValues<float>> memory_;
  std::vector<std::span<float>> gradients_;
  float versions_ = 0;
};

class UploadsOnDeviceTest : public testing::Test {
 protected:
  UploadsOnDeviceTest() {
    cuda_emulation::SetMachine(CUDART_VERSION, 2);
    for (int i = 0; i < 2; ++i) {
      backends_.push_back(kernels::MakeCudaBackend(i, kernels::GemmKind::kOwn).value());
    }
  }

  ~UploadsOnDeviceTest() override {
    EXPECT_EQ(cuda_emulation::TakeFailure(), "");
    cuda_emulation::SetDeviceMemory(0);
    backends_.clear();
    cuda_emulation::SetMachine(CUDART_VERSION, 1);
  }

  NetworkRig MakeRig(size_t devices) const {
    std::vector<kernels::Backend*> on;
    for (size_t i = 0; i < devices; ++i) {
      on.push_back(backends_[i].get());
    }
    return NetworkRig(
        on,
        UploadedModel({Conv2d(5, 3), BatchNorm(), Relu(), Flatten(), Linear(7), Linear(3)}),
        {1, 5, 5},
        4,
        3);
  }

  std::vector<std::unique_ptr<kernels::Backend>> backends_;
};

// The second step is recorded, and those behind it are repeated: a graph reads the same places.
TEST_F(UploadsOnDeviceTest, ValuesThatComeDuringAStepAreForTheNextOne) {
  for (const size_t devices : {1U, 2U}) {
    NetworkRig rig = MakeRig(devices);
    NetworkRig twin = MakeRig(devices);
    Caller caller(rig, backends_[0].get());
    Caller plain(twin, backends_[0].get());
    ASSERT_TRUE(rig.network->ReserveSecondCopy().ok());
    ASSERT_TRUE(rig.network->has_second_copy());
    std::vector<std::span<const float>> now = caller.MakeValues(rig);
    rig.network->UploadAll(now);
    for (int step = 0; step < 5; ++step) {
      const std::vector<std::span<const float>> next = caller.MakeValues(rig);
      const auto come = [&] {
        for (uint32_t i = 0; i < next.size(); ++i) {
          rig.network->Upload(i, 0, next[i]);
        }
        // All that an upload has to wait for is what the device was told before.
        EXPECT_TRUE(rig.network->SettleUploads().ok());
      };
      twin.network->UploadAll(now);
      const auto expected = plain.Step(now);
      EXPECT_EQ(caller.Step(now, come), expected) << devices << " devices, step " << step;
      rig.network->TakeUploads();
      now = next;
    }
    EXPECT_EQ(rig.network->TakeNote(), "");
  }
}

TEST_F(UploadsOnDeviceTest, OnlyWhatHasComeIsTaken) {
  NetworkRig rig = MakeRig(1);
  NetworkRig twin = MakeRig(1);
  Caller caller(rig, backends_[0].get());
  Caller plain(twin, backends_[0].get());
  ASSERT_TRUE(rig.network->ReserveSecondCopy().ok());
  const auto first = caller.MakeValues(rig);
  const auto second = caller.MakeValues(rig);
  rig.network->UploadAll(first);

  // Two parts of a tensor with a hole between them; the end of the largest one, and all of the
  // next.
  const auto largest = std::ranges::max_element(first, {}, &std::span<const float>::size);
  const auto tensor_of = static_cast<uint32_t>(largest - first.begin());

  struct Part {
    uint32_t tensor;
    size_t begin;
    size_t count;
  } const parts[] = {
      {0, 30, 10},
      {0, 3, 20},
      {tensor_of, 100, largest->size() - 100},
      {tensor_of + 1, 0, first[tensor_of + 1].size()}};

  std::vector<PinnedValues<float>> mixed;
  std::vector<std::span<const float>> expected;
  for (const std::span<const float> values : first) {
    expected.emplace_back(
        mixed.emplace_back(backends_[0].get(), std::vector(values.begin(), values.end())).span());
  }
  for (const auto& [tensor, begin, count] : parts) {
    const std::span<const float> values = second[tensor].subspan(begin, count);
    rig.network->Upload(tensor, static_cast<int64_t>(begin), values);
    std::ranges::copy(values, mixed[tensor].span().begin() + static_cast<int64_t>(begin));
  }
  cuda_emulation::IssueLog log;
  rig.network->TakeUploads();
  EXPECT_EQ(std::ranges::count(log.Take(), IssueKind::kKernel, &Issue::kind), 3)
      << "the last two touch but for the padding between tensors";
  twin.network->UploadAll(expected);
  EXPECT_EQ(caller.Step(first), plain.Step(expected));
}

TEST_F(UploadsOnDeviceTest, ASecondCopyGivesWayToAMinibatch) {
  NetworkRig twin = MakeRig(1);
  Caller plain(twin, backends_[0].get());
  const auto values = plain.MakeValues(twin);
  twin.network->UploadAll(values);
  const auto expected = plain.Step(values);
  std::string note;
  for (size_t spare = 160 << 10; note.empty(); spare -= 1 << 10) {
    NetworkRig rig = MakeRig(1);
    Caller caller(rig, backends_[0].get());
    ASSERT_TRUE(rig.network->ReserveSecondCopy().ok());
    ASSERT_EQ(rig.network->TakeNote(), "");
    ASSERT_GT(spare, 1U << 10);
    cuda_emulation::SetDeviceMemory(spare);
    rig.network->UploadAll(values);
    bool had_second_copy = false;
    const auto note_it = [&] { had_second_copy = rig.network->has_second_copy(); };
    EXPECT_EQ(caller.Step(values, note_it), expected) << spare;
    cuda_emulation::SetDeviceMemory(0);
    note = rig.network->TakeNote();
    EXPECT_EQ(had_second_copy, note.empty()) << spare;
    EXPECT_EQ(rig.network->TakeNote(), "") << "said once";
  }
  EXPECT_THAT(
      note,
      HasSubstr("there is no memory for a second copy of the parameters, so they go to the device "
                "between steps instead of during them, which takes longer: "));
}

class UploadThreadOnDeviceTest : public UploadThreadTest {
 protected:
  UploadThreadOnDeviceTest() {
    backend_ = kernels::MakeCudaBackend(0, kernels::GemmKind::kOwn).value();
  }

  ~UploadThreadOnDeviceTest() override { EXPECT_EQ(cuda_emulation::TakeFailure(), ""); }
};

// Both the host's memory and the device's are written while the step's own values may not have left
// the one, and are read in the other.
TEST_F(UploadThreadOnDeviceTest, AStepReadsWhatCameBeforeItBegan) {
  for (const bool has_second_copy : {true, false}) {
    ExpectThatAStepReadsWhatCameBefore(has_second_copy);
  }
}

/// Its observations are the running statistics that it began with, which the host has.
TEST_F(UploadThreadOnDeviceTest, AStepOfTooFewSamplesReadsTheHostsMemoryAndKeepsIt) {
  ExpectThatTooFewSamplesKeepTheHostsMemory();
}

}  // namespace
}  // namespace ps::worker::test
