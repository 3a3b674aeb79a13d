#pragma once

#include <deque>
#include <map>
#include <string>

#include "provisioner/provider/provider.h"
#include "ps/base/time.h"

namespace ps::provisioner {

/// Which pools a run is to leave: their machines cost far more than those of another pool, or are
/// taken back far more often. It leaves late and comes back later, so that a price that swings
/// moves nobody. Pure.
class PoolWatch {
 public:
  /// A pool is left once its price has been too high for this long.
  static constexpr Duration kPatience = std::chrono::minutes(10);
  /// A revocation counts for this long.
  static constexpr Duration kCounted = std::chrono::hours(1);
  /// With so many revocations in that time a pool is left, if another pool had half of them at most
  /// and costs no more than `factor` times as much.
  static constexpr size_t kRevocationsMax = 3;

  /// A pool is compared with the pools of its type alone: an hour of another type is worth another
  /// price. It is too dear above `factor` times the price of the cheapest one that is not left, and
  /// no longer so at (1 + factor) / 2 times. 0: nothing is ever left.
  explicit PoolWatch(double factor) : factor_(factor) {}

  void NoteRevocation(const Pool& pool, TimePoint now);
  /// `prices`: USD an hour of now, of the pools that can be had and of those that are in use.
  void Look(const std::map<Pool, double>& prices, TimePoint now);

  struct Leave {
    bool is_dear = false;
    bool is_unsteady = false;
    std::string why;     // for people
    std::string others;  // pools that there are besides, with what they cost
  };

  /// Why the pool is left; null: it is not.
  const Leave* LeaveOf(const Pool& pool) const;

 private:
  size_t RevocationsOf(const Pool& pool) const;
  void LookAt(const Pool& pool, double usd, const std::map<Pool, double>& prices, TimePoint now);

  const double factor_;
  std::map<Pool, std::deque<TimePoint>> revocations_;  // within kCounted
  std::map<Pool, TimePoint> dear_since_;
  std::map<Pool, Leave> left_;
};

}  // namespace ps::provisioner
