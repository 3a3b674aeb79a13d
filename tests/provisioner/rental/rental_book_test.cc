#include "provisioner/rental/rental_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/provisioner/rental/no_notes.h"

namespace ps::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

const CallEnd kUnclear = {CallFault::kUnclear, "no answer", {}};

/// Notes of an earlier life of the run, and what becomes of them.
class KeptNotes final : public RentalNotes {
 public:
  explicit KeptNotes(const std::vector<RentalNote>& before) {
    for (const RentalNote& note : before) {
      notes[note.number] = note;
    }
  }

  Status Write(const RentalNote& note) override {
    notes[note.number] = note;
    return Status::Ok();
  }

  Status Remove(uint64_t number) override {
    notes.erase(number);
    return Status::Ok();
  }

  Result<std::vector<RentalNote>> Load() const override {
    std::vector<RentalNote> all;
    for (const auto& [number, note] : notes) {
      all.push_back(note);
    }
    return all;
  }

  std::map<uint64_t, RentalNote> notes;
};

/// A book with one worker, whose provider answers as the test says, second by second.
class RentalBookTest : public testing::Test {
 protected:
  explicit RentalBookTest(const std::vector<RentalNote>& before = {}, int64_t second = 0)
      : second_(second), notes_(before), book_(*RentalBook::Open(Options(), &notes_, Now())) {}

  static RentalOptions Options() {
    RentalOptions options;
    options.run = "run";
    options.pools = {{"type", "zone", true}};
    return options;
  }

  RentalTime Now() const { return {TimePoint(std::chrono::seconds(second_)), second_ * 1'000'000}; }

  static RentalSeat Seat() { return {proto::ProcessKind::kWorker, 0, LaunchId(1)}; }

  /// Lets time pass. Lists tell `machines`; releases end as `release` says.
  void Pass(int seconds, const std::vector<Machine>& machines, const CallEnd& release = {}) {
    for (int i = 0; i < seconds; i++) {
      second_++;
      book_.Tick(Now());
      for (const RentalCall& call : book_.TakeCalls(Now())) {
        RentalAnswer answer;
        answer.list.machines = machines;
        answer.prices.prices = prices_;
        answer.prices.end = prices_end_;
        answer.release = release;
        if (call.kind == RentalCall::Kind::kRelease) {
          released_.insert(released_.end(), call.ids.begin(), call.ids.end());
        } else if (call.kind == RentalCall::Kind::kRent) {
          answer.rent.machine = Rented(call.request);
        }
        book_.OnAnswer(call, answer, Now());
      }
      for (const RentalEvent& event : book_.TakeEvents()) {
        events_.push_back(event);
      }
    }
  }

  Machine Rented(const RentRequest& request) const {
    Machine machine;
    machine.id = "m-1";
    machine.pool = request.pools.front();
    machine.state = MachineState::kRunning;
    machine.address = "1.2.3.4";
    machine.tags = request.tags;
    machine.started_us = Now().unix_us;
    return machine;
  }

  /// The first that is rented, as lists tell of it.
  Machine Machine1() const {
    RentRequest request;
    request.pools = Options().pools;
    request.tags = {{std::string(kRunTag), "run"}, {std::string(kRentalTag), "1"}};
    return Rented(request);
  }

  /// The machine that the worker has.
  Machine Start() {
    book_.Ask(Seat(), Options().pools, Now());
    Pass(1, {});
    const Machine machine = Machine1();
    Pass(10, {machine});
    EXPECT_THAT(events_, SizeIs(1));
    EXPECT_EQ(events_.at(0).kind, RentalEvent::Kind::kReady);
    events_.clear();
    return machine;
  }

  int64_t second_ = 0;
  std::vector<PoolPrice> prices_;
  CallEnd prices_end_;
  KeptNotes notes_;
  RentalBook book_;
  std::vector<std::string> released_;
  std::vector<RentalEvent> events_;
};

TEST_F(RentalBookTest, AMachineThatOneListLacksIsStillThere) {
  const Machine machine = Start();
  Pass(31, {});  // lists come every 30 s, and soon after one that lacks something
  EXPECT_THAT(events_, IsEmpty());
  Pass(60, {machine});
  EXPECT_THAT(events_, IsEmpty());
  EXPECT_THAT(released_, IsEmpty());
  Pass(70, {});
  ASSERT_THAT(events_, SizeIs(1));
  EXPECT_EQ(events_[0].kind, RentalEvent::Kind::kLost);
  EXPECT_THAT(released_, ElementsAre("m-1")) << "should it be there all the same";
}

