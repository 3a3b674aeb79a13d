// What the provider's answers change in a RentalBook.

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "provisioner/rental/rental_book.h"

namespace ps::provisioner {
namespace {

constexpr Duration kWaitMin = std::chrono::seconds(1);
constexpr Duration kWaitMax = std::chrono::minutes(1);
constexpr Duration kDeniedWaitMin = std::chrono::seconds(30);
constexpr Duration kHoldMax = std::chrono::minutes(10);
constexpr Duration kListSoon = std::chrono::seconds(5);    // while something is to change
constexpr Duration kListLater = std::chrono::seconds(30);  // how late a revocation is seen
constexpr Duration kPricesEvery = std::chrono::minutes(5);

/// The rental that a machine is of, by its tag; 0: none.
uint64_t NumberOf(const Machine& machine) {
  uint64_t number = 0;
  const auto it = machine.tags.find(std::string(kRentalTag));
  if (it != machine.tags.end()) {
    const std::string& text = it->second;
    std::from_chars(text.data(), text.data() + text.size(), number);
  }
  return number;
}

}  // namespace

void RentalBook::OnAnswer(const RentalCall& call, const RentalAnswer& answer, RentalTime time) {
  switch (call.kind) {
    case RentalCall::Kind::kRent:
      OnRent(call, answer.rent, time);
      return;
    case RentalCall::Kind::kList:
      OnList(call, answer.list, time);
      return;
    case RentalCall::Kind::kRelease:
      OnRelease(call, answer.release, time);
      return;
    case RentalCall::Kind::kPrices:
      OnPrices(call, answer.prices, time);
      return;
    case RentalCall::Kind::kTidy:
      is_tidying_ = false;
      is_tidy_ =
          answer.tidy.fault != CallFault::kUnclear && answer.tidy.fault != CallFault::kThrottled;
      tidy_at_ = time.now + kListSoon;
      return;
  }
}

void RentalBook::OnRent(const RentalCall& call, const RentReply& reply, RentalTime time) {
  rents_--;
  for (const PoolFault& fault : reply.pool_faults) {
    memory_.NoteFault(fault.pool, fault.end, time.now);
  }
  const auto it = rentals_.find(call.number);
  if (it == rentals_.end()) {
    if (reply.machine) {
      strays_[reply.machine->id] = time.now;
    }
    return;
  }
  Rental& rental = it->second;
  rental.is_asking = false;
  if (!reply.end.ok() || !reply.machine) {
    OnRentFault(call.number, reply, time);
    return;
  }
  held_for_ = {};
  problem_.clear();
  HaveMachine(&rental, *reply.machine, time);
}

void RentalBook::OnRentFault(uint64_t number, const RentReply& reply, RentalTime time) {
  Rental& rental = rentals_.at(number);
  if (rental.stage != Stage::kAsked) {
    return;  // a list has found it, or nobody asks any more
  }
  const CallFault fault = reply.end.fault;
  if (fault == CallFault::kThrottled || fault == CallFault::kUnclear || fault == CallFault::kNone) {
    rental.was_unclear = rental.was_unclear || fault != CallFault::kThrottled;
    rental.trouble_at = rental.trouble_at.value_or(time.now);
    rental.wait = std::clamp(rental.wait * 2, kWaitMin, kWaitMax);
    rental.ask_at = time.now + rental.wait;
    if (fault == CallFault::kThrottled) {
      Hold(reply.end, time);
    }
    return;
  }
  if (reply.pool_faults.empty()) {
    for (const Pool& pool : rental.note.pools) {
      memory_.NoteFault(pool, reply.end, time.now);
    }
  }
  if (fault == CallFault::kDenied || fault == CallFault::kCredentials) {
    problem_ = reply.end.message;
    Hold(reply.end, time);
  }
  if (rental.seat) {
    const std::string& message = reply.end.message;
    Fail(*rental.seat, message.empty() ? std::string(CallFaultName(fault)) : message);
    Free(&rental, time);
  }
  if (rental.was_unclear || fault == CallFault::kMismatch) {
    StopAsking(number, time);
  } else {
    Forget(number);
  }
}

void RentalBook::Hold(const CallEnd& end, RentalTime time) {
  const bool is_throttled = end.fault == CallFault::kThrottled;
  if (time.now < held_until_) {
    return;  // it answers a question from before
  }
  held_for_ = std::clamp(held_for_ * 2, is_throttled ? kWaitMin : kDeniedWaitMin, kHoldMax);
  held_until_ = time.now + std::max(held_for_, std::min(end.wait, kHoldMax));
}

/// Some providers tell its zone and its start by lists only. Until then it is of the first pool of
/// its type, and has started when it was heard of.
void RentalBook::NoteOrigin(Rental* rental, const Machine& machine, RentalTime time) {
  RentalNote& note = rental->note;
  const RentalNote before = note;
  if (!machine.pool.zone.empty()) {
    note.pool = machine.pool;
  } else if (note.pool.zone.empty()) {
    const auto first = std::ranges::find(note.pools, machine.pool.type, &Pool::type);
    note.pool = first != note.pools.end() ? *first : machine.pool;
  }
  if (machine.started_us != 0) {
    note.started_us = machine.started_us;
  } else if (note.started_us == 0) {
    note.started_us = time.unix_us;
  }
  rental->machine.pool = note.pool;
  rental->machine.started_us = note.started_us;
  if (note != before && !before.machine.empty()) {
    notes_->Write(note).Ignore("the next list tells it again");
  }
}

void RentalBook::HaveMachine(Rental* rental, const Machine& machine, RentalTime time) {
  if (!rental->machine.id.empty()) {
    if (rental->machine.id != machine.id) {
      strays_[machine.id] = time.now;
    }
    return;
  }
  rental->machine = machine;
  rental->note.machine = machine.id;
  NoteOrigin(rental, machine, time);
  first_us_ =
      first_us_ == 0 ? rental->note.started_us : std::min(first_us_, rental->note.started_us);
  rental->stage = Stage::kBooting;
  rental->since = rental->known_at = time.now;
  rental->untold_at.reset();  // lists of before could not tell of it
  rental->trouble_at.reset();
  if (!rental->seat) {
    rental->free_at = time.now;
  }
  list_at_ = std::min(list_at_, time.now + kListSoon);
  memory_.NoteMachine(rental->note.pool);
  rented_count_++;
  notes_->Write(rental->note).Ignore("its tag finds it as well");
  if (is_ending_) {
    GoBack(rental, time);
  }
}

Duration RentalBook::ListEvery() const {
  const bool is_changing = std::ranges::any_of(rentals_, [](const auto& entry) {
    const Rental& rental = entry.second;
    return (rental.stage != Stage::kReady && rental.stage != Stage::kAsked) ||
           (rental.was_told && rental.untold_at);
  });
  return is_changing || !strays_.empty() || (is_ending_ && !has_listed_) ? kListSoon : kListLater;
}

void RentalBook::OnList(const RentalCall& call, const ListReply& reply, RentalTime time) {
  is_listing_ = false;
  if (!reply.end.ok()) {
    list_at_ = time.now + kListSoon;
    if (reply.end.fault == CallFault::kThrottled) {
      Hold(reply.end, time);
    }
    return;
  }
  std::map<std::string, const Machine*> by_id;
  std::map<uint64_t, const Machine*> by_number;
  for (const Machine& machine : reply.machines) {
    by_id[machine.id] = &machine;
    // Before one that has ended: that one is sought for what it has cost.
    const Machine*& found = by_number[NumberOf(machine)];
    found = found == nullptr || IsThere(machine.state) ? &machine : found;
  }
  std::vector<uint64_t> numbers;
  for (const auto& [number, rental] : rentals_) {
    numbers.push_back(number);
  }
  for (const uint64_t number : numbers) {
    const std::string& id = rentals_.at(number).machine.id;
    const Machine* machine = nullptr;
    if (!id.empty()) {
      const auto it = by_id.find(id);
      machine = it != by_id.end() ? it->second : nullptr;
    } else if (const auto it = by_number.find(number); it != by_number.end()) {
      machine = it->second;
    }
    See(number, machine, call.begun, time);
  }
  strays_.clear();
  for (const Machine& machine : reply.machines) {
    const auto it = rentals_.find(NumberOf(machine));
    const bool is_ours = it != rentals_.end() && it->second.machine.id == machine.id;
    // One that has stopped keeps its disk until it is released.
    if (machine.state != MachineState::kGone && !is_ours) {
      strays_[machine.id] = time.now;
    }
  }
  has_listed_ = has_listed_ || call.begun >= ended_at_;
  list_at_ = time.now + ListEvery();
}

/// A list may forget a machine that is there, and then a process that works would be lost: one that
/// was told of is missing when lists lack it for a while, any other when two of them do.
bool RentalBook::IsMissing(Rental* rental, bool is_told, TimePoint asked) const {
  if (is_told) {
    rental->was_told = true;
    rental->untold_at.reset();
    return false;
  }
  if (!rental->was_told) {
    const bool is_sought = rental->stage == Stage::kSought;
    const TimePoint from = is_sought ? rental->since : rental->known_at;
    if (asked <= from + options_.visible_max) {
      return false;  // a list that lacks it so early says nothing
    }
  }
  rental->untold_at = rental->untold_at.value_or(asked);
  // Lists that lack it are no proof, and a release of one that nobody knows is no error.
  if (rental->stage == Stage::kEnding && !rental->is_released) {
    return false;
  }
  if (!rental->was_told) {
    return asked > *rental->untold_at;
  }
  return asked - *rental->untold_at >=
         (rental->stage == Stage::kEnding ? options_.untold_ended_max : options_.untold_max);
}

void RentalBook::See(uint64_t number, const Machine* machine, TimePoint asked, RentalTime time) {
  Rental& rental = rentals_.at(number);
  if (machine != nullptr && rental.machine.id.empty()) {
    HaveMachine(&rental, *machine, time);
  }
  const bool is_missing = IsMissing(&rental, machine != nullptr, asked);
  switch (rental.stage) {
    case Stage::kAsked:
      return;
    case Stage::kSought:
      if (is_missing && !rental.is_asking) {
        Forget(number);
      }
      return;
    case Stage::kBooting:
    case Stage::kReady:
      if (is_missing) {
        LoseMachine(&rental, "the provider does not know it any more", false, time);
        return;
      }
      if (machine == nullptr) {
        return;
      }
      NoteOrigin(&rental, *machine, time);
      rental.machine.state = machine->state;
      rental.machine.ended_us = machine->ended_us;
      rental.machine.is_revoked = machine->is_revoked;
      rental.machine.free_within = machine->free_within;
      rental.machine.address = machine->address;
      rental.machine.private_address = machine->private_address;
      if (!IsThere(machine->state)) {
        LoseMachine(&rental, machine->why, machine->is_revoked, time);
      } else if (
          rental.stage == Stage::kBooting && machine->state == MachineState::kRunning &&
          !(machine->address.empty() && machine->private_address.empty())) {
        rental.stage = Stage::kReady;
        rental.since = time.now;
        if (rental.seat) {
          Give(&rental, time);
        }
      }
      return;
    case Stage::kEnding:
      if (machine != nullptr) {
        NoteOrigin(&rental, *machine, time);
        rental.machine.ended_us = machine->ended_us;
        rental.machine.is_revoked = machine->is_revoked;
        rental.machine.free_within = machine->free_within;
        if (rental.is_from_before && machine->state == MachineState::kEnding) {
          // It may have stopped by itself: then it stays, with its disk, until it is released.
          rental.is_released = false;
          rental.release_at = time.now;
        }
        rental.is_from_before = false;
      }
      if (is_missing || (machine != nullptr && machine->state == MachineState::kGone)) {
        CloseBill(&rental, "gone", time);
        rentals_.erase(number);
      } else if (machine != nullptr) {
        rental.machine.state = machine->state;
        if (!IsThere(machine->state)) {
          CloseBill(&rental, machine->why, time);
        }
      }
      return;
  }
}

void RentalBook::LoseMachine(
    Rental* rental, const std::string& why, bool is_revoked, RentalTime time) {
  if (rental->seat) {
    RentalEvent event;
    event.kind =
        rental->stage == Stage::kReady ? RentalEvent::Kind::kLost : RentalEvent::Kind::kFailed;
    event.seat = *rental->seat;
    event.machine = rental->machine;
    event.why = fmt::format(
        "machine {} ({}) {}: {}",
        rental->machine.id,
        PoolText(rental->machine.pool),
        is_revoked ? "was taken back" : "is gone",
        why);
    event.is_revoked = is_revoked;
    events_.push_back(std::move(event));
    Free(rental, time);
  }
  if (is_revoked) {
    watch_.NoteRevocation(rental->note.pool, time.now);
    WatchPools(time);
  }
  CloseBill(rental, why, time);
  GoBack(rental, time);
}

void RentalBook::GoBack(Rental* rental, RentalTime time) {
  rental->stage = Stage::kEnding;
  rental->since = rental->release_at = time.now;
  list_at_ = std::min(list_at_, time.now + kListSoon);
}

void RentalBook::OnRelease(const RentalCall& call, const CallEnd& end, RentalTime time) {
  for (auto& [number, rental] : rentals_) {
    if (!rental.is_releasing || std::ranges::find(call.ids, rental.machine.id) == call.ids.end()) {
      continue;
    }
    rental.is_releasing = false;
    // A provider ends nothing and says no word of a machine that it does not know yet.
    const bool is_known = rental.was_told || call.begun - rental.known_at > options_.visible_max;
    const bool is_done = end.ok() && is_known;
    rental.release_at = time.now + (is_done ? kReleaseAgain : std::max(kListSoon, end.wait));
    if (is_done) {
      rental.is_released = true;
      CloseBill(&rental, "released", time);
    }
  }
  if (!end.ok()) {
    problem_ = end.fault == CallFault::kDenied || end.fault == CallFault::kCredentials ? end.message
                                                                                       : problem_;
  }
}

void RentalBook::OnPrices(const RentalCall& call, const PriceReply& reply, RentalTime time) {
  is_pricing_ = false;
  is_price_told_ = reply.end.ok();
  money_.OnPrices(reply, call.begun);
  WatchPools(time);
  price_at_ = time.now + (reply.end.ok() ? kPricesEvery : kListSoon);
}

}  // namespace ps::provisioner
