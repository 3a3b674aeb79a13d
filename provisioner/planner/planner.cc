#include "provisioner/planner/planner.h"

#include "provisioner/planner/strategies.h"

namespace ps::provisioner {

std::unique_ptr<Strategy> MakeStrategy(std::string_view name) {
  if (name == "exact") {
    return MakeExactStrategy();
  }
  if (name == "spotdnn") {
    return MakeWindowStrategy(WindowRules::kPaper);
  }
  if (name == "spotdnn-prototype") {
    return MakeWindowStrategy(WindowRules::kPrototype);
  }
  if (name == "exhaustive") {
    return MakeExhaustiveStrategy();
  }
  if (name == "ideal") {
    return MakeIdealStrategy();
  }
  if (name == "homogeneous") {
    return MakeHomogeneousStrategy();
  }
  if (name == "on-demand") {
    return MakeOnDemandStrategy();
  }
  return nullptr;
}

std::vector<std::string_view> StrategyNames() {
  return {
      "exact", "spotdnn", "spotdnn-prototype", "exhaustive", "ideal", "homogeneous", "on-demand"};
}

}  // namespace ps::provisioner
