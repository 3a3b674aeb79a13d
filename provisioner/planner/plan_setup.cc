#include "provisioner/planner/plan_setup.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "provisioner/planner/memory_fit.h"
#include "provisioner/planner/vcpu_quotas.h"
#include "provisioner/planner/zone_choice.h"

namespace ps::provisioner {
namespace {

struct Price {
  proto::Market market = proto::Market::kSpot;
  double usd_per_hour = 0;
  std::string zone = {};
};

std::optional<Price> PriceOf(const proto::InstanceType& type, MarketChoice choice) {
  const proto::SpotPrice* spot = LowestSpot(type);
  const Price on_demand{
      proto::Market::kOnDemand, type.on_demand_usd_per_hour + type.disk_usd_per_hour};
  switch (choice) {
    case MarketChoice::kOnDemand:
      return on_demand;
    case MarketChoice::kSpot:
      if (spot == nullptr) {
        return std::nullopt;
      }
      return Price{proto::Market::kSpot, spot->usd_per_hour + type.disk_usd_per_hour, spot->zone};
    case MarketChoice::kBoth:
      break;
  }
  if (spot == nullptr || spot->usd_per_hour > type.on_demand_usd_per_hour) {
    return on_demand;
  }
  return Price{proto::Market::kSpot, spot->usd_per_hour + type.disk_usd_per_hour, spot->zone};
}

constexpr std::string_view kQuotaFor = "quota for";

/// `what`: "quota for", for messages.
Status CheckCounts(
    const proto::Catalog& catalog,
    const SpeedModel& speed,
    const std::string& what,
    const std::vector<TypeCount>& counts) {
  for (const TypeCount& count : counts) {
    const std::string batch = count.minibatch > 0 ? fmt::format(":{}", count.minibatch) : "";
    const std::string name = what + " " + count.instance_type + batch;
    if (catalog.Find(count.instance_type) == nullptr) {
      return Status::InvalidArgument(
          fmt::format("{}, a type that the catalog does not have", name));
    }
    // A quota may be of a type that only holds parameters.
    const bool is_server = what == kQuotaFor && catalog.Find(count.instance_type)->is_server_host;
    if (!is_server && FindClass(speed, count) < 0) {
      return Status::InvalidArgument(
          fmt::format("{}, which is left out or which the profile has no figures for", name));
    }
    if (count.count < 0) {
      return Status::InvalidArgument(fmt::format("{} below 0", name));
    }
  }
  return Status::Ok();
}

/// What such hosts serve each way: their network, or what their processors keep up.
double ServerBytesPerS(const proto::Catalog& catalog, const proto::InstanceType& type) {
  constexpr double kBytesPerGbit = 1e9 / 8;
  const double network = ServersOf(type, 1).link_bytes_per_s;
  const double processors = type.vcpus * catalog.server_gbit_per_vcpu * kBytesPerGbit;
  return processors > 0 ? std::min(network, processors) : network;
}

/// One quota on demand can't be that of several offers and servers. `server`: a type that may hold
/// parameters.
Status CheckMixed(const SpeedModel& speed, const std::string& server, const PlanSetup& setup) {
  for (const TypeCount& mixed : setup.on_demand_quotas) {
    const auto minibatches =
        std::ranges::count(speed.classes(), mixed.instance_type, &WorkerClass::name);
    if (minibatches > 1) {
      return Status::InvalidArgument(fmt::format(
          "quota on demand for {}, which the profile has with {} minibatches: a type is mixed with "
          "one of them alone",
          mixed.instance_type,
          minibatches));
    }
    if (mixed.instance_type == server) {
      return Status::InvalidArgument(fmt::format(
          "quota on demand for {}, which may hold parameters too: name other servers",
          mixed.instance_type));
    }
  }
  return Status::Ok();
}

Result<ServerOffer> OfferOf(
    const proto::Catalog& catalog, const ServerRange& range, const PlanSetup& setup) {
  const proto::InstanceType* type = catalog.Find(range.instance_type);
  if (type == nullptr) {
    return Status::InvalidArgument(
        fmt::format("server {}, a type that the catalog does not have", range.instance_type));
  }
  if (!type->is_server_host) {
    return Status::InvalidArgument(fmt::format(
        "server {}, a type that may not hold parameters: is_server_host is false in the catalog",
        range.instance_type));
  }
  if (range.hosts_min < 1 || range.hosts_max < range.hosts_min) {
    return Status::InvalidArgument(
        fmt::format("servers {}: their number has to be a range from 1 up", range.instance_type));
  }
  const int quota = QuotaOf(catalog, setup, *type, proto::Market::kOnDemand);
  if (range.hosts_max > quota && !setup.servers_run) {
    return Status::InvalidArgument(fmt::format(
        "servers {}: {} hosts, beyond the type's quota of {}",
        range.instance_type,
        range.hosts_max,
        quota));
  }
  ServerOffer offer{
      range.instance_type,
      ServerBytesPerS(catalog, *type),
      type->on_demand_usd_per_hour + type->disk_usd_per_hour,
      range.hosts_min,
      range.hosts_max};
  offer.billed_s_min = type->billing_min_s;
  offer.start_up_s = type->start_up_s;
  offer.vcpus = type->vcpus;
  return offer;
}

/// "g3.8xlarge", with its minibatch where the type has several.
std::string NameOf(const std::vector<WorkerClass>& classes, size_t k) {
  const bool is_alone = std::ranges::count(classes, classes[k].name, &WorkerClass::name) == 1;
  return is_alone ? classes[k].name : fmt::format("{}:{:.0f}", classes[k].name, classes[k].samples);
}

/// Errors: kUnsupported where what was left out is all that there is.
Status CheckLeftOut(const PlanProblem& problem) {
  const bool has_servers =
      !problem.servers.empty() || std::ranges::none_of(problem.left_out, &LeftOut::is_server);
  const bool has_workers =
      !problem.offers.empty() || std::ranges::all_of(problem.left_out, &LeftOut::is_server);
  if (has_servers && has_workers) {
    return Status::Ok();
  }
  std::string notes;
  for (const std::string& note : LeftOutNotes(problem)) {
    notes += note + "; ";
  }
  return Status::Unsupported(fmt::format(
      "nothing on offer has the memory for the job: {}offer types with more memory{}",
      notes,
      has_servers ? "" : ", or more servers (--servers TYPE=HOSTS)"));
}

/// Puts what is of one type into one pool, where that is more than one offer.
void ShareQuotas(PlanProblem* problem) {
  const auto& classes = problem->speed->classes();
  for (size_t i = 0; i < problem->offers.size(); ++i) {
    if (problem->offers[i].pool >= 0) {
      continue;
    }
    const auto type_of = [&](const Offer& offer) -> const std::string& {
      return classes[static_cast<size_t>(offer.worker_class)].name;
    };
    const std::string& type = type_of(problem->offers[i]);
    std::vector<int*> members;
    for (Offer& other : problem->offers) {
      if (type_of(other) == type && other.market == problem->offers[i].market) {
        members.push_back(&other.pool);
      }
    }
    for (ServerOffer& server : problem->servers) {
      if (server.instance_type == type) {
        members.push_back(&server.pool);
      }
    }
    if (members.size() > 1) {
      std::ranges::for_each(
          members, [&](int* pool) { *pool = static_cast<int>(problem->pools.size()); });
      problem->pools.push_back({problem->offers[i].quota});
    }
  }
}

}  // namespace

int FindClass(const SpeedModel& speed, const TypeCount& count) {
  const auto found = std::ranges::find_if(speed.classes(), [&](const WorkerClass& worker) {
    return worker.name == count.instance_type &&
           (count.minibatch == 0 || worker.samples == count.minibatch);
  });
  return found == speed.classes().end() ? -1 : static_cast<int>(found - speed.classes().begin());
}

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
  problem.local_steps = models.traffic.local_steps;
  problem.goal = setup.goal;
  problem.measured = models.measured;
  PS_TRY(CheckCounts(catalog, *models.speed, std::string(kQuotaFor), setup.quotas));
  PS_TRY(CheckCounts(catalog, *models.speed, "held instances of", setup.held));
  PS_TRY(CheckCounts(catalog, *models.speed, "quota on demand for", setup.on_demand_quotas));
  const auto& classes = models.speed->classes();
  for (size_t k = 0; k < classes.size(); ++k) {
    const proto::InstanceType* type = catalog.Find(classes[k].name);
    PS_CHECK(type != nullptr) << classes[k].name;
    const std::optional<Price> price = PriceOf(*type, setup.market);
    int held = 0;
    for (const TypeCount& some : setup.held) {
      held += FindClass(*models.speed, some) == static_cast<int>(k) ? some.count : 0;
    }
    if (!price && held > 0) {
      return Status::InvalidArgument(
          fmt::format("held instances of {}, which the catalog has no spot price for", type->name));
    }
    if (!price) {
      continue;
    }
    const int quota = QuotaOf(catalog, setup, *type, price->market);
    std::string too_small =
        held > 0 || setup.all_run ? "" : WhyNoWorkerFits(*type, models.worker_needs[k]);
    if (!too_small.empty()) {
      problem.left_out.push_back({NameOf(classes, k), /*is_server=*/false, std::move(too_small)});
      continue;
    }
    problem.offers.push_back(
        {static_cast<int>(k),
         price->market,
         price->usd_per_hour,
         quota,
         held,
         -1,
         price->zone,
         type->billing_min_s});
    const int beside = CountOf(setup.on_demand_quotas, type->name).value_or(0);
    if (price->market == proto::Market::kSpot && beside > 0) {
      problem.offers.push_back(
          {static_cast<int>(k),
           proto::Market::kOnDemand,
           type->on_demand_usd_per_hour + type->disk_usd_per_hour,
           beside,
           /*held=*/0,
           -1,
           {},
           type->billing_min_s});
    }
  }
  std::vector<ServerRange> ranges = setup.servers;
  if (ranges.empty()) {
    for (const proto::InstanceType& type : catalog.types) {
      const bool is_left_out = std::ranges::count(setup.left_out, type.name) > 0;
      const int quota = QuotaOf(catalog, setup, type, proto::Market::kOnDemand);
      if (type.is_server_host && quota > 0 && !is_left_out) {
        ranges.push_back({type.name, 1, std::min(quota, PlanSetup::kHostsMax)});
      }
    }
  }
  for (const ServerRange& range : ranges) {
    PS_TRY(CheckMixed(*models.speed, range.instance_type, setup));
    PS_ASSIGN(ServerOffer offer, OfferOf(catalog, range, setup));
    if (!setup.servers_run && !setup.all_run) {
      offer.memory = MemoryOfServer(*catalog.Find(range.instance_type), models.server_need);
    }
    while (offer.hosts_min <= offer.hosts_max && offer.memory.WorkersMax(offer.hosts_min) == 0) {
      ++offer.hosts_min;
    }
    if (offer.hosts_min > offer.hosts_max) {
      problem.left_out.push_back(
          {offer.instance_type,
           /*is_server=*/true,
           WhyNoServerFits(offer.memory, offer.hosts_max)});
      continue;
    }
    problem.servers.push_back(std::move(offer));
  }
  PS_TRY(CheckLeftOut(problem));
  for (Offer& offer : problem.offers) {
    const proto::InstanceType* const type =
        catalog.Find(models.speed->classes()[static_cast<size_t>(offer.worker_class)].name);
    offer.start_up_s = type->start_up_s;
    offer.vcpus = type->vcpus;
  }
  problem.goal.counts_start_up = setup.counts_start_up;
  PS_TRY(AddVcpuQuotas(catalog, setup, &problem));
  problem.bytes_per_step = (models.push_bytes + models.pull_bytes) / models.traffic.local_steps;
  if (!setup.servers_run && !setup.all_run) {
    ChooseZones(catalog, &problem);
  }
  ShareQuotas(&problem);
  if (setup.may_drop_held) {
    for (Offer& offer : problem.offers) {
      problem.runs.push_back(std::exchange(offer.held, 0));
    }
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
  const double scale = (loss.c2 * samples_min + loss.c3) * spread;
  const double done =
      problem->goal.loss_now > loss.c5 ? scale / (problem->goal.loss_now - loss.c5) : 0;
  const double steps = scale / (problem->goal.loss - loss.c5) - std::max(loss.c1, done);
  const double workers = std::ceil(samples_min * steps / (speed_max * problem->goal.seconds_max));
  problem->workers_min =
      std::clamp(static_cast<int>(std::clamp(workers, 1.0, 1e9)), 1, problem->workers_max);
}

}  // namespace ps::provisioner
