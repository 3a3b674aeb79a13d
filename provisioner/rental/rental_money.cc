#include "provisioner/rental/rental_money.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

namespace ps::provisioner {

void RentalMoney::AddEnded(const RentalNote& note, int64_t unix_us) {
  // EC2 tells prices of 90 days.
  constexpr int64_t kPricesKnownUs = 60 * 86'400'000'000;
  ended_usd_[note.number] = note.usd;
  if (note.usd == 0 || unix_us - note.started_us < kPricesKnownUs) {
    unsettled_[note.number] = {note, TimePoint(), false};
  }
}

void RentalMoney::OnPrices(const PriceReply& reply, TimePoint asked) {
  for (const PoolPrice& price : reply.prices) {
    prices_.Add(price);
  }
  const bool is_refused = !reply.end.ok() && reply.end.fault != CallFault::kThrottled &&
                          reply.end.fault != CallFault::kUnclear;
  has_prices_ = has_prices_ || reply.end.ok() || is_refused;
  for (auto it = unsettled_.begin(); it != unsettled_.end();) {
    Unsettled& ended = it->second;
    RentalNote& note = ended.note;
    const double usd = CostOf(note);
    if (usd != note.usd) {
      note.usd = ended_usd_[note.number] = usd;
      notes_->Write(note).Ignore("it is some cents");
    }
    ended.is_refused = is_refused;
    it = reply.end.ok() && asked >= ended.since ? unsettled_.erase(it) : std::next(it);
  }
}

/// Without any price the cost would be 0, and what an earlier life has noted would be lost.
double RentalMoney::CostOf(const RentalNote& note) const {
  if (note.is_free) {
    return 0;
  }
  return prices_.At(note.pool, note.started_us)
             ? prices_.Cost(note.pool, note.started_us, note.ended_us)
             : note.usd;
}

bool RentalMoney::is_settling() const {
  return std::ranges::any_of(
      unsettled_, [](const auto& entry) { return !entry.second.is_refused; });
}

void RentalMoney::Close(RentalNote* note, int64_t ended_us, const std::string& why, TimePoint now) {
  note->why = note->ended_us == 0 ? why : note->why;
  note->ended_us = ended_us;
  note->usd = CostOf(*note);
  ended_usd_[note->number] = note->usd;
  unsettled_[note->number] = {*note, now, false};
  notes_->Write(*note).Ignore("see the header");
}

double RentalMoney::ended_usd() const {
  double sum = 0;
  for (const auto& [number, usd] : ended_usd_) {
    sum += usd;
  }
  return sum;
}

double RentalMoney::PaidRateOf(const RentalNote& note, int64_t unix_us) const {
  return note.machine.empty() ? 0 : prices_.PaidAt(note.pool, note.started_us, unix_us).value_or(0);
}

double RentalMoney::RateOf(const RentalNote& note, int64_t unix_us) const {
  if (!note.machine.empty()) {
    return std::max(PaidRateOf(note, unix_us), prices_.At(note.pool, unix_us).value_or(0));
  }
  double most = 0;
  for (const Pool& pool : note.pools) {
    most = std::max(most, prices_.At(pool, unix_us).value_or(0));
  }
  return most;
}

double RentalMoney::CostUntil(const RentalNote& note, int64_t unix_us) const {
  return prices_.Cost(note.pool, note.started_us, unix_us);
}

std::optional<std::string> RentalMoney::WhyNot(
    const RentalNote& note, double rate, double spent, int64_t unix_us) const {
  if (!limits_.usd_per_hour && !limits_.usd) {
    return "";
  }
  for (const Pool& pool : note.pools) {
    if (prices_.At(pool, unix_us)) {
      continue;
    }
    if (!has_prices_) {
      return std::nullopt;
    }
    return fmt::format(
        "the provider tells no price of {}, and the job has a budget; give its price in "
        "launch.rent",
        PoolText(pool));
  }
  const double price = RateOf(note, unix_us);
  constexpr double kRounding = 1e-9;
  if (limits_.usd_per_hour && rate + price > *limits_.usd_per_hour + kRounding) {
    return fmt::format(
        "one more machine for ${:.4f} an hour would make ${:.4f} an hour, and "
        "budget.usd_per_hour is ${:.4f}",
        price,
        rate + price,
        *limits_.usd_per_hour);
  }
  if (limits_.usd && spent >= *limits_.usd) {
    return fmt::format("budget.usd, ${:.2f}, is spent", *limits_.usd);
  }
  return "";
}

}  // namespace ps::provisioner
