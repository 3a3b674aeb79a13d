#include "tests/provisioner/rental/rental_simulation.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "provisioner/rental/rental_book.h"
#include "tests/provisioner/rental/simulated_provider.h"

namespace ps::provisioner {
namespace {

using Sabotage = RentalScenario::Sabotage;

constexpr int64_t kSecondUs = 1'000'000;
constexpr int64_t kEpochUs = 1'700'000'000 * kSecondUs;
constexpr int64_t kRunUs = 2400 * kSecondUs;
constexpr int64_t kAnswerUs = 1500 * kSecondUs;  // an ask is answered within it
constexpr int64_t kOrphanUs = 120 * kSecondUs;   // a process without coordinator ends after it
constexpr int64_t kEndUs = 3600 * kSecondUs;     // so long giving all back may take

/// The process of the coordinator is gone.
struct Death {};

class Chance {
 public:
  explicit Chance(uint64_t seed) : random_(seed) {}

  bool Draw(double probability) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
  }

  int64_t Between(int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random_);
  }

 private:
  std::mt19937_64 random_;
};

class SimulatedNotes final : public RentalNotes {
 public:
  SimulatedNotes(Chance* chance, bool forgets) : chance_(chance), forgets_(forgets) {}

  Status Write(const RentalNote& note) override {
    MayDie();
    const bool fails = !is_calm_ && chance_->Draw(0.01);
    if (!fails || chance_->Draw(0.5)) {
      RentalNote& kept = notes_[note.number];
      has_lost_cost_ = has_lost_cost_ || (kept.usd > 0 && note.usd == 0 && !note.is_free);
      kept = note;
    }
    MayDie();
    return fails ? Status::Io("the disk is full") : Status::Ok();
  }

  Status Remove(uint64_t number) override {
    MayDie();
    notes_.erase(number);
    MayDie();
    return Status::Ok();
  }

  Result<std::vector<RentalNote>> Load() const override {
    std::vector<RentalNote> notes;
    for (const auto& [number, note] : notes_) {
      if (!forgets_) {
        notes.push_back(note);
      }
    }
    return notes;
  }

  void Calm() { is_calm_ = true; }

  /// The cost of a machine was noted, and then that it has cost nothing.
  bool has_lost_cost() const { return has_lost_cost_; }

 private:
  void MayDie() {
    if (!is_calm_ && chance_->Draw(0.004)) {
      throw Death();
    }
  }

  Chance* const chance_;
  const bool forgets_;
  bool is_calm_ = false;
  bool has_lost_cost_ = false;
  std::map<uint64_t, RentalNote> notes_;
};

class World {
 public:
  explicit World(const RentalScenario& scenario)
      : scenario_(scenario),
        chance_(scenario.seed * 2 + 1),
        provider_(scenario.seed * 2, scenario.has_later_faults),
        notes_(&chance_, scenario.sabotage == Sabotage::kNoNotes) {
    options_.run = "run-1";
    options_.pools = provider_.pools();
    options_.setup.image = "image";
    options_.boot_max = std::chrono::minutes(5);
    options_.unclear_max = std::chrono::minutes(2);
    options_.rents_max = static_cast<size_t>(chance_.Between(1, 4));
    if (chance_.Draw(0.3)) {
      options_.budget.usd_per_hour = static_cast<double>(chance_.Between(100, 800)) / 100;
    }
    if (chance_.Draw(0.4)) {
      budget_usd_ = static_cast<double>(chance_.Between(10, 300)) / 100;
    }
    if (scenario.sabotage != Sabotage::kBudgetIgnored) {
      options_.budget.usd = budget_usd_;
    }
    if (scenario.sabotage == Sabotage::kSeenAtOnce) {
      options_.visible_max = {};
    }
    loses_ = chance_.Draw(0.5) ? 0.15 : 0;
    dies_ = chance_.Draw(0.5) ? 0.002 : 0;
    forgets_ = chance_.Draw(0.3) ? 0.05 : 0;
  }

