#pragma once

#include <cstdint>
#include <string>

namespace ps::provisioner {

/// A run whose machines are rented, on virtual time, with faults drawn from the seed: stock that
/// comes and goes, quotas, throttling, denied calls, answers that are lost before or after the call
/// took effect, machines that lists tell of late, that never boot, that are taken back, that stop
/// and stay; a disk that takes no notes; prices that move or are denied; a coordinator that dies at
/// any call or note, and comes back, or does not. The book is the production code; provider, notes
/// and processes are simulated.
struct RentalScenario {
  uint64_t seed = 1;
  /// A fault of the book to be found, for the test of the oracle.
  enum class Sabotage {
    kNone,
    kTokensDiffer,        // each attempt has a token of its own
    kNoNotes,             // notes are lost with the process
    kNothingReleased,     // no machine is given back
    kStraysStay,          // lists tell of no machine that has no note
    kProcessesForgotten,  // a successor is told of no process that still runs
    kSeenAtOnce,          // what no list tells of yet is gone, and its release done
    kOverTooSoon,         // the end is when no machine is known, not when there is none
    kPricesStand,         // what a price was once it stays
    kBudgetIgnored,       // nobody looks at budget.usd
  } sabotage = Sabotage::kNone;
  bool has_later_faults = true;  // as SimulatedProvider
};

struct RentalOutcome {
  std::string violation;  // empty: all promises were kept
  uint64_t machines = 0;  // that were made
  uint64_t calls = 0;
  uint64_t crashes = 0;
  uint64_t ready = 0;  // seats that got a machine
};

/// Promises: a note never gets two machines; a machine has one process; whoever asks is answered in
/// bounded time; the rate of money stays below the limit; nothing is rented once the budget is
/// spent; after the end, with whatever faults, and after a death without successor, no machine is
/// left, and after the end none that has stopped; what a machine has cost is not forgotten; the
/// run's cost is what the provider's book says.
RentalOutcome SimulateRentals(const RentalScenario& scenario);

}  // namespace ps::provisioner