/// Two pools; machines come from the first one that is asked for.
class RentalMoveTest : public testing::Test {
 protected:
  static RentalOptions Options() {
    RentalOptions options;
    options.run = "run";
    options.pools = {{"type", "a", true}, {"type", "b", true}};
    options.leave_above = 2;
    return options;
  }

  RentalMoveTest() : book_(*RentalBook::Open(Options(), &notes_, Now())) {}

  RentalTime Now() const { return {TimePoint(std::chrono::seconds(second_)), second_ * 1'000'000}; }

  static RentalSeat Seat(uint32_t index) {
    return {proto::ProcessKind::kWorker, index, LaunchId(index + 1)};
  }

  void Pass(int seconds) {
    for (int i = 0; i < seconds; i++) {
      second_++;
      book_.Tick(Now());
      for (const RentalCall& call : book_.TakeCalls(Now())) {
        RentalAnswer answer;
        const bool has_stock =
            call.kind != RentalCall::Kind::kRent || call.request.pools.front().zone != empty_zone_;
        if (!has_stock) {
          answer.rent.end = {CallFault::kNoStock, "no machine"};
        } else if (call.kind == RentalCall::Kind::kRent) {
          Machine machine;
          machine.id = "m-" + std::to_string(call.number);
          machine.pool = call.request.pools.front();
          machine.state = MachineState::kRunning;
          machine.address = "1.2.3.4";
          machine.tags = call.request.tags;
          machine.started_us = Now().unix_us;
          machines_[machine.id] = machine;
          answer.rent.machine = machine;
        }
        for (const std::string& id : call.ids) {
          machines_.at(id).state = MachineState::kGone;
          machines_.at(id).ended_us = Now().unix_us;
        }
        for (const auto& [id, machine] : machines_) {
          answer.list.machines.push_back(machine);
        }
        answer.prices.prices = prices_;
        book_.OnAnswer(call, answer, Now());
      }
      book_.TakeEvents();
    }
  }

  std::vector<std::string> Living() const {
    std::vector<std::string> zones;
    for (const auto& [id, machine] : machines_) {
      if (machine.state == MachineState::kRunning) {
        zones.push_back(machine.pool.zone);
      }
    }
    return zones;
  }

  int64_t second_ = 0;
  std::string empty_zone_;  // has no machines
  NoNotes notes_;
  RentalBook book_;
  std::vector<PoolPrice> prices_ = {{Options().pools[0], 0.5, 0}, {Options().pools[1], 1, 0}};
  std::map<std::string, Machine> machines_;
};

TEST_F(RentalMoveTest, WorkersLeaveADearPoolOneAfterTheOther) {
  for (uint32_t seat = 0; seat < 2; ++seat) {
    book_.Ask(Seat(seat), Options().pools, Now());
  }
  Pass(60);
  EXPECT_THAT(Living(), ElementsAre("a", "a"));
  EXPECT_FALSE(book_.TakeMove(Now()).has_value());
  prices_.push_back({Options().pools[0], 2.5, Now().unix_us});
  Pass(400);
  EXPECT_FALSE(book_.TakeMove(Now()).has_value()) << "the price may fall again";
  Pass(600);
  const std::optional<RentalMove> first = book_.TakeMove(Now());
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->seat, Seat(0));
  EXPECT_EQ(first->machine, "m-1");
  EXPECT_EQ(first->why, "type spot in a costs $2.50 an hour, 2.5 times the cheapest other pool");
  EXPECT_EQ(first->others, "type spot in b for $1.00 an hour with 0 revocations in the last hour");
  Pass(60);
  EXPECT_FALSE(book_.TakeMove(Now()).has_value()) << "one at a time";

  // Its worker hands over, and the one in its place asks for a machine.
  book_.Ask(Seat(2), Options().pools, Now());
  book_.Drop(Seat(0), false, Now());
  Pass(120);
  EXPECT_THAT(Living(), ElementsAre("a", "b")) << "m-1 went back at once, and m-3 is another's";
  const std::optional<RentalMove> second = book_.TakeMove(Now());
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->seat, Seat(1));
  book_.Ask(Seat(3), Options().pools, Now());
  book_.Drop(Seat(1), false, Now());
  Pass(120);
  EXPECT_THAT(Living(), ElementsAre("b", "b"));
  Pass(600);
  EXPECT_FALSE(book_.TakeMove(Now()).has_value());
}