  RentalOutcome Run() {
    Open();
    while (now_us_ < kRunUs && outcome_.violation.empty()) {
      Step();
      ChangeFleet();
      if (book_ && chance_.Draw(dies_)) {
        Die();
      }
      if (!book_ && now_us_ >= back_us_) {
        Open();
      }
    }
    if (outcome_.violation.empty()) {
      // A successor that does not come is as good as one that comes too late.
      chance_.Draw(0.2) ? Abandon() : End();
    }
    outcome_.machines = provider_.hosts().size();
    return outcome_;
  }

 private:
  struct Seat {
    bool is_asking = false;
    int64_t asked_us = 0;
    int64_t ask_us = 0;  // idle: not before
    LaunchId launch;
    std::string machine;  // that its process is on
  };

  struct Pending {
    RentalCall call;
    int64_t at_us = 0;  // takes effect
    int64_t answer_us = 0;
    bool is_done = false;
    bool is_lost = false;  // its answer
    uint64_t life = 0;
    RentalAnswer answer;
  };

  RentalTime Time() const {
    return {TimePoint(std::chrono::microseconds(now_us_)), kEpochUs + now_us_};
  }

  void Violate(const std::string& what) {
    if (outcome_.violation.empty()) {
      outcome_.violation = fmt::format("{:.1f} s: {}", static_cast<double>(now_us_) / 1e6, what);
    }
  }

  static RentalSeat KeyOf(uint32_t index, const Seat& seat) {
    return {proto::ProcessKind::kWorker, index, seat.launch};
  }

  void Open() {
    Result<RentalBook> book = RentalBook::Open(options_, &notes_, Time());
    if (!book.ok()) {
      Violate(std::string(book.status().message()));
      return;
    }
    book_.emplace(std::move(book).value());
    life_++;
    std::set<RentalSeat> running;
    for (auto& [index, seat] : seats_) {
      seat.is_asking = false;
      if (!seat.machine.empty() && scenario_.sabotage != Sabotage::kProcessesForgotten) {
        running.insert(KeyOf(index, seat));
      }
    }
    try {
      book_->Adopt(running, Time());
    } catch (const Death&) {
      Die();
    }
  }

  void Die() {
    book_.reset();
    outcome_.crashes++;
    died_us_ = now_us_;
    back_us_ = now_us_ + chance_.Between(1, 300) * kSecondUs;
    // What was not sent yet may still be on its way.
    std::erase_if(
        pending_, [&](const Pending& pending) { return !pending.is_done && chance_.Draw(0.5); });
  }

