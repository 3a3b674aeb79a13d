#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "kernels/cpu/dnnl_primitive.h"
#include "ps/base/check.h"
#include "ps/base/status.h"

namespace ps::kernels {

/// The primitives of one op, made once per batch size and then reused. A job uses few sizes (the
/// minibatch, the tail of a lease, the evaluation batch), so beyond kCapacity the least recently
/// used makes room.
template <typename Plan>
class PlanCache {
 public:
  static constexpr size_t kCapacity = 8;

  explicit PlanCache(const char* op_name) : op_name_(op_name) {}

  /// Makes sure that there is a plan for batches of n, by build(Plan*), which may throw
  /// dnnl::error. A plan for training serves evaluation too, not the other way round.
  template <typename Build>
  Status Prepare(int64_t n, bool training, Build build) {
    PS_CHECK(n > 0) << op_name_ << " asked for an empty batch";
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->n == n) {
        if (it->training || !training) {
          entries_.splice(entries_.begin(), entries_, it);
          return Status::Ok();
        }
        entries_.erase(it);
        break;
      }
    }
    auto plan = std::make_unique<Plan>();
    PS_TRY(CatchDnnl(op_name_, [&] { build(plan.get()); }));
    if (entries_.size() == kCapacity) {
      entries_.pop_back();
    }
    entries_.push_front({n, training, std::move(plan)});
    return Status::Ok();
  }

  /// Requires: Prepare(n) came before.
  Plan& At(int64_t n) {
    auto it = entries_.begin();
    while (it != entries_.end() && it->n != n) {
      ++it;
    }
    PS_CHECK(it != entries_.end()) << op_name_ << " was not prepared for " << n << " samples";
    entries_.splice(entries_.begin(), entries_, it);
    return *entries_.front().plan;
  }

 private:
  struct Entry {
    int64_t n;
    bool training;
    std::unique_ptr<Plan> plan;
  };

  const char* const op_name_;
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace ps::kernels
