// How many calls a fleet takes, on virtual time, where nothing fails.

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <vector>

#include "provisioner/rental/rental_book.h"
#include "tests/provisioner/rental/no_notes.h"

namespace ps::provisioner {
namespace {

using Counts = std::map<RentalCall::Kind, int>;

/// `count` workers get machines and work for ten minutes; each is replaced once; all go back.
class RentedFleet {
 public:
  explicit RentedFleet(uint32_t count) : count_(count), book_(*Open(&notes_, Now())) {}

  Counts Run() {
    for (uint32_t seat = 0; seat < count_; seat++) {
      Ask(seat, 1);
    }
    Until([this] { return ready_ == count_; });
    const int64_t from = second_;
    Until([&] { return second_ == from + 600; });
    for (uint32_t seat = 0; seat < count_; seat++) {
      book_.Drop({proto::ProcessKind::kWorker, seat, LaunchId(1)}, true, Now());
      Ask(seat, 2);
    }
    Until([this] { return ready_ == 2 * count_; });
    book_.End(Now());
    Until([this] { return book_.is_over(); });
    return counts_;
  }

  int64_t seconds() const { return second_; }

 private:
  static Result<RentalBook> Open(RentalNotes* notes, RentalTime time) {
    RentalOptions options;
    options.run = "run";
    options.pools = {{"type", "zone", true}};
    options.rents_max = 8;
    return RentalBook::Open(options, notes, time);
  }

  RentalTime Now() const { return {TimePoint(std::chrono::seconds(second_)), second_ * 1'000'000}; }

  void Ask(uint32_t seat, uint64_t launch) {
    book_.Ask(
        {proto::ProcessKind::kWorker, seat, LaunchId(launch)}, {{"type", "zone", true}}, Now());
  }

  template <typename Condition>
  void Until(Condition is_there) {
    for (int i = 0; i < 10'000 && !is_there(); i++) {
      second_++;
      book_.Tick(Now());
      for (const RentalCall& call : book_.TakeCalls(Now())) {
        counts_[call.kind]++;
        book_.OnAnswer(call, AnswerTo(call), Now());
      }
      for (const RentalEvent& event : book_.TakeEvents()) {
        ready_ += event.kind == RentalEvent::Kind::kReady ? 1 : 0;
      }
    }
    ASSERT_TRUE(is_there());
  }

  RentalAnswer AnswerTo(const RentalCall& call) {
    RentalAnswer answer;
    switch (call.kind) {
      case RentalCall::Kind::kRent: {
        Machine machine;
        machine.id = call.request.token;
        machine.pool = call.request.pools.front();
        machine.state = MachineState::kRunning;
        machine.address = "1.2.3.4";
        machine.tags = call.request.tags;
        machine.started_us = Now().unix_us;
        machines_[machine.id] = machine;
        answer.rent.machine = machine;
        break;
      }
      case RentalCall::Kind::kList:
        for (const auto& [id, machine] : machines_) {
          answer.list.machines.push_back(machine);
        }
        break;
      case RentalCall::Kind::kRelease:
        for (const std::string& id : call.ids) {
          machines_[id].state = MachineState::kGone;
        }
        break;
      default:
        break;
    }
    return answer;
  }

  const uint32_t count_;
  int64_t second_ = 0;
  NoNotes notes_;
  RentalBook book_;
  std::map<std::string, Machine> machines_;
  Counts counts_;
  uint32_t ready_ = 0;
};

/// CreateFleet and RunInstances take some two calls a second for long, DescribeInstances ten.
TEST(RentalCallsTest, AThousandWorkersTakeNoMoreCallsEachThanTen) {
  RentedFleet small(10);
  RentedFleet large(1000);
  const Counts ten = small.Run();
  const Counts thousand = large.Run();
  EXPECT_EQ(ten.at(RentalCall::Kind::kRent), 20);
  EXPECT_EQ(thousand.at(RentalCall::Kind::kRent), 2000);
  EXPECT_LE(thousand.at(RentalCall::Kind::kRelease), 2000 / 100 + 10) << "a hundred at a time";
  EXPECT_LE(thousand.at(RentalCall::Kind::kList), large.seconds() / 5 + 2) << "of all at once";
}

}  // namespace
}  // namespace ps::provisioner