  void Step() {
    now_us_ += chance_.Between(200'000, 2 * kSecondUs);
    provider_.Step(kEpochUs + now_us_);
    for (auto& [index, seat] : seats_) {
      if (seat.machine.empty()) {
        continue;
      }
      const bool is_orphan = !book_ && now_us_ - died_us_ > kOrphanUs;
      if (!provider_.IsThere(seat.machine) || is_orphan) {
        EndProcess(index, &seat, false);
      } else {
        provider_.hosts().at(seat.machine).busy_us = kEpochUs + now_us_;
      }
    }
    try {
      Answer();
      if (book_) {
        Drive();
      }
    } catch (const Death&) {
      Die();
    }
    Check();
  }

  void Drive() {
    book_->Tick(Time());
    for (RentalCall& call : book_->TakeCalls(Time())) {
      outcome_.calls++;
      Pending pending;
      pending.at_us = now_us_ + chance_.Between(0, 3 * kSecondUs);
      pending.answer_us = pending.at_us + chance_.Between(0, 3 * kSecondUs);
      if (!is_calm_ && chance_.Draw(loses_)) {
        pending.is_lost = true;
        pending.answer_us += 20 * kSecondUs;
        pending.at_us += chance_.Draw(0.3) ? kRunUs * 10 : 0;  // never takes effect
      }
      pending.life = life_;
      pending.call = std::move(call);
      pending_.push_back(std::move(pending));
    }
    for (const RentalEvent& event : book_->TakeEvents()) {
      OnEvent(event);
    }
  }

  void Perform(Pending* pending) {
    pending->is_done = true;
    const int64_t unix_us = kEpochUs + now_us_;
    switch (pending->call.kind) {
      case RentalCall::Kind::kRent: {
        RentRequest request = pending->call.request;
        if (scenario_.sabotage == Sabotage::kTokensDiffer) {
          request.token += fmt::format("-{}", outcome_.calls);
        }
        const size_t before = provider_.hosts().size();
        pending->answer.rent = provider_.Rent(request, unix_us);
        if (provider_.hosts().size() > before) {
          CheckBudget(unix_us);
        }
        break;
      }
      case RentalCall::Kind::kList:
        pending->answer.list = provider_.List(pending->call.tags, unix_us);
        if (!pending->is_lost) {
          ForgetSome(&pending->answer.list.machines);
        }
        if (scenario_.sabotage == Sabotage::kStraysStay) {
          std::erase_if(pending->answer.list.machines, [&](const Machine& machine) {
            return !known_.contains(machine.id);
          });
        }
        break;
      case RentalCall::Kind::kRelease:
        for (const std::string& id : pending->call.ids) {
          for (const auto& [index, seat] : seats_) {
            if (seat.machine == id && pending->life == life_ && provider_.IsThere(id)) {
              Violate(fmt::format("machine {} of worker {} is ended, which runs", id, index));
            }
          }
        }
        if (scenario_.sabotage != Sabotage::kNothingReleased) {
          pending->answer.release = provider_.Release(pending->call.ids, unix_us);
        }
        break;
      case RentalCall::Kind::kPrices:
        pending->answer.prices =
            provider_.Prices(pending->call.pools, pending->call.since_us, unix_us);
        if (scenario_.sabotage == Sabotage::kPricesStand && life_ == 1) {
          std::erase_if(pending->answer.prices.prices, [&](const PoolPrice& price) {
            return price.since_us > kEpochUs;
          });
        }
        break;
      case RentalCall::Kind::kTidy:
        break;
    }
  }

  /// Lists leave machines out that are there, no two in a row the same one.
  void ForgetSome(std::vector<Machine>* machines) {
    const std::set<std::string> before = std::exchange(forgotten_, {});
    std::erase_if(*machines, [&](const Machine& machine) {
      const bool is_left_out = !before.contains(machine.id) && !is_calm_ && chance_.Draw(forgets_);
      if (is_left_out) {
        forgotten_.insert(machine.id);
      }
      return is_left_out;
    });
  }

  void Answer() {
    for (Pending& pending : pending_) {
      if (!pending.is_done && now_us_ >= pending.at_us) {
        Perform(&pending);
      }
    }
    std::vector<Pending> due;
    std::erase_if(pending_, [&](Pending& pending) {
      if (now_us_ < pending.answer_us) {
        return false;
      }
      due.push_back(pending);
      return true;
    });
    for (Pending& pending : due) {
      if (pending.is_lost) {
        pending.answer = {};
        const CallEnd unclear = {CallFault::kUnclear, "no answer", {}};
        pending.answer.rent.end = pending.answer.list.end = unclear;
        pending.answer.release = pending.answer.prices.end = pending.answer.tidy = unclear;
      }
      if (book_ && pending.life == life_) {
        if (pending.answer.rent.machine) {
          known_.insert(pending.answer.rent.machine->id);
        }
        book_->OnAnswer(pending.call, pending.answer, Time());
      }
    }
  }

  /// What a start takes is measured from there: the machine was made for this seat, after it asked.
  void CheckAsked(const RentalEvent& event, const Seat& seat) {
    if (!event.asked_at) {
      return;
    }
    const TimePoint asked = TimePoint(std::chrono::microseconds(seat.asked_us));
    const int64_t since_us =
        std::chrono::duration_cast<std::chrono::microseconds>(event.asked_at->time_since_epoch())
            .count();
    if (*event.asked_at < asked || *event.asked_at > Time().now ||
        event.machine.started_us < kEpochUs + since_us) {
      Violate("a machine that was not asked for when the book says so");
    }
  }

  void OnEvent(const RentalEvent& event) {
    Seat& seat = seats_.at(event.seat.index);
    if (seat.launch != event.seat.launch) {
      Violate("an event of a seat that was dropped");
      return;
    }
    switch (event.kind) {
      case RentalEvent::Kind::kReady:
        if (!seat.is_asking) {
          Violate("a machine for who did not ask");
        }
        for (const auto& [index, other] : seats_) {
          if (other.machine == event.machine.id) {
            Violate(fmt::format("machine {} has two processes", event.machine.id));
          }
        }
        if (const std::vector<Pool> pools = PoolsOf(event.seat.index);
            std::ranges::find(pools, event.machine.pool) == pools.end()) {
          Violate("a machine of a pool that was not asked for");
        }
        CheckAsked(event, seat);
        outcome_.ready++;
        seat.is_asking = false;
        seat.machine = event.machine.id;
        return;
      case RentalEvent::Kind::kFailed:
        if (!seat.is_asking || event.why.empty()) {
          Violate("a failure for who did not ask, or without a reason");
        }
        seat.is_asking = false;
        seat.ask_us = now_us_ + chance_.Between(5, 100) * kSecondUs;
        return;
      case RentalEvent::Kind::kLost:
        if (provider_.IsThere(event.machine.id)) {
          Violate(fmt::format("machine {} is told to be lost, and is there", event.machine.id));
        }
        EndProcess(event.seat.index, &seat, false);
        return;
    }
  }

  void EndProcess(uint32_t index, Seat* seat, bool is_bad) {
    seat->machine.clear();
    seat->ask_us = now_us_ + chance_.Between(0, 20) * kSecondUs;
    if (book_) {
      book_->Drop(KeyOf(index, *seat), is_bad, Time());
    }
  }

  /// One worker wants a pool of its own.
  std::vector<Pool> PoolsOf(uint32_t index) const {
    return index == 1 ? std::vector<Pool>{options_.pools.front()} : options_.pools;
  }

  void ChangeFleet() {
    if (chance_.Draw(0.01)) {
      wanted_ = static_cast<uint32_t>(chance_.Between(0, 6));
    }
    if (!book_) {
      return;
    }
    try {
      for (uint32_t index = 0; index < 6; index++) {
        Seat& seat = seats_[index];
        const bool is_wanted = index < wanted_;
        if (is_wanted && !seat.is_asking && seat.machine.empty() && now_us_ >= seat.ask_us) {
          seat.launch = LaunchId(++launches_);
          seat.is_asking = true;
          seat.asked_us = now_us_;
          book_->Ask(KeyOf(index, seat), PoolsOf(index), Time());
        } else if (!is_wanted && (seat.is_asking || !seat.machine.empty()) && chance_.Draw(0.5)) {
          seat.is_asking = false;
          EndProcess(index, &seat, false);
        } else if (!seat.machine.empty() && chance_.Draw(0.003)) {
          EndProcess(index, &seat, chance_.Draw(0.3));
        }
      }
    } catch (const Death&) {
      Die();
    }
  }

  void Check() {
    if (provider_.honours_tokens()) {
      std::map<std::string, int> of_number;
      for (const auto& [id, host] : provider_.hosts()) {
        if (++of_number[host.machine.tags.at(std::string(kRentalTag))] > 1) {
          Violate("rental " + host.machine.tags.at(std::string(kRentalTag)) + " has two machines");
        }
      }
    }
    constexpr double kRounding = 1e-6;
    const double rate = provider_.usd_per_hour(kEpochUs + now_us_);
    if (options_.budget.usd_per_hour && provider_.honours_tokens() &&
        provider_.has_fixed_prices() && rate > *options_.budget.usd_per_hour + kRounding) {
      Violate(fmt::format("${:.2f} an hour, of ${:.2f}", rate, *options_.budget.usd_per_hour));
    }
    if (notes_.has_lost_cost()) {
      Violate("what a machine has cost is forgotten");
    }
    for (const auto& [index, seat] : seats_) {
      if (book_ && seat.is_asking && now_us_ - seat.asked_us > kAnswerUs) {
        Violate(fmt::format("worker {} waits for an answer for ever", index));
      }
    }
  }

  /// A machine has just been made. The book knows what all have cost but for calls under way.
  void CheckBudget(int64_t unix_us) {
    const bool is_known = loses_ == 0 && dies_ == 0 && forgets_ == 0 &&
                          provider_.honours_tokens() && provider_.has_fixed_prices();
    constexpr double kUnderWayHours = 30.0 / 3600;
    const double leeway = 0.07 * 4 + provider_.usd_per_hour(unix_us) * kUnderWayHours;
    if (budget_usd_ && is_known && provider_.usd(unix_us) > *budget_usd_ + leeway) {
      Violate(fmt::format(
          "a machine is rented when ${:.2f} are spent, of ${:.2f}",
          provider_.usd(unix_us),
          *budget_usd_));
    }
  }

  void Calm() {
    is_calm_ = true;
    provider_.Calm();
    notes_.Calm();
  }

  /// All goes back, with a coordinator that is there, or comes back: at first while the provider
  /// fails as before, in the end while nothing does.
  void End() {
    for (auto& [index, seat] : seats_) {
      seat.is_asking = false;
      EndProcess(index, &seat, false);
    }
    GoOnEnding(now_us_ + chance_.Between(0, 900) * kSecondUs);
    Calm();
    GoOnEnding(now_us_ + kEndUs);
    if (!IsOver()) {
      Violate("the run does not get over");
    }
    if (provider_.alive() != 0) {
      Violate(fmt::format("{} machines are left", provider_.alive()));
    }
    if (provider_.stopped() != 0) {
      Violate(fmt::format("the disks of {} machines are left", provider_.stopped()));
    }
    const double usd = provider_.usd(kEpochUs + now_us_);
    constexpr double kCent = 0.005;
    const bool is_known = provider_.honours_tokens() && book_ && book_->is_cost_sure();
    if (is_known && std::abs(book_->usd(Time()) - usd) > kCent) {
      Violate(fmt::format("${:.4f} is said to be spent, not ${:.4f}", book_->usd(Time()), usd));
    }
  }

  void GoOnEnding(int64_t until_us) {
    while (now_us_ < until_us && outcome_.violation.empty() && !IsOver()) {
      if (!book_ && (is_calm_ || now_us_ >= back_us_)) {
        Open();
      }
      if (book_) {
        book_->End(Time());
      }
      Step();
    }
  }

  bool IsOver() const {
    return book_ && (scenario_.sabotage == Sabotage::kOverTooSoon ? book_->machine_count() == 0
                                                                  : book_->is_over());
  }

  /// The coordinator is gone for good.
  void Abandon() {
    if (book_) {
      Die();
    }
    const int64_t until = now_us_ + SimulatedProvider::kWatchUs + kOrphanUs + 120 * kSecondUs;
    while (now_us_ < until && outcome_.violation.empty()) {
      Step();
    }
    if (provider_.alive() != 0) {
      Violate(fmt::format("{} machines outlive the grace", provider_.alive()));
    }
  }

  const RentalScenario scenario_;
  Chance chance_;
  SimulatedProvider provider_;
  SimulatedNotes notes_;
  RentalOptions options_;
  std::optional<double> budget_usd_;
  std::optional<RentalBook> book_;
  std::map<uint32_t, Seat> seats_;
  std::vector<Pending> pending_;
  std::set<std::string> known_;  // machines that an answer told of
  RentalOutcome outcome_;
  int64_t now_us_ = 0;
  int64_t died_us_ = 0;
  int64_t back_us_ = 0;
  uint64_t life_ = 0;
  uint64_t launches_ = 0;
  uint32_t wanted_ = 3;
  std::set<std::string> forgotten_;  // machines, by the last list
  double loses_ = 0;
  double forgets_ = 0;
  double dies_ = 0;
  bool is_calm_ = false;
};

}  // namespace

RentalOutcome SimulateRentals(const RentalScenario& scenario) {
  return World(scenario).Run();
}

}  // namespace ps::provisioner
