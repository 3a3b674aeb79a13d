// The machine of a run's coordinator against a provider that loses answers, tells late, has no
// stock, and takes machines back, while the process that rents it dies at any moment.

#include "provisioner/rental/head_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/provisioner/rental/simulated_provider.h"

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kHeadEpochUs = 1'700'000'000'000'000;

struct HeadDeath {};

class MemoryNotes final : public RentalNotes {
 public:
  Status Write(const RentalNote& note) override {
    notes_[note.number] = note;
    return Status::Ok();
  }

  Status Remove(uint64_t number) override {
    notes_.erase(number);
    return Status::Ok();
  }

  Result<std::vector<RentalNote>> Load() const override {
    std::vector<RentalNote> notes;
    for (const auto& [number, note] : notes_) {
      notes.push_back(note);
    }
    return notes;
  }

 private:
  std::map<uint64_t, RentalNote> notes_;
};

/// A simulated provider as one that is called, with a clock that stands still between calls.
class CalledProvider final : public Provider, public TimeSource {
 public:
  explicit CalledProvider(uint64_t seed) : cloud(seed * 2), random_(seed * 2 + 1) {
    dies_ = Draw(0.5) ? 0.03 : 0;
    loses_ = Draw(0.5) ? 0.2 : 0;
  }

  TimePoint Now() const override { return TimePoint(std::chrono::microseconds(now_us_)); }

  int64_t UnixMicros() const override { return kHeadEpochUs + now_us_; }

  std::string_view name() const override { return "simulated"; }

  RentReply Rent(const RentRequest& request) override {
    Pass(std::chrono::seconds(1));
    MayDie();
    if (IsLost() && Draw(0.5)) {
      return {{CallFault::kUnclear, "no answer", {}}, {}, {}};
    }
    RentReply reply = cloud.Rent(request, UnixMicros());
    MayDie();
    return IsLost() ? RentReply{{CallFault::kUnclear, "no answer", {}}, {}, {}} : reply;
  }

  ListReply List(const std::map<std::string, std::string>& tags) override {
    Pass(std::chrono::seconds(1));
    MayDie();
    return IsLost() ? ListReply{{CallFault::kUnclear, "no answer", {}}, {}}
                    : cloud.List(tags, UnixMicros());
  }

  CallEnd Release(const std::vector<std::string>& ids) override {
    Pass(std::chrono::seconds(1));
    MayDie();
    const CallEnd end = cloud.Release(ids, UnixMicros());
    MayDie();
    return IsLost() ? CallEnd{CallFault::kUnclear, "no answer", {}} : end;
  }

  PriceReply Prices(const std::vector<Pool>& pools, int64_t since_us) override {
    Pass(std::chrono::seconds(1));
    PriceReply reply;
    reply.end = price_fault;
    if (price_faults > 0) {
      price_faults--;
      return reply;
    }
    return cloud.Prices(pools, since_us, UnixMicros());
  }

  CallEnd Tidy(const std::map<std::string, std::string>& /*tags*/) override { return {}; }

  std::vector<CheckLine> Check(const RentRequest& /*request*/) override { return {}; }

  void Pass(Duration time) {
    now_us_ += std::chrono::duration_cast<std::chrono::microseconds>(time).count();
    cloud.Step(UnixMicros());
    for (auto& [id, host] : cloud.hosts()) {
      host.busy_us = UnixMicros();
    }
  }

  void Calm() {
    dies_ = loses_ = 0;
    cloud.Calm();
  }

  bool Draw(double probability) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
  }

  SimulatedProvider cloud;
  int price_faults = 0;  // the next calls for prices end with
  CallEnd price_fault = {CallFault::kThrottled, "too many calls", {}};

 private:
  void MayDie() {
    if (Draw(dies_)) {
      throw HeadDeath();
    }
  }

  bool IsLost() { return Draw(loses_); }

  std::mt19937_64 random_;
  int64_t now_us_ = 0;
  double dies_ = 0;
  double loses_ = 0;
};

HeadMachine::Options HeadOptions(CalledProvider* provider) {
  HeadMachine::Options options;
  options.run = "run-1";
  options.request.pools = provider->cloud.pools();
  options.request.setup.image = "image";
  options.time = provider;
  options.wait = [provider](Duration time) {
    provider->Pass(time);
    return true;
  };
  return options;
}

TEST(HeadMachineTest, OneIsRentedAndNoneStaysWhateverHappens) {
  size_t rented = 0;
  size_t crashes = 0;
  for (uint64_t seed = 1; seed <= 1000; seed++) {
    SCOPED_TRACE(seed);
    CalledProvider provider(seed);
    MemoryNotes notes;
    std::string id;
    for (bool is_over = false; !is_over;) {
      try {
        HeadMachine head(HeadOptions(&provider), &provider, &notes);
        const Result<Machine> machine = head.Rent();
        if (machine.ok()) {
          rented += id.empty() ? 1 : 0;
          EXPECT_TRUE(id.empty() || id == machine->id) << "the same for a successor";
          id = machine->id;
          EXPECT_NE(machine->address, "");
        } else if (machine.status().code() == StatusCode::kNotFound) {
          EXPECT_FALSE(provider.cloud.IsThere(id));
        }
        provider.Pass(std::chrono::minutes(5));
        is_over = head.GiveBack().ok();
      } catch (const HeadDeath&) {
        crashes++;
        provider.Pass(std::chrono::minutes(1));
      }
      if (provider.Draw(0.2)) {
        provider.Calm();
      }
    }
    provider.Calm();
    HeadMachine head(HeadOptions(&provider), &provider, &notes);
    const Result<std::optional<double>> usd = head.GiveBack();
    ASSERT_TRUE(usd.ok()) << usd.status();
    if (provider.cloud.honours_tokens()) {
      EXPECT_LE(provider.cloud.hosts().size(), 1U);
      EXPECT_EQ(provider.cloud.alive(), 0U);
      EXPECT_NEAR(usd->value_or(-1), provider.cloud.usd(provider.UnixMicros()), 0.005);
    }
  }
  EXPECT_GT(rented, 500U);
  EXPECT_GT(crashes, 300U);
}