/// Its price is told, but it has no machines: a worker would stand still for nothing, again and
/// again.
TEST_F(RentalMoveTest, AWorkerIsGivenUpOnceForAPoolWithoutMachines) {
  empty_zone_ = "b";
  book_.Ask(Seat(0), Options().pools, Now());
  Pass(60);
  prices_.push_back({Options().pools[0], 2.5, Now().unix_us});
  uint32_t moves = 0;
  for (int minutes = 0; minutes < 240; ++minutes) {
    Pass(60);
    if (const std::optional<RentalMove> move = book_.TakeMove(Now())) {
      moves++;
      book_.Ask(Seat(moves), Options().pools, Now());
      book_.Drop(move->seat, false, Now());
      Pass(5);
      EXPECT_THAT(Living(), IsEmpty()) << "b was asked in vain";
      book_.Ask(Seat(100 + moves), Options().pools, Now());  // as the fleet does
    }
  }
  EXPECT_EQ(moves, 1U);
  EXPECT_THAT(Living(), ElementsAre("a"));
  empty_zone_.clear();  // whoever is replaced finds that out
  book_.Ask(Seat(8), Options().pools, Now());
  Pass(60);
  EXPECT_THAT(Living(), UnorderedElementsAre("a", "b"));
  Pass(120);
  EXPECT_TRUE(book_.TakeMove(Now()).has_value());
}

TEST_F(RentalMoveTest, WhoMayHaveNoOtherPoolStays) {
  const std::vector<Pool> first = {Options().pools.front()};
  book_.Ask(Seat(0), first, Now());
  Pass(60);
  prices_.push_back({Options().pools[0], 2.5, Now().unix_us});
  Pass(1200);
  EXPECT_FALSE(book_.TakeMove(Now()).has_value());
  book_.Drop(Seat(0), false, Now());
  book_.Ask(Seat(1), first, Now());
  Pass(30);
  EXPECT_THAT(Living(), ElementsAre("a")) << "the same machine";
}

/// A price moves when the machine is half an hour old, and again later.
TEST_F(RentalBookTest, WhatIsPaidNowAddsUpToTheCostWhereverPricesGo) {
  const Pool pool = Options().pools.front();
  constexpr int64_t kSecond = 1'000'000;
  prices_ = {{pool, 0.36, 0}};
  const Machine machine = Start();
  double sum = book_.usd_per_hour(Now()) * 11 / 3600;  // while it began
  EXPECT_EQ(book_.seat_usd_per_hour(Now()), (std::map<RentalSeat, double>{{Seat(), 0.36}}));
  const auto pass = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      sum += book_.usd_per_hour(Now()) / 3600;
      Pass(1, {machine});
    }
  };
  pass(1800);
  prices_.push_back({pool, 7.2, Now().unix_us});
  pass(600);
  EXPECT_DOUBLE_EQ(book_.usd_per_hour(Now()), 0.36) << "its hour has its price";
  pass(1800);
  EXPECT_DOUBLE_EQ(book_.usd_per_hour(Now()), 7.2);
  EXPECT_DOUBLE_EQ(book_.seat_usd_per_hour(Now()).at(Seat()), 7.2);
  prices_.push_back({pool, 0.72, Now().unix_us});
  pass(3600);
  EXPECT_DOUBLE_EQ(book_.usd_per_hour(Now()), 0.72);
  EXPECT_NEAR(book_.usd(Now()), sum, 0.005) << "to the cent";
  EXPECT_NEAR(
      book_.usd(Now()),
      0.36 + 7.2 +
          0.72 * static_cast<double>(Now().unix_us - machine.started_us - 7200 * kSecond) /
              (3600.0 * kSecond),
      0.005);
  book_.Drop(Seat(), true, Now());
  EXPECT_THAT(book_.seat_usd_per_hour(Now()), IsEmpty());
}

