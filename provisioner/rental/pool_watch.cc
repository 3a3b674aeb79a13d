#include "provisioner/rental/pool_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ps/base/text.h"

namespace ps::provisioner {

void PoolWatch::NoteRevocation(const Pool& pool, TimePoint now) {
  revocations_[pool].push_back(now);
}

size_t PoolWatch::RevocationsOf(const Pool& pool) const {
  const auto it = revocations_.find(pool);
  return it == revocations_.end() ? 0 : it->second.size();
}

const PoolWatch::Leave* PoolWatch::LeaveOf(const Pool& pool) const {
  const auto it = left_.find(pool);
  return it == left_.end() ? nullptr : &it->second;
}

void PoolWatch::Look(const std::map<Pool, double>& prices, TimePoint now) {
  if (factor_ == 0) {
    return;
  }
  for (auto& [pool, times] : revocations_) {
    while (!times.empty() && now - times.front() >= kCounted) {
      times.pop_front();
    }
  }
  for (const auto& [pool, usd] : prices) {
    LookAt(pool, usd, prices, now);
  }
}

void PoolWatch::LookAt(
    const Pool& pool, double usd, const std::map<Pool, double>& prices, TimePoint now) {
  const size_t revoked = RevocationsOf(pool);
  double cheapest = 0;  // 0: there is no other
  bool has_steadier = false;
  std::string others;
  for (const auto& [other, other_usd] : prices) {
    const bool is_alike = other.type == pool.type && other != pool;
    if (!is_alike || left_.contains(other) || !(other_usd > 0)) {
      continue;
    }
    cheapest = cheapest == 0 ? other_usd : std::min(cheapest, other_usd);
    has_steadier =
        has_steadier || (2 * RevocationsOf(other) <= revoked && other_usd <= factor_ * usd);
    others += fmt::format(
        "{}{} for ${} an hour with {} in the last hour",
        others.empty() ? "" : "; ",
        PoolText(other),
        FormatUsd(other_usd),
        Plural(RevocationsOf(other), "revocation"));
  }
  const auto left = left_.find(pool);
  Leave leave = left == left_.end() ? Leave() : left->second;
  const double limit = leave.is_dear ? (1 + factor_) / 2 : factor_;
  const bool is_above = cheapest > 0 && usd > limit * cheapest;
  if (!is_above) {
    dear_since_.erase(pool);
  }
  leave.is_dear = is_above && (leave.is_dear ||
                               now - dear_since_.try_emplace(pool, now).first->second >= kPatience);
  leave.is_unsteady =
      has_steadier && (leave.is_unsteady ? revoked > 0 : revoked >= kRevocationsMax);
  if (!leave.is_dear && !leave.is_unsteady) {
    left_.erase(pool);
    return;
  }
  leave.why = leave.is_dear ? fmt::format(
                                  "{} costs ${} an hour, {:.1f} times the cheapest other pool",
                                  PoolText(pool),
                                  FormatUsd(usd),
                                  usd / cheapest)
                            : fmt::format(
                                  "{} has taken {} back in the last hour",
                                  PoolText(pool),
                                  Plural(revoked, "machine"));
  leave.others = std::move(others);
  left_[pool] = std::move(leave);
}

}  // namespace ps::provisioner
