#include "worker/upload_thread.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/backend.h"
#include "tests/worker/upload_thread_fixture.h"

namespace ps::worker::test {
namespace {

/// The CPU as a device whose memory is not the host's.
class ApartBackend final : public kernels::Backend {
 public:
  std::string Name() const override { return "apart"; }

  bool is_host_memory() const override { return false; }

  void Reach(const Backend& /*other*/) override {}

  Result<std::unique_ptr<kernels::Memory>> AllocateDevice(size_t size_bytes) override {
    return cpu_->AllocateDevice(size_bytes);
  }

  Result<std::unique_ptr<kernels::Memory>> AllocatePinned(size_t size_bytes) override {
    return cpu_->AllocatePinned(size_bytes);
  }

  Result<std::unique_ptr<kernels::Stream>> MakeStream() override { return cpu_->MakeStream(); }

  Result<std::unique_ptr<kernels::Event>> MakeEvent() override { return cpu_->MakeEvent(); }

 private:
  const std::unique_ptr<kernels::Backend> cpu_ = kernels::MakeCpuBackend();
};

class UploadThreadApartTest : public UploadThreadTest {
 protected:
  UploadThreadApartTest() { backend_ = std::make_shared<ApartBackend>(); }
};

TEST_F(UploadThreadApartTest, AStepReadsWhatCameBeforeItBegan) {
  for (const bool has_second_copy : {true, false}) {
    ExpectThatAStepReadsWhatCameBefore(has_second_copy);
  }
}

TEST_F(UploadThreadApartTest, AStepOfTooFewSamplesReadsTheHostsMemoryAndKeepsIt) {
  ExpectThatTooFewSamplesKeepTheHostsMemory();
}

TEST_F(UploadThreadApartTest, ATaskWaitsUntilItsValuesAreOnTheirWay) {
  MakeTrainer({Flatten(), Linear(3)}, true);
  // A frame that its owner takes back late keeps the thread busy.
  std::promise<void> late;
  client::PullIntake::Fresh fresh;
  const std::vector<float> values(3, 0.5F);
  fresh.offset = layout_.chunks().back().offset;
  fresh.bytes = std::as_bytes(std::span(values));
  fresh.element_count = 3;
  fresh.owner =
      std::shared_ptr<const void>(nullptr, [&](const void* /*none*/) { late.get_future().wait(); });
  uploads_.Put(std::move(fresh), &*tensors_, trainer_.get());
  Come(0.01F);
  uploads_.BeginTask();
  auto awaited = std::async(std::launch::async, [this] { return uploads_.AwaitTaskValues(); });
  EXPECT_EQ(awaited.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  late.set_value();
  EXPECT_TRUE(awaited.get());
  const std::span<const float> last =
      tensors_->parameters().subspan(static_cast<size_t>(layout_.chunks().back().offset), 3);
  EXPECT_EQ(last[2], 0.02F) << "all that came before the task, in order";
  uploads_.EndTask();
}

TEST_F(UploadThreadApartTest, StopEndsTheWaitOfATask) {
  MakeTrainer({Flatten(), Linear(3)}, true);
  uploads_.BeginTask();
  Come(0.01F);
  EXPECT_TRUE(uploads_.AwaitTaskValues()) << "these are not the task's";
  uploads_.Stop();
  EXPECT_FALSE(uploads_.AwaitTaskValues());
  uploads_.AwaitAll();
}

}  // namespace
}  // namespace ps::worker::test