/// Otherwise its cost would end with the list, and it would go on.
TEST_F(RentalBookTest, AMachineWhoseReleaseHasNoAnswerIsNotGoneBecauseListsLackIt) {
  Start();
  book_.Drop(Seat(), true, Now());
  Pass(120, {}, kUnclear);
  EXPECT_EQ(book_.machine_count(), 1U);
  EXPECT_GT(released_.size(), 5U) << "again and again";
  Pass(20, {});
  EXPECT_EQ(book_.machine_count(), 0U);
  released_.clear();
  Pass(120, {});
  EXPECT_THAT(released_, IsEmpty());
}

/// EC2 bills nothing for a spot machine that it takes back in its first hour.
TEST_F(RentalBookTest, AMachineThatIsTakenBackEarlyIsFreeWhereTheProviderSaysSo) {
  prices_ = {{Options().pools.front(), 0.36, 0}};
  Machine machine = Start();
  Pass(600, {machine});
  EXPECT_GT(book_.usd(Now()), 0.05) << "it may be kept for longer";
  machine.state = MachineState::kGone;
  machine.is_revoked = true;
  machine.free_within = std::chrono::hours(1);
  machine.ended_us = Now().unix_us;
  Pass(60, {machine});
  EXPECT_EQ(book_.usd(Now()), 0);
  EXPECT_TRUE(notes_.notes.at(1).is_free);
  RentalBook successor = *RentalBook::Open(Options(), &notes_, Now());
  for (const RentalCall& call : successor.TakeCalls(Now())) {
    RentalAnswer answer;
    answer.prices.prices = prices_;
    answer.list.machines = {machine};
    successor.OnAnswer(call, answer, Now());
  }
  EXPECT_EQ(successor.usd(Now()), 0);
}

TEST_F(RentalBookTest, AMachineThatIsTakenBackLateCosts) {
  prices_ = {{Options().pools.front(), 0.36, 0}};
  Machine machine = Start();
  machine.free_within = std::chrono::hours(1);
  Pass(3700, {machine});
  machine.state = MachineState::kGone;
  machine.is_revoked = true;
  machine.ended_us = Now().unix_us;
  Pass(60, {machine});
  EXPECT_NEAR(book_.usd(Now()), 0.37, 0.005);
}

/// The provider knows nothing of it yet, and a release of what it does not know is no error.
TEST_F(RentalBookTest, AReleaseBeforeAnyListHasToldOfTheMachineIsNotBelieved) {
  book_.Ask(Seat(), Options().pools, Now());
  Pass(1, {});
  book_.Drop(Seat(), true, Now());
  Pass(20, {});
  EXPECT_GE(released_.size(), 3U) << "again and again";
  EXPECT_EQ(book_.machine_count(), 1U) << "it may cost";
  Machine machine = Machine1();
  Pass(5, {machine});
  machine.state = MachineState::kEnding;
  machine.ended_us = Now().unix_us;
  released_.clear();
  Pass(10, {machine});
  EXPECT_EQ(book_.machine_count(), 0U);
  EXPECT_LE(released_.size(), 1U);
}

TEST_F(RentalBookTest, AReleaseOfAMachineThatNoListEverTellsOfIsBelievedAfterAWhile) {
  book_.Ask(Seat(), Options().pools, Now());
  Pass(1, {});
  book_.Drop(Seat(), true, Now());
  Pass(100, {});
  EXPECT_EQ(book_.machine_count(), 0U);
}

/// The provider takes the call and does not end it: its bill is closed, and it is not gone.
TEST_F(RentalBookTest, WhatIsToldToEndAndIsToldOfAllTheSameIsLeft) {
  const Machine machine = Start();
  Machine stray = machine;
  stray.id = "m-2";
  EXPECT_EQ(book_.left_count(), 1U);
  book_.End(Now());
  Pass(100, {machine, stray});
  EXPECT_FALSE(book_.is_over());
  EXPECT_EQ(book_.machine_count(), 0U);
  EXPECT_EQ(book_.left_count(), 2U) << "the second one has no note";
  Machine gone = machine;
  gone.state = MachineState::kGone;
  stray.state = MachineState::kGone;
  Pass(30, {gone, stray});
  EXPECT_EQ(book_.left_count(), 0U);
  EXPECT_TRUE(book_.is_over());
}

