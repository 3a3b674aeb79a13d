#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "ps/base/request_thread.h"
#include "ps/proto/fleet_policy.h"

namespace ps::coordinator {

/// A policy on a thread of its own, so that nothing waits while it thinks.
class PolicyThread {
 public:
  /// `decided` is called on the thread with each answer, until EndWithin.
  PolicyThread(
      std::unique_ptr<proto::FleetPolicy> policy,
      std::function<void(const proto::FleetDecision& decision)> decided)
      : shared_(std::make_shared<Shared>(std::move(policy), std::move(decided))),
        thread_([shared = shared_](proto::PolicyView view) { shared->Look(std::move(view)); }) {}

  ~PolicyThread() { shared_->End(); }

  PolicyThread(const PolicyThread&) = delete;
  PolicyThread& operator=(const PolicyThread&) = delete;

  /// Requires: what was asked before is answered.
  void Ask(proto::PolicyView view) { thread_.Add(std::move(view)); }

  /// As RequestThread's. One that is left to itself touches nothing of its owner's.
  bool EndWithin(Duration limit) {
    shared_->End();
    return thread_.EndWithin(limit);
  }

 private:
  class Shared {
   public:
    Shared(
        std::unique_ptr<proto::FleetPolicy> policy,
        std::function<void(const proto::FleetDecision& decision)> decided)
        : policy_(std::move(policy)), decided_(std::move(decided)) {}

    void Look(proto::PolicyView view) {
      view.is_ending = [this] { return is_over_.load(); };
      const proto::FleetDecision decision = policy_->Look(view);
      const std::lock_guard lock(mutex_);
      if (!is_over_) {
        decided_(decision);
      }
    }

    void End() {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }

   private:
    const std::unique_ptr<proto::FleetPolicy> policy_;  // the thread's
    const std::function<void(const proto::FleetDecision& decision)> decided_;
    std::mutex mutex_;
    std::atomic<bool> is_over_ = false;  // written under the mutex
  };

  const std::shared_ptr<Shared> shared_;
  RequestThread<proto::PolicyView> thread_;
};

}  // namespace ps::coordinator
