#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "provisioner/rental/price_history.h"
#include "provisioner/rental/rental_note.h"
#include "ps/base/time.h"

namespace ps::provisioner {

/// What the machines of a run cost, and whether one more may be rented. Times are microseconds
/// since 1970. Pure but for the notes, which say what each machine has cost.
class RentalMoney {
 public:
  struct Limits {
    std::optional<double> usd_per_hour;
    std::optional<double> usd;
  };

  RentalMoney(Limits limits, RentalNotes* notes) : limits_(limits), notes_(notes) {}

  /// A machine that ended in an earlier life of the run, which may have been over before its cost
  /// was sure.
  void AddEnded(const RentalNote& note, int64_t unix_us);
  /// The cost becomes known of what ended before the provider was asked.
  void OnPrices(const PriceReply& reply, TimePoint asked);

  /// A machine costs nothing from `ended_us` on, as is known at `now`; again, when that becomes
  /// known better. Where the note can't be written, a successor finds the machine gone and closes
  /// it later, so the cost is too high rather than too low.
  void Close(RentalNote* note, int64_t ended_us, const std::string& why, TimePoint now);

  /// Dollars an hour of a machine that is rented now; none: nobody tells.
  std::optional<double> PriceOf(const Pool& pool, int64_t unix_us) const {
    return prices_.At(pool, unix_us);
  }

  /// Dollars an hour that are paid for a machine now; 0: there is none yet.
  double PaidRateOf(const RentalNote& note, int64_t unix_us) const;
  /// The higher one of what is paid now and what the machine's next hour will cost at the price of
  /// now. Before there is a machine: the price of the dearest one that may come.
  double RateOf(const RentalNote& note, int64_t unix_us) const;
  double CostUntil(const RentalNote& note, int64_t unix_us) const;

  /// The cost of all that has ended.
  double ended_usd() const;

  /// Why the note may not be rented beside machines of `rate` dollars an hour, where `spent` is
  /// gone; empty: it may. Nothing: prices are not known yet.
  std::optional<std::string> WhyNot(
      const RentalNote& note, double rate, double spent, int64_t unix_us) const;

  /// A machine that ended, and whose cost is not sure yet: its price may have moved since the
  /// provider was asked last.
  struct Unsettled {
    RentalNote note;
    TimePoint since{};
    bool is_refused = false;  // the provider's last word on prices was that it tells none
  };

  const std::map<uint64_t, Unsettled>& unsettled() const { return unsettled_; }

  /// Some of these may be settled by the next answer: it is worth waiting for.
  bool is_settling() const;

 private:
  double CostOf(const RentalNote& note) const;

  const Limits limits_;
  RentalNotes* notes_;
  PriceHistory prices_;
  std::map<uint64_t, double> ended_usd_;     // of each that ended
  std::map<uint64_t, Unsettled> unsettled_;  // some of these
  bool has_prices_ = false;                  // the provider has said what it has to say
};

}  // namespace ps::provisioner