/// Nobody asks any more, and a machine may have been made.
TEST_F(RentalBookTest, ACallWithoutAnAnswerMayHaveLeftAMachine) {
  book_.Ask(Seat(), Options().pools, Now());
  EXPECT_EQ(book_.left_count(), 0U) << "nothing was asked for";
  book_.TakeCalls(Now());
  EXPECT_EQ(book_.left_count(), 1U);
  book_.End(Now());
  EXPECT_EQ(book_.machine_count(), 0U);
  EXPECT_EQ(book_.left_count(), 1U);
}

/// A token that was used for another request is refused.
TEST_F(RentalBookTest, TheTokenDiffersWithAllThatIsAskedFor) {
  const auto token_of = [&](const RentalOptions& options) {
    NoNotes notes;
    RentalBook book = *RentalBook::Open(options, &notes, Now());
    book.Ask(Seat(), options.pools, Now());
    for (const RentalCall& call : book.TakeCalls(Now())) {
      if (call.kind == RentalCall::Kind::kRent) {
        return call.request.token;
      }
    }
    return std::string();
  };
  std::vector<RentalOptions> others(9, Options());
  others[0].run = "another";
  others[1].pools.push_back({"type", "zone-2", true});
  others[2].setup.image = "image";
  others[3].setup.user_data = "script";
  others[4].setup.run_max = std::chrono::hours(1);
  others[5].setup.disk_gib = 10;
  others[6].tags["spotps-owner"] = "host";
  others[7].setup.role = "role";
  others[8].setup.keeps_disk = true;
  std::set<std::string> tokens = {token_of(Options())};
  EXPECT_EQ(tokens, std::set<std::string>{token_of(Options())}) << "the same is the same";
  for (const RentalOptions& options : others) {
    EXPECT_TRUE(tokens.insert(token_of(options)).second);
  }
}

/// A provider may say that of the call, and of none of its pools.
TEST_F(RentalBookTest, ACallThatFailsAsAWholeLeavesItsPoolsOut) {
  book_.Ask(Seat(), Options().pools, Now());
  second_++;
  for (const RentalCall& call : book_.TakeCalls(Now())) {
    RentalAnswer answer;
    answer.rent.end = {CallFault::kNoStock, "none anywhere", {}};
    book_.OnAnswer(call, answer, Now());
  }
  EXPECT_THAT(book_.TakeEvents(), SizeIs(1));
  const RentalSeat next = {proto::ProcessKind::kWorker, 0, LaunchId(2)};
  book_.Ask(next, Options().pools, Now());
  std::vector<RentalEvent> events = book_.TakeEvents();
  ASSERT_THAT(events, SizeIs(1)) << "it is not asked again at once";
  EXPECT_EQ(events[0].seat, next);
  EXPECT_THAT(events[0].why, testing::HasSubstr("none anywhere (asked again in"));
  second_ += 31;
  book_.Ask({proto::ProcessKind::kWorker, 0, LaunchId(3)}, Options().pools, Now());
  EXPECT_THAT(book_.TakeEvents(), IsEmpty());
}

TEST_F(RentalBookTest, WhatCarriesTheRunsTagAndIsNotKnownIsEnded) {
  const Machine machine = Start();
  Machine stray = machine;
  stray.id = "m-2";
  Pass(35, {machine, stray});
  EXPECT_THAT(released_, testing::Contains("m-2"));
  EXPECT_THAT(released_, testing::Not(testing::Contains("m-1")));
}

/// What a start takes is measured from there.
TEST_F(RentalBookTest, AMachineComesWithTheTimeAtWhichItWasAskedForIfThatWasForThisSeat) {
  second_ = 100;
  book_.Ask(Seat(), Options().pools, Now());
  Pass(1, {});
  const TimePoint asked = Now().now;
  const Machine machine = Machine1();
  Pass(40, {});
  Pass(10, {machine});
  ASSERT_THAT(events_, SizeIs(1));
  EXPECT_EQ(events_[0].kind, RentalEvent::Kind::kReady);
  EXPECT_EQ(events_[0].asked_at, asked);
  // Another worker gets it at once, and boots nothing.
  events_.clear();
  book_.Drop(Seat(), false, Now());
  const RentalSeat next = {proto::ProcessKind::kWorker, 0, LaunchId(2)};
  book_.Ask(next, Options().pools, Now());
  Pass(1, {machine});
  ASSERT_THAT(events_, SizeIs(1));
  EXPECT_EQ(events_[0].seat, next);
  EXPECT_EQ(events_[0].asked_at, std::nullopt);
}

