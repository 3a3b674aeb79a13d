// How a RentalBook leaves pools that PoolWatch says are to be left.

#include <algorithm>

#include "provisioner/rental/rental_book.h"

namespace ps::provisioner {
namespace {

/// The least time between two moves: a fleet must not stand still because of a price.
constexpr Duration kMoveEvery = std::chrono::minutes(2);

}  // namespace

void RentalBook::WatchPools(RentalTime time) {
  std::map<Pool, double> prices;
  const auto add = [&](const Pool& pool) {
    if (const std::optional<double> usd = money_.PriceOf(pool, time.unix_us)) {
      prices[pool] = *usd;
    }
  };
  for (const Pool& pool : memory_.Open(options_.pools, time.now)) {
    add(pool);
  }
  for (const auto& [number, rental] : rentals_) {
    if (!rental.note.machine.empty() && rental.note.ended_us == 0) {
      add(rental.note.pool);
    }
  }
  watch_.Look(prices, time.now);
}

/// The pools that are not left; all of them, if all are left.
std::vector<Pool> RentalBook::WithoutLeft(std::vector<Pool> pools) const {
  const auto is_left = [this](const Pool& pool) { return watch_.LeaveOf(pool) != nullptr; };
  if (!std::ranges::all_of(pools, is_left)) {
    std::erase_if(pools, is_left);
  }
  return pools;
}

/// Whether the machine's pool is left, and its process may have a machine of another pool of the
/// type. A machine that works is not given up for a pool that had none when it was last asked.
bool RentalBook::IsToLeave(const Rental& rental, RentalTime time) const {
  if (rental.note.machine.empty() || watch_.LeaveOf(rental.note.pool) == nullptr) {
    return false;
  }
  return std::ranges::any_of(memory_.Open(rental.wanted, time.now), [&](const Pool& pool) {
    return pool.type == rental.note.pool.type && watch_.LeaveOf(pool) == nullptr &&
           memory_.HasStock(pool);
  });
}

std::optional<RentalMove> RentalBook::TakeMove(RentalTime time) {
  const bool is_waiting = std::ranges::any_of(rentals_, [](const auto& entry) {
    const Rental& rental = entry.second;
    return rental.seat && (rental.stage == Stage::kAsked || rental.stage == Stage::kBooting);
  });
  if (is_ending_ || is_waiting || (moved_at_ && time.now - *moved_at_ < kMoveEvery)) {
    return std::nullopt;
  }
  for (const auto& [number, rental] : rentals_) {
    if (rental.stage == Stage::kReady && rental.seat && IsToLeave(rental, time)) {
      moved_at_ = time.now;
      const PoolWatch::Leave& leave = *watch_.LeaveOf(rental.note.pool);
      return RentalMove{*rental.seat, rental.machine.id, leave.why, leave.others};
    }
  }
  return std::nullopt;
}

}  // namespace ps::provisioner