TEST(HeadMachineTest, WhoDoesNotWantToWaitIsNotHeld) {
  CalledProvider provider(4);
  provider.Calm();
  MemoryNotes notes;
  HeadMachine::Options options = HeadOptions(&provider);
  int waits = 0;
  options.wait = [&](Duration time) {
    provider.Pass(time);
    return ++waits < 2;
  };
  HeadMachine impatient(options, &provider, &notes);
  EXPECT_EQ(impatient.Rent().status().code(), StatusCode::kCancelled);
  EXPECT_EQ(provider.cloud.alive(), 1U);
  HeadMachine head(HeadOptions(&provider), &provider, &notes);
  EXPECT_TRUE(head.GiveBack().ok());
  EXPECT_EQ(provider.cloud.alive(), 0U);
  EXPECT_THAT(std::string(head.Rent().status().message()), HasSubstr("is gone: given back"));
}

/// Lists of another account have none of its machines, and a release of them is no error there.
TEST(HeadMachineTest, OneThatIsNotToldOfIsNotTakenForGone) {
  CalledProvider provider(4);
  provider.Calm();
  MemoryNotes notes;
  const Result<Machine> machine = HeadMachine(HeadOptions(&provider), &provider, &notes).Rent();
  ASSERT_TRUE(machine.ok()) << machine.status();
  // EC2 tells by lists alone when a machine has started.
  RentalNote note = notes.Load()->front();
  note.started_us = 0;
  ASSERT_TRUE(notes.Write(note).ok());
  CalledProvider another(4);
  another.Calm();
  HeadMachine head(HeadOptions(&another), &another, &notes);
  EXPECT_THAT(std::string(head.GiveBack().status().message()), HasSubstr("may go on costing"));
  EXPECT_THAT(std::string(head.Rent().status().message()), HasSubstr("are these the credentials"));
  EXPECT_EQ(notes.Load()->front().ended_us, 0) << "its bill is open";
  EXPECT_TRUE(HeadMachine(HeadOptions(&provider), &provider, &notes).GiveBack().ok());
  EXPECT_EQ(provider.cloud.alive(), 0U);
}

class HeadPriceTest : public testing::Test {
 protected:
  HeadPriceTest() { provider_.Calm(); }

  /// What a head of an hour has cost, by what is said at its end.
  std::optional<double> Cost(double usd_per_hour) {
    HeadMachine::Options options = HeadOptions(&provider_);
    options.usd_per_hour = usd_per_hour;
    HeadMachine head(options, &provider_, &notes_);
    EXPECT_TRUE(head.Rent().ok());
    provider_.Pass(std::chrono::hours(1));
    const Result<std::optional<double>> usd = head.GiveBack();
    EXPECT_TRUE(usd.ok()) << usd.status();
    EXPECT_EQ(provider_.cloud.alive(), 0U);
    const Result<std::optional<double>> again = head.GiveBack();
    EXPECT_TRUE(again.ok() && *again == *usd) << "it stays known, or not";
    return *usd;
  }

  CalledProvider provider_{4};
  MemoryNotes notes_;
};

/// It was taken for 0, and said to have cost nothing.
TEST_F(HeadPriceTest, APriceThatIsNotToldAtOnceIsAskedForAgain) {
  provider_.price_faults = 3;
  const std::optional<double> usd = Cost(0);
  ASSERT_TRUE(usd.has_value());
  EXPECT_NEAR(*usd, provider_.cloud.usd(provider_.UnixMicros()), 0.005);
  EXPECT_EQ(provider_.price_faults, 0);
}

TEST_F(HeadPriceTest, APriceThatIsNotToldIsTheOneOfTheBegin) {
  provider_.price_faults = 1000;
  EXPECT_NEAR(Cost(36).value_or(0), 36, 1);
  EXPECT_LT(provider_.price_faults, 1000 - 2);
}

TEST_F(HeadPriceTest, WithoutAnyPriceItsCostIsNotKnown) {
  provider_.price_faults = 1;
  provider_.price_fault = {CallFault::kDenied, "the permission sim:Prices is missing", {}};
  EXPECT_EQ(Cost(0), std::nullopt);
}

/// It has the only copy of what the run made.
TEST(HeadMachineTest, OneThatHasStoppedIsNotGivenUp) {
  CalledProvider provider(4);
  provider.Calm();
  MemoryNotes notes;
  HeadMachine head(HeadOptions(&provider), &provider, &notes);
  const Result<Machine> machine = head.Rent();
  ASSERT_TRUE(machine.ok()) << machine.status();
  SimulatedProvider::Host& host = provider.cloud.hosts().at(machine->id);
  host.machine.state = MachineState::kEnding;
  host.machine.ended_us = provider.UnixMicros();
  host.gone_us = provider.UnixMicros() + int64_t{86'400'000'000};
  const Result<Machine> again = head.Rent();
  EXPECT_EQ(again.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("keeps its disk"));
  const auto looked = head.Look();
  ASSERT_TRUE(looked.ok()) << looked.status();
  EXPECT_TRUE(looked->has_value());
  EXPECT_TRUE(head.GiveBack().ok());
  EXPECT_FALSE(head.Look()->has_value());
}

}  // namespace
}  // namespace ps::provisioner
