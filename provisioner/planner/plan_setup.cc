#include "provisioner/planner/plan_setup.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace ps::provisioner {
namespace {

struct Price {
  proto::Market market = proto::Market::kSpot;
  double usd_per_hour = 0;
};

std::optional<Price> PriceOf(const proto::InstanceType& type, MarketChoice choice) {
  const proto::SpotPrice* spot = LowestSpot(type);
  const Price on_demand{proto::Market::kOnDemand, type.on_demand_usd_per_hour};
  switch (choice) {
    case MarketChoice::kOnDemand:
      return on_demand;
    case MarketChoice::kSpot:
      if (spot == nullptr) {
        return std::nullopt;
      }
      return Price{proto::Market::kSpot, spot->usd_per_hour};
    case MarketChoice::kBoth:
      break;
  }
  if (spot == nullptr || spot->usd_per_hour > on_demand.usd_per_hour) {
    return on_demand;
  }
  return Price{proto::Market::kSpot, spot->usd_per_hour};
}

/// `what`: "quota for", for messages.
Status CheckCounts(
    const proto::Catalog& catalog,
    const SpeedModel& speed,
    const std::string& what,
    const std::vector<TypeCount>& counts) {
  for (const TypeCount& count : counts) {
    const std::string name = what + " " + count.instance_type;
    if (catalog.Find(count.instance_type) == nullptr) {
      return Status::InvalidArgument(name + ", a type that the catalog does not have");
    }
    const auto& classes = speed.classes();
    const bool is_profiled =
        std::any_of(classes.begin(), classes.end(), [&](const WorkerClass& worker) {
          return worker.name == count.instance_type;
        });
    if (!is_profiled) {
      return Status::InvalidArgument(name + ", which the profile has no figures for");
    }
    if (count.count < 0) {
      return Status::InvalidArgument(name + " below 0");
    }
  }
  return Status::Ok();
}

/// Of a type; `otherwise` when none is given.
int CountOf(const std::vector<TypeCount>& counts, const std::string& type, int otherwise) {
  for (const TypeCount& given : counts) {
    if (given.instance_type == type) {
      return given.count;
    }
  }
  return otherwise;
}

Result<ServerOffer> OfferOf(const proto::Catalog& catalog, const ServerRange& range) {
  const proto::InstanceType* type = catalog.Find(range.instance_type);
  if (type == nullptr) {
    return Status::InvalidArgument(
        "server " + range.instance_type + ", a type that the catalog does not have");
  }
  if (!type->is_server_host) {
    return Status::InvalidArgument(
        "server " + range.instance_type +
        ", a type that may not hold parameters: is_server_host is false in the catalog");
  }
  if (range.hosts_min < 1 || range.hosts_max < range.hosts_min) {
    return Status::InvalidArgument(
        "servers " + range.instance_type + ": their number has to be a range from 1 up");
  }
  if (range.hosts_max > type->quota) {
    return Status::InvalidArgument(
        "servers " + range.instance_type + ": " + std::to_string(range.hosts_max) +
        " hosts, beyond the type's quota of " + std::to_string(type->quota));
  }
  return ServerOffer{
      range.instance_type,
      ServersOf(*type, 1).link_bytes_per_s,
      type->on_demand_usd_per_hour,
      range.hosts_min,
      range.hosts_max};
}

}  // namespace

const proto::SpotPrice* LowestSpot(const proto::InstanceType& type) {
  const proto::SpotPrice* lowest = nullptr;
  for (const proto::SpotPrice& price : type.spot) {
    if (lowest == nullptr || price.usd_per_hour < lowest->usd_per_hour) {
      lowest = &price;
    }
  }
  return lowest;
}

Result<PlanProblem> MakePlanProblem(
    const proto::Catalog& catalog, const JobModels& models, const PlanSetup& setup) {
  PlanProblem problem;
  problem.speed = models.speed.get();
  problem.loss = models.loss.get();
  problem.goal = setup.goal;
  PS_TRY(CheckCounts(catalog, *models.speed, "quota for", setup.quotas));
  PS_TRY(CheckCounts(catalog, *models.speed, "held instances of", setup.held));
  const auto& classes = models.speed->classes();
  for (size_t k = 0; k < classes.size(); ++k) {
    const proto::InstanceType* type = catalog.Find(classes[k].name);
    PS_CHECK(type != nullptr) << classes[k].name;
    const std::optional<Price> price = PriceOf(*type, setup.market);
    const int held = CountOf(setup.held, type->name, 0);
    if (!price && held > 0) {
      return Status::InvalidArgument(
          "held instances of " + type->name + ", which the catalog has no spot price for");
    }
    if (!price) {
      continue;
    }
    const int quota = CountOf(setup.quotas, type->name, type->quota);
    problem.offers.push_back(
        {static_cast<int>(k), price->market, price->usd_per_hour, quota, held});
  }
  std::vector<ServerRange> ranges = setup.servers;
  if (ranges.empty()) {
    for (const proto::InstanceType& type : catalog.types) {
      if (type.is_server_host && type.quota > 0) {
        ranges.push_back({type.name, 1, std::min(type.quota, PlanSetup::kHostsMax)});
      }
    }
  }
  for (const ServerRange& range : ranges) {
    PS_ASSIGN(ServerOffer offer, OfferOf(catalog, range));
    problem.servers.push_back(std::move(offer));
  }
  return problem;
}

void LimitSizesAsSpotDnn(const proto::JobProfile& profile, PlanProblem* problem) {
  const proto::ContentionFit& contention = profile.contention;
  if (contention.samples > 0 && contention.a1 > 0) {
    const double root = std::max((1 - contention.b1) / contention.a1, 1.0);
    problem->workers_max = static_cast<int>(std::min(root * root, 1e9));
  }
  const proto::LossFit& loss = profile.loss;
  if (loss.samples == 0 || problem->goal.loss <= loss.c5) {
    return;
  }
  double samples_min = std::numeric_limits<double>::infinity();
  double speed_max = 0;
  const auto& classes = problem->speed->classes();
  for (size_t k = 0; k < classes.size(); ++k) {
    std::vector<int> alone(classes.size(), 0);
    alone[k] = 1;
    const ServerSide side{1, problem->servers.front().link_bytes_per_s};
    samples_min = std::min(samples_min, classes[k].samples);
    speed_max = std::max(speed_max, problem->speed->Predict(alone, side).samples_per_s);
  }
  const double spread = loss.has_heterogeneity ? std::sqrt(std::max(loss.c4, 0.0)) : 1;
  const double steps =
      (loss.c2 * samples_min + loss.c3) * spread / (problem->goal.loss - loss.c5) - loss.c1;
  const double workers = std::ceil(samples_min * steps / (speed_max * problem->goal.seconds_max));
  problem->workers_min =
      std::clamp(static_cast<int>(std::clamp(workers, 1.0, 1e9)), 1, problem->workers_max);
}

}  // namespace ps::provisioner
