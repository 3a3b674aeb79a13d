#include "provisioner/planner/vcpu_room.h"

#include <algorithm>

namespace ps::provisioner {

VcpuRoom::VcpuRoom(const PlanProblem& problem, int server_offer, int hosts) : problem_(problem) {
  for (const VcpuQuota& quota : problem.vcpu_quotas) {
    left_.push_back(quota.vcpus);
  }
  for (const Offer& offer : problem.offers) {
    if (offer.vcpu_quota >= 0) {
      left_[static_cast<size_t>(offer.vcpu_quota)] -= offer.held * offer.vcpus;
    }
  }
  const ServerOffer& server = problem.servers[static_cast<size_t>(server_offer)];
  if (server.vcpu_quota >= 0) {
    left_[static_cast<size_t>(server.vcpu_quota)] -= hosts * server.vcpus;
  }
}

bool VcpuRoom::IsEnough() const {
  return std::ranges::all_of(left_, [](int left) { return left >= 0; });
}

bool VcpuRoom::Fits(std::span<const int> counts) const {
  std::vector<int> left = left_;
  for (size_t i = 0; i < counts.size(); ++i) {
    const Offer& offer = problem_.offers[i];
    if (offer.vcpu_quota >= 0) {
      left[static_cast<size_t>(offer.vcpu_quota)] -= (counts[i] - offer.held) * offer.vcpus;
    }
  }
  return std::ranges::all_of(left, [](int some) { return some >= 0; });
}

}  // namespace ps::provisioner
