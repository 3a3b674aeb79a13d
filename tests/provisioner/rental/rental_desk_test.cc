// The threads of a desk, with a provider of the test.

#include "provisioner/rental/rental_desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/provisioner/rental/no_notes.h"
#include "tests/provisioner/rental/scripted_provider.h"

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;

constexpr Duration kDeskPatience = std::chrono::seconds(30);

/// What all providers of a desk's threads talk to.
struct DeskCloud {
  std::mutex mutex;  // of the next one
  std::map<std::string, Machine> machines;
  std::atomic<int> providers = 0;
  std::atomic<bool> hangs = false;  // a rent does not return before it is cancelled
  std::atomic<bool> has_hung = false;
};

class DeskProvider final : public ScriptedProvider {
 public:
  DeskProvider(DeskCloud* cloud, IsCancelled is_cancelled)
      : cloud_(cloud), is_cancelled_(std::move(is_cancelled)) {
    cloud_->providers++;
  }

  RentReply Rent(const RentRequest& request) override {
    while (cloud_->hangs && !is_cancelled_()) {
      cloud_->has_hung = true;
      std::this_thread::yield();
    }
    Machine machine;
    machine.id = request.token;
    machine.pool = request.pools.front();
    machine.state = MachineState::kRunning;
    machine.address = "1.2.3.4";
    machine.tags = request.tags;
    machine.started_us = SystemTime().UnixMicros();
    const std::lock_guard lock(cloud_->mutex);
    cloud_->machines[machine.id] = machine;
    RentReply reply;
    reply.machine = machine;
    return reply;
  }

  ListReply List(const std::map<std::string, std::string>& /*tags*/) override {
    const std::lock_guard lock(cloud_->mutex);
    ListReply reply;
    for (const auto& [id, machine] : cloud_->machines) {
      reply.machines.push_back(machine);
    }
    return reply;
  }

  CallEnd Release(const std::vector<std::string>& ids) override {
    const std::lock_guard lock(cloud_->mutex);
    for (const std::string& id : ids) {
      cloud_->machines[id].state = MachineState::kGone;
      cloud_->machines[id].ended_us = SystemTime().UnixMicros();
    }
    return {};
  }

 private:
  DeskCloud* const cloud_;
  const IsCancelled is_cancelled_;
};

class RentalDeskTest : public testing::Test {
 protected:
  static RentalSeat Seat(uint32_t index) {
    return {proto::ProcessKind::kWorker, index, LaunchId(1)};
  }

  RentalDesk::Options Options() {
    RentalDesk::Options options;
    options.rental.run = "run";
    options.rental.pools = {{"type", "zone", true}};
    options.rental.rents_max = 2;
    options.rent.types = {"type"};
    options.rent.zones = {"zone"};
    options.rent.usd_per_hour = 36;
    options.make_provider = [this](IsCancelled is_cancelled) -> Result<std::unique_ptr<Provider>> {
      return std::unique_ptr<Provider>(
          std::make_unique<DeskProvider>(&cloud_, std::move(is_cancelled)));
    };
    return options;
  }

  void Open(RentalDesk::Options options) {
    auto desk = RentalDesk::Open(std::move(options), &notes_);
    ASSERT_TRUE(desk.ok()) << desk.status();
    desk_ = std::move(desk).value();
  }

  template <typename Condition>
  bool Until(Condition is_there) {
    const TimePoint by = SystemTime().Now() + kDeskPatience;
    while (!is_there() && SystemTime().Now() < by) {
      for (const RentalEvent& event : desk_->TakeEvents()) {
        events_.push_back(event);
      }
      desk_->AwaitAnswer(std::chrono::milliseconds(10));
    }
    return is_there();
  }

  DeskCloud cloud_;
  NoNotes notes_;
  std::unique_ptr<RentalDesk> desk_;
  std::vector<RentalEvent> events_;
};

TEST_F(RentalDeskTest, MachinesComeByWhicheverThreadIsFreeAndAllGoBack) {
  Open(Options());
  for (uint32_t index = 0; index < 4; index++) {
    desk_->Ask(Seat(index), {});
  }
  EXPECT_TRUE(Until([&] { return desk_->summary().machines == 4; }));
  EXPECT_NEAR(desk_->summary().usd_per_hour, 4 * 36, 1e-9) << "the job's price, as there is none";
  EXPECT_LE(cloud_.providers, 3) << "one of each thread";
  desk_->End();
  EXPECT_TRUE(Until([&] { return desk_->is_over(); }));
  for (const auto& [id, machine] : cloud_.machines) {
    EXPECT_EQ(machine.state, MachineState::kGone);
  }
  EXPECT_EQ(desk_->summary().machines, 0U);
  EXPECT_EQ(desk_->summary().rented, 4U);
  EXPECT_NEAR(desk_->summary().usd, 4 * 36.0 / 60, 0.3) << "a minute of each";
}

TEST_F(RentalDeskTest, WithoutAProviderWhoeverAsksIsToldWhy) {
  RentalDesk::Options options = Options();
  options.make_provider = [](IsCancelled) -> Result<std::unique_ptr<Provider>> {
    return Status::InvalidArgument("there are no keys");
  };
  Open(std::move(options));
  desk_->Ask(Seat(0), {});
  ASSERT_TRUE(Until([&] { return !events_.empty(); }));
  EXPECT_EQ(events_[0].kind, RentalEvent::Kind::kFailed);
  EXPECT_THAT(events_[0].why, HasSubstr("there are no keys"));
  EXPECT_THAT(desk_->summary().problem, HasSubstr("there are no keys"));
}

TEST_F(RentalDeskTest, ACallUnderWayIsCancelledWithTheDesk) {
  cloud_.hangs = true;
  Open(Options());
  desk_->Ask(Seat(0), {});
  EXPECT_TRUE(Until([&] { return cloud_.has_hung.load(); }));
  desk_.reset();  // does not hang
}

}  // namespace
}  // namespace ps::provisioner
