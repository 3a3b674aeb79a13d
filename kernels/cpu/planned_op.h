#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "kernels/cpu/dnnl_primitive.h"
#include "kernels/cpu/op.h"
#include "ps/base/check.h"

namespace ps::kernels {

/// An op whose primitives are made once per batch size and then reused. A job uses few sizes (the
/// minibatch, the tail of a lease, the evaluation batch), so beyond kCapacity the least recently
/// used makes room.
template <typename Plan>
class PlannedOp : public Op {
 public:
  static constexpr size_t kCapacity = 8;

  Status Prepare(int64_t n, bool training) final {
    PS_CHECK(n > 0) << name_ << " asked for an empty batch";
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->n == n) {
        if (it->training || !training) {
          return Status::Ok();
        }
        entries_.erase(it);
        break;
      }
    }
    auto plan = std::make_unique<Plan>();
    PS_TRY(CatchDnnl(name_, [&] { Build(n, training, plan.get()); }));
    if (entries_.size() == kCapacity) {
      entries_.pop_back();
    }
    entries_.push_front({n, training, std::move(plan)});
    return Status::Ok();
  }

 protected:
  PlannedOp(const char* name, Workspace* workspace) : name_(name), workspace_(workspace) {}

  /// Fills a new plan for batches of n; without `training` only what Forward needs in evaluation.
  /// May throw dnnl::error.
  virtual void Build(int64_t n, bool training, Plan* plan) const = 0;

  Plan& PlanFor(int64_t n) {
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->n == n) {
        entries_.splice(entries_.begin(), entries_, it);
        return *entries_.front().plan;
      }
    }
    PS_CHECK(false) << name_ << " was not prepared for " << n << " samples";
    __builtin_unreachable();
  }

  Workspace* workspace() const { return workspace_; }

 private:
  struct Entry {
    int64_t n;
    bool training;
    std::unique_ptr<Plan> plan;
  };

  const char* const name_;
  Workspace* const workspace_;
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace ps::kernels