/// It may have been asked for by the worker before, or be half booted.
TEST_F(RentalBookTest, OneThatWasOnItsWayForAnotherSeatComesWithoutThatTime) {
  book_.Ask(Seat(), Options().pools, Now());
  Pass(1, {});
  const Machine machine = Machine1();
  Pass(20, {});
  book_.Drop(Seat(), false, Now());
  book_.Ask({proto::ProcessKind::kWorker, 0, LaunchId(2)}, Options().pools, Now());
  Pass(10, {machine});
  ASSERT_THAT(events_, SizeIs(1));
  EXPECT_EQ(events_[0].kind, RentalEvent::Kind::kReady);
  EXPECT_EQ(events_[0].asked_at, std::nullopt);
}

class RentalSuccessorTest : public RentalBookTest {
 protected:
  RentalSuccessorTest() : RentalBookTest({Ended()}, 10'000) {}

  /// Its bill is closed.
  static RentalNote Ended() {
    RentalNote note;
    note.number = 1;
    note.token = "r-1";
    note.pools = Options().pools;
    note.machine = "m-1";
    note.pool = note.pools.front();
    note.started_us = 1000 * 1'000'000LL;
    note.ended_us = 4600 * 1'000'000LL;
    note.usd = 0.5;
    note.why = "stopped";
    return note;
  }

  Machine Stopped() const {
    Machine machine = Machine1();
    machine.state = MachineState::kEnding;
    machine.started_us = Ended().started_us;
    machine.ended_us = Ended().ended_us;
    return machine;
  }
};

/// Its coordinator died after it had closed the bill and before it could release the machine. One
/// that has stopped stays, and its disk costs.
TEST_F(RentalSuccessorTest, AMachineThatStoppedAndWasNotReleasedIsReleasedByTheSuccessor) {
  Pass(10, {Stopped()});
  EXPECT_THAT(released_, ElementsAre("m-1")) << "once: one that ends needs no more";
  Machine machine = Stopped();
  machine.state = MachineState::kGone;
  book_.End(Now());
  Pass(60, {machine});
  EXPECT_TRUE(book_.is_over());
  EXPECT_THAT(released_, ElementsAre("m-1"));
}

TEST_F(RentalSuccessorTest, WhatIsGoneForLongIsNotReleasedAgain) {
  Pass(10, {});
  EXPECT_THAT(released_, IsEmpty());
}

/// No price was known, and the cost of that is 0: the budget of the run was whole again.
TEST_F(RentalSuccessorTest, WhatAMachineHasCostStaysKnownWhenThePricesAreDenied) {
  prices_end_ = {CallFault::kDenied, "the permission to look at prices is missing", {}};
  Pass(10, {});
  EXPECT_DOUBLE_EQ(book_.usd(Now()), 0.5);
  EXPECT_DOUBLE_EQ(notes_.notes.at(1).usd, 0.5);
  book_.End(Now());
  Pass(120, {});
  EXPECT_TRUE(book_.is_over()) << "nobody will tell the price";
  EXPECT_DOUBLE_EQ(notes_.notes.at(1).usd, 0.5);
}

/// The provider tells it a second earlier than was thought.
TEST_F(RentalSuccessorTest, AnEndThatIsToldBetterBeforeAnyPriceKeepsTheCost) {
  prices_end_ = {CallFault::kDenied, "the permission to look at prices is missing", {}};
  Machine machine = Stopped();
  machine.ended_us -= 1'000'000;
  Pass(10, {machine});
  EXPECT_EQ(notes_.notes.at(1).ended_us, machine.ended_us);
  EXPECT_DOUBLE_EQ(notes_.notes.at(1).usd, 0.5);
}

}  // namespace
}  // namespace ps::provisioner
