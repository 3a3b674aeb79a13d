#include "tests/sim/minimise.h"

#include <cstdio>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/sim/campaign.h"
#include "tests/sim/cluster.h"

namespace ps::sim {
namespace {

/// What a field can't go below; 0 for the others.
uint64_t LeastOf(const std::string& name) {
  if (name == "train_samples") {
    return 20;
  }
  const bool is_needed = name == "shards" || name == "shards_per_server" || name == "workers" ||
                         name == "epochs" || name == "chunk_kib" || name == "frame_kib" ||
                         name == "local_steps" || name == "checkpoint_keep";
  return is_needed ? 1 : 0;
}

/// Smaller values than `value`, the boldest first.
template <typename T>
std::vector<T> SmallerThan(const std::string& name, T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? std::vector<bool>{false} : std::vector<bool>{};
  } else if constexpr (std::is_floating_point_v<T>) {
    return value > 1e-4 ? std::vector<T>{0, value / 2} : std::vector<T>{};
  } else if constexpr (std::is_same_v<T, Duration>) {
    return value > std::chrono::milliseconds(100) ? std::vector<T>{value / 2} : std::vector<T>{};
  } else if constexpr (std::is_integral_v<T>) {
    const auto least = static_cast<T>(LeastOf(name));
    std::vector<T> smaller;
    for (const T candidate : {least, static_cast<T>(value / 2), static_cast<T>(value - 1)}) {
      if (value > least && candidate >= least && (smaller.empty() || candidate > smaller.back())) {
        smaller.push_back(candidate);
      }
    }
    return smaller;
  } else {
    return {};  // the mode
  }
}

/// The kind of its first failure; empty when it breaks nothing.
std::string KindOfFailure(Scenario scenario) {
  scenario.log_detail = LogDetail::kNone;
  const Outcome outcome = Simulate(scenario);
  return outcome.ok() ? "" : KindOf(FirstFailure(outcome));
}

/// `scenario` under the first of some seeds that has a failure of the kind.
std::optional<Scenario> FindFailing(Scenario scenario, const std::string& kind, uint32_t seeds) {
  for (uint32_t i = 0; i < seeds; ++i) {
    if (KindOfFailure(scenario) == kind) {
      return scenario;
    }
    ++scenario.seed;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Scenario> SmallerScenarios(const Scenario& scenario) {
  std::vector<Scenario> all;
  size_t field = 0;
  ForEachField(scenario, [&](const std::string& name, const auto& value) {
    using T = std::decay_t<decltype(value)>;
    const size_t this_field = field++;
    if (name == "seed" || name == "frame_kib" || name == "chunk_kib" || name == "model_kib" ||
        (name == "is_replacing" && scenario.scales + scenario.scales_to_none > 0)) {
      return;
    }
    for (const T candidate : SmallerThan<T>(name, value)) {
      Scenario smaller = scenario;
      size_t i = 0;
      ForEachField(smaller, [&](const std::string& /*name*/, auto& v) {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, T>) {
          if (i == this_field) {
            v = candidate;
          }
        }
        ++i;
      });
      all.push_back(smaller);
    }
  });
  return all;
}

Scenario Minimise(const Scenario& scenario, uint32_t seeds) {
  const std::string kind = KindOfFailure(scenario);
  Scenario smallest = scenario;
  for (bool is_smaller = !kind.empty(); is_smaller;) {
    is_smaller = false;
    for (const Scenario& candidate : SmallerScenarios(smallest)) {
      if (const auto failing = FindFailing(candidate, kind, seeds); failing) {
        smallest = *failing;
        is_smaller = true;
        std::fprintf(stderr, "%s\n", Describe(smallest).c_str());
        break;
      }
    }
  }
  return smallest;
}

}  // namespace ps::sim
