#include "provisioner/rental/rental_outlook.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <functional>

#include "provisioner/rental/rent_settings.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

double DearestOf(
    const MachineDemand& demand, const std::vector<PoolPrice>& prices, double otherwise) {
  double most = otherwise;
  for (const PoolPrice& price : prices) {
    if (std::ranges::find(demand.pools, price.pool) != demand.pools.end()) {
      most = std::max(most, price.usd_per_hour);
    }
  }
  return most;
}

/// "$3.00 an hour pay for 2 of them at a time".
std::string CapText(
    double cap,
    double own,
    const std::vector<MachineDemand>& demands,
    const std::vector<PoolPrice>& prices,
    double otherwise) {
  std::vector<double> costs;
  for (const MachineDemand& demand : demands) {
    costs.insert(costs.end(), demand.count, DearestOf(demand, prices, otherwise));
  }
  // The dearest ones first: so many there are whichever come.
  std::ranges::sort(costs, std::greater<>());
  size_t paid = 0;
  constexpr double kRounding = 1e-9;
  for (double sum = own; paid < costs.size() && sum + costs[paid] <= cap + kRounding; ++paid) {
    sum += costs[paid];
  }
  return paid == costs.size()
             ? fmt::format("${} an hour pay for all at a time", FormatUsd(cap))
             : fmt::format("${} an hour pay for {} of them at a time", FormatUsd(cap), paid);
}

}  // namespace

double WorstRate(
    const std::vector<MachineDemand>& demands,
    const std::vector<PoolPrice>& prices,
    double otherwise) {
  double sum = 0;
  for (const MachineDemand& demand : demands) {
    sum += DearestOf(demand, prices, otherwise) * demand.count;
  }
  return sum;
}

std::vector<std::pair<std::string, std::string>> DescribeRent(
    const proto::JobConfig& config, const std::vector<PoolPrice>& prices) {
  const std::vector<MachineDemand> demands = DemandsOf(config);
  const auto otherwise = double{config.launch.rent.usd_per_hour};
  const double rate = WorstRate(demands, prices, otherwise);
  const double own = OwnRateOf(config);
  uint64_t count = 0;
  for (const MachineDemand& demand : demands) {
    count += demand.count;
  }
  std::vector<std::pair<std::string, std::string>> pairs;
  pairs.emplace_back(
      "rent",
      fmt::format(
          "{} of {}, {}",
          Plural(count, config.launch.rent.spot ? "spot machine" : "machine"),
          config.launch.launcher == proto::LauncherKind::kEc2 ? "EC2" : "Compute Engine",
          rate > 0 ? fmt::format("${} an hour at most, at the prices of now", FormatUsd(rate))
                   : "whose price is not known (launch.rent.usd_per_hour says it)"));
  const auto total = double{config.budget.usd};
  const auto cap = double{config.budget.usd_per_hour};
  std::string budget;
  if (total > 0) {
    budget = fmt::format("${}", FormatUsd(total));
    if (rate > 0) {
      const double drawn = cap > 0 ? std::min(rate + own, cap) : rate + own;
      budget += fmt::format(" last {:.1f} h at ${} an hour", total / drawn, FormatUsd(drawn));
    }
  }
  if (cap > 0 && rate > 0) {
    budget += (budget.empty() ? "" : "; ") + CapText(cap, own, demands, prices, otherwise);
  } else if (cap > 0) {
    budget += fmt::format("{}${} an hour", budget.empty() ? "" : "; ", FormatUsd(cap));
  }
  pairs.emplace_back(
      "budget", budget.empty() ? "none: the run costs until it ends (budget.usd)" : budget);
  return pairs;
}

}  // namespace ps::provisioner
