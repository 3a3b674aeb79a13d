#pragma once

#include <span>
#include <vector>

#include "provisioner/planner/planner.h"

namespace ps::provisioner {

/// What servers and the least of each offer leave of the quotas of vCPUs.
class VcpuRoom {
 public:
  /// Beside these servers and all that is held. The problem has to outlive it.
  VcpuRoom(const PlanProblem& problem, int server_offer, int hosts);

  /// The servers and what is held fit.
  bool IsEnough() const;

  /// Whether so many of each offer fit, those that are held among them.
  bool Fits(std::span<const int> counts) const;

  /// By quota, in vCPUs. Below 0: not even the servers fit.
  const std::vector<int>& left() const { return left_; }

 private:
  const PlanProblem& problem_;
  std::vector<int> left_;
};

}  // namespace ps::provisioner
