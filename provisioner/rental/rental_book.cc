#include "provisioner/rental/rental_book.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <utility>

#include "provisioner/provider/request_check.h"
#include "ps/crypto/sha256.h"

namespace ps::provisioner {
namespace {

constexpr size_t kReleasesMax = 100;

}  // namespace

std::string RentalToken(const std::string& run, uint64_t number, const RentRequest& request) {
  constexpr size_t kDigits = 40;
  const std::string text = fmt::format("{}\n{}\n{}", run, number, RequestDigest(request));
  return "r-" + crypto::HexOf(crypto::Sha256Of(std::as_bytes(std::span(text)))).substr(0, kDigits);
}

Result<RentalBook> RentalBook::Open(RentalOptions options, RentalNotes* notes, RentalTime time) {
  RentalBook book(std::move(options), notes);
  PS_ASSIGN(const std::vector<RentalNote> before, notes->Load());
  for (const RentalNote& note : before) {
    book.next_number_ = std::max(book.next_number_, note.number + 1);
    if (!note.machine.empty()) {
      book.rented_count_++;
      book.first_us_ =
          book.first_us_ == 0 ? note.started_us : std::min(book.first_us_, note.started_us);
    }
    if (note.ended_us != 0) {
      book.money_.AddEnded(note, time.unix_us);
    }
    // One that has ended is looked for as well: the provider may not have ended it yet.
    Rental rental;
    rental.note = note;
    rental.wanted = note.pools;
    rental.machine.id = note.machine;
    rental.machine.pool = note.pool;
    rental.machine.started_us = note.started_us;
    rental.since = rental.known_at = rental.free_at = time.now;
    rental.is_sent = true;
    if (note.ended_us != 0) {
      rental.stage = Stage::kEnding;
      rental.machine.state = MachineState::kEnding;
      rental.is_released = rental.is_from_before = true;
    } else {
      rental.stage = note.machine.empty() ? Stage::kSought : Stage::kBooting;
    }
    book.rentals_[note.number] = std::move(rental);
  }
  return book;
}

RentRequest RentalBook::RequestOf(const RentalNote& note) const {
  RentRequest request;
  request.token = note.token;
  request.pools = note.pools;
  request.setup = options_.setup;
  request.tags = options_.tags;
  request.tags[std::string(kRunTag)] = options_.run;
  request.tags[std::string(kRentalTag)] = std::to_string(note.number);
  return request;
}

void RentalBook::Fail(const RentalSeat& seat, std::string why) {
  RentalEvent event;
  event.kind = RentalEvent::Kind::kFailed;
  event.seat = seat;
  event.why = std::move(why);
  events_.push_back(std::move(event));
}

/// The one that is ready first.
RentalBook::Rental* RentalBook::FreeRental(const std::vector<Pool>& pools, RentalTime time) {
  const auto fits = [&](const Pool& pool) { return std::ranges::find(pools, pool) != pools.end(); };
  Rental* best = nullptr;
  for (auto& [number, rental] : rentals_) {
    const bool is_usable = rental.stage == Stage::kReady || rental.stage == Stage::kBooting ||
                           rental.stage == Stage::kAsked;
    const RentalNote& note = rental.note;
    const bool is_fit =
        note.machine.empty() ? std::ranges::all_of(note.pools, fits) : fits(note.pool);
    if (is_usable && is_fit && !IsToLeave(rental, time) && !rental.seat &&
        (best == nullptr || rental.stage > best->stage)) {
      best = &rental;
    }
  }
  return best;
}

void RentalBook::Ask(const RentalSeat& seat, const std::vector<Pool>& pools, RentalTime time) {
  if (is_ending_) {
    Fail(seat, "the run is ending");
    return;
  }
  Rental* const rental = FreeRental(pools, time);
  if (rental == nullptr) {
    RentFor(seat, pools, time);
    return;
  }
  rental->seat = seat;
  rental->wanted = pools;
  if (rental->stage == Stage::kReady) {
    Give(rental, time);
  }
}

void RentalBook::RentFor(const RentalSeat& seat, const std::vector<Pool>& pools, RentalTime time) {
  if (!problem_.empty() && time.now < held_until_) {
    Fail(seat, problem_);
    return;
  }
  Rental rental;
  rental.note.number = next_number_;
  rental.note.pools = WithoutLeft(memory_.Open(pools, time.now));
  rental.wanted = pools;
  if (rental.note.pools.empty()) {
    Fail(seat, memory_.WhyLeftOut(pools, time.now));
    return;
  }
  rental.note.token = RentalToken(options_.run, rental.note.number, RequestOf(rental.note));
  rental.seat = seat;
  rental.since = rental.ask_at = time.now;
  next_number_++;
  rentals_[rental.note.number] = std::move(rental);
}

/// The note says who has it, so that a successor neither gives the machine of a process that still
/// runs to another one nor sends it back.
void RentalBook::Give(Rental* rental, RentalTime time) {
  const RentalSeat seat = *rental->seat;
  rental->note.seat = seat;
  if (const Status written = notes_->Write(rental->note); !written.ok()) {
    Fail(seat, std::string(written.message()));
    Free(rental, time);
    return;
  }
  RentalEvent event;
  event.kind = RentalEvent::Kind::kReady;
  event.seat = seat;
  event.machine = rental->machine;
  event.asked_at = rental->asked_at;
  events_.push_back(std::move(event));
}

void RentalBook::Free(Rental* rental, RentalTime time) {
  rental->seat.reset();
  rental->asked_at.reset();
  rental->free_at = time.now;
}

void RentalBook::Drop(const RentalSeat& seat, bool is_bad, RentalTime time) {
  std::erase_if(events_, [&](const RentalEvent& event) { return event.seat == seat; });
  const auto it =
      std::ranges::find_if(rentals_, [&](const auto& entry) { return entry.second.seat == seat; });
  if (it == rentals_.end()) {
    return;
  }
  Rental& rental = it->second;
  Free(&rental, time);
  if (rental.stage == Stage::kAsked && !rental.is_sent) {
    rentals_.erase(it);
  } else if (
      (is_bad || IsToLeave(rental, time)) &&
      (rental.stage == Stage::kReady || rental.stage == Stage::kBooting)) {
    GoBack(&rental, time);
  }
}

void RentalBook::Adopt(const std::set<RentalSeat>& running, RentalTime time) {
  for (auto& [number, rental] : rentals_) {
    const std::optional<RentalSeat>& seat = rental.note.seat;
    if (rental.stage == Stage::kBooting && seat && running.contains(*seat)) {
      rental.seat = seat;
      rental.stage = Stage::kReady;
      rental.since = time.now;
    }
  }
}

void RentalBook::End(RentalTime time) {
  if (is_ending_) {
    return;
  }
  is_ending_ = true;
  has_listed_ = false;
  ended_at_ = list_at_ = time.now;
  std::vector<uint64_t> asked;
  for (auto& [number, rental] : rentals_) {
    rental.seat.reset();
    if (rental.stage == Stage::kAsked) {
      asked.push_back(number);
    } else if (rental.stage != Stage::kSought && rental.stage != Stage::kEnding) {
      GoBack(&rental, time);
    }
  }
  for (const uint64_t number : asked) {
    StopAsking(number, time);
  }
}

void RentalBook::Tick(RentalTime time) {
  std::vector<uint64_t> given_up;
  for (auto& [number, rental] : rentals_) {
    const bool is_here = rental.stage == Stage::kBooting || rental.stage == Stage::kReady;
    if (rental.stage == Stage::kAsked && rental.trouble_at &&
        time.now - *rental.trouble_at > options_.unclear_max) {
      given_up.push_back(number);
    } else if (is_here && !rental.seat && time.now - rental.free_at >= options_.idle_max) {
      GoBack(&rental, time);
    } else if (rental.stage == Stage::kBooting && time.now - rental.since > options_.boot_max) {
      if (rental.seat) {
        Fail(
            *rental.seat,
            fmt::format(
                "machine {} ({}) was not ready within {:.0f} s",
                rental.machine.id,
                PoolText(rental.machine.pool),
                Seconds(options_.boot_max)));
        Free(&rental, time);
      }
      GoBack(&rental, time);
    }
  }
  for (const uint64_t number : given_up) {
    Rental& rental = rentals_.at(number);
    if (rental.seat) {
      Fail(
          *rental.seat,
          fmt::format(
              "the provider gave no clear answer for {:.0f} s", Seconds(options_.unclear_max)));
      Free(&rental, time);
    }
    StopAsking(number, time);
  }
}

void RentalBook::StopAsking(uint64_t number, RentalTime time) {
  Rental& rental = rentals_.at(number);
  if (!rental.is_sent) {
    rentals_.erase(number);
    return;
  }
  rental.stage = Stage::kSought;
  rental.since = time.now;
}

void RentalBook::TakeRents(RentalTime time, std::vector<RentalCall>* calls) {
  std::vector<uint64_t> refused;
  for (auto& [number, rental] : rentals_) {
    if (rents_ >= options_.rents_max || time.now < held_until_) {
      break;
    }
    if (rental.stage != Stage::kAsked || rental.is_asking || time.now < rental.ask_at) {
      continue;
    }
    if (!rental.is_sent) {
      std::optional<std::string> why =
          money_.WhyNot(rental.note, LimitedRate(time), usd(time), time.unix_us);
      if (!why) {
        rental.trouble_at = rental.trouble_at.value_or(time.now);
        continue;
      }
      // Noted before it is asked for: whoever comes after a crash looks for it.
      if (const Status written = why->empty() ? notes_->Write(rental.note) : Status::Ok();
          !written.ok()) {
        why = std::string(written.message());
      }
      if (!why->empty()) {
        Fail(*rental.seat, std::move(*why));
        refused.push_back(number);
        continue;
      }
    }
    if (!rental.is_sent && rental.seat) {
      rental.asked_at = time.now;
    }
    rental.is_sent = rental.is_asking = true;
    rents_++;
    RentalCall call;
    call.kind = RentalCall::Kind::kRent;
    call.number = number;
    call.request = RequestOf(rental.note);
    call.begun = time.now;
    calls->push_back(std::move(call));
  }
  for (const uint64_t number : refused) {
    Forget(number);
  }
}

void RentalBook::TakeReleases(RentalTime time, std::vector<RentalCall>* calls) {
  std::vector<std::string> ids;
  for (auto& [number, rental] : rentals_) {
    // One that somebody has stopped still costs its disk.
    const bool is_wanted = IsThere(rental.machine.state) || !rental.is_released;
    if (rental.stage == Stage::kEnding && !rental.is_releasing && is_wanted &&
        time.now >= rental.release_at) {
      rental.is_releasing = true;
      ids.push_back(rental.machine.id);
    }
  }
  for (auto& [id, at] : strays_) {
    if (time.now >= at) {
      at = time.now + kReleaseAgain;
      ids.push_back(id);
    }
  }
  for (size_t begin = 0; begin < ids.size(); begin += kReleasesMax) {
    RentalCall call;
    call.kind = RentalCall::Kind::kRelease;
    call.ids.assign(
        ids.begin() + static_cast<ptrdiff_t>(begin),
        ids.begin() + static_cast<ptrdiff_t>(std::min(begin + kReleasesMax, ids.size())));
    call.begun = time.now;
    calls->push_back(std::move(call));
  }
}

std::vector<RentalCall> RentalBook::TakeCalls(RentalTime time) {
  std::vector<RentalCall> calls;
  TakeRents(time, &calls);
  TakeReleases(time, &calls);
  if (!is_listing_ && time.now >= list_at_ && time.now >= held_until_) {
    is_listing_ = true;
    RentalCall call;
    call.kind = RentalCall::Kind::kList;
    call.tags[std::string(kRunTag)] = options_.run;
    call.begun = time.now;
    calls.push_back(std::move(call));
  }
  const bool is_sure = !money_.is_settling();
  const bool is_last = HasNoMachine() && !is_sure && is_price_told_;
  if (!is_pricing_ && (is_last || (time.now >= price_at_ && !(is_ending_ && is_sure)))) {
    is_pricing_ = true;
    RentalCall call;
    call.kind = RentalCall::Kind::kPrices;
    call.pools = PricedPools();
    call.since_us = first_us_ != 0 ? first_us_ : time.unix_us;
    call.begun = time.now;
    calls.push_back(std::move(call));
  }
  if (HasNoMachine() && !is_tidying_ && !is_tidy_ && time.now >= tidy_at_) {
    is_tidying_ = true;
    RentalCall call;
    call.kind = RentalCall::Kind::kTidy;
    call.tags[std::string(kRunTag)] = options_.run;
    call.begun = time.now;
    calls.push_back(std::move(call));
  }
  return calls;
}

/// Those of the job, and those of machines from when the job named others.
std::vector<Pool> RentalBook::PricedPools() const {
  std::set<Pool> pools(options_.pools.begin(), options_.pools.end());
  for (const auto& [number, rental] : rentals_) {
    if (!rental.note.machine.empty()) {
      pools.insert(rental.note.pool);
    }
  }
  for (const auto& [number, ended] : money_.unsettled()) {
    pools.insert(ended.note.pool);
  }
  return {pools.begin(), pools.end()};
}

void RentalBook::CloseBill(Rental* rental, const std::string& why, RentalTime time) {
  RentalNote& note = rental->note;
  const Machine& machine = rental->machine;
  const int64_t told_us = machine.ended_us;
  const int64_t ended_us = told_us != 0         ? told_us
                           : note.ended_us != 0 ? note.ended_us
                                                : time.unix_us;
  const Duration age = std::chrono::microseconds(ended_us - note.started_us);
  const bool is_free = machine.is_revoked ? age < machine.free_within : note.is_free;
  if (note.ended_us != ended_us || note.is_free != is_free) {
    note.is_free = is_free;
    money_.Close(&note, ended_us, why, time.now);
  }
}

void RentalBook::Forget(uint64_t number) {
  notes_->Remove(number).Ignore("a successor looks for it, and finds nothing");
  rentals_.erase(number);
}

std::vector<RentalEvent> RentalBook::TakeEvents() {
  return std::exchange(events_, {});
}

bool RentalBook::HasNoMachine() const {
  return is_ending_ && has_listed_ && rentals_.empty() && strays_.empty();
}

bool RentalBook::is_over() const {
  return HasNoMachine() && is_tidy_ && !money_.is_settling();
}

size_t RentalBook::machine_count() const {
  return static_cast<size_t>(std::ranges::count_if(rentals_, [](const auto& entry) {
    const RentalNote& note = entry.second.note;
    return !note.machine.empty() && note.ended_us == 0;
  }));
}

size_t RentalBook::left_count() const {
  const auto is_sent = [](const auto& entry) { return entry.second.is_sent; };
  return static_cast<size_t>(std::ranges::count_if(rentals_, is_sent)) + strays_.size();
}

size_t RentalBook::rented_count() const {
  return rented_count_;
}

double RentalBook::LimitedRate(RentalTime time) const {
  double sum = 0;
  for (const auto& [number, rental] : rentals_) {
    if (rental.is_sent && rental.note.ended_us == 0) {
      sum += money_.RateOf(rental.note, time.unix_us);
    }
  }
  return sum;
}

double RentalBook::usd_per_hour(RentalTime time) const {
  double sum = 0;
  for (const auto& [number, rental] : rentals_) {
    if (rental.is_sent && rental.note.ended_us == 0) {
      sum += rental.note.machine.empty() ? money_.RateOf(rental.note, time.unix_us)
                                         : money_.PaidRateOf(rental.note, time.unix_us);
    }
  }
  return sum;
}

std::map<RentalSeat, double> RentalBook::seat_usd_per_hour(RentalTime time) const {
  std::map<RentalSeat, double> rates;
  for (const auto& [number, rental] : rentals_) {
    if (rental.seat && !rental.note.machine.empty() && rental.note.ended_us == 0) {
      rates[*rental.seat] = money_.PaidRateOf(rental.note, time.unix_us);
    }
  }
  return rates;
}

std::vector<PoolPrice> RentalBook::prices(RentalTime time) const {
  std::vector<PoolPrice> prices;
  for (const Pool& pool : options_.pools) {
    if (const std::optional<double> usd = money_.PriceOf(pool, time.unix_us)) {
      prices.push_back({pool, *usd, time.unix_us});
    }
  }
  return prices;
}

double RentalBook::usd(RentalTime time) const {
  double sum = money_.ended_usd();
  for (const auto& [number, rental] : rentals_) {
    const RentalNote& note = rental.note;
    if (!note.machine.empty() && note.ended_us == 0) {
      sum += money_.CostUntil(note, time.unix_us);
    }
  }
  return sum;
}

}  // namespace ps::provisioner
