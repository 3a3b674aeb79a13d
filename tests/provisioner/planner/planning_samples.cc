#include "tests/provisioner/planner/planning_samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/model/curve_model.h"
#include "provisioner/model/listed_rate_loss.h"
#include "provisioner/model/local_steps_loss.h"
#include "provisioner/model/queue_model.h"
#include "ps/base/random.h"

namespace ps::provisioner {
namespace {

double Between(Random* random, double low, double high) {
  return low + random->Unit() * (high - low);
}

std::vector<WorkerClass> RandomClasses(Random* random, int count) {
  std::vector<WorkerClass> classes;
  for (int k = 0; k < count; ++k) {
    WorkerClass worker;
    worker.name = "type" + std::to_string(k);
    worker.devices = 1 << random->Below(4);
    worker.samples = static_cast<double>(64 << random->Below(6));
    worker.compute_s = worker.samples / Between(random, 300, 3000);
    worker.pcie_bytes_per_s = 1e10;
    worker.link_bytes_per_s = Between(random, 1e8, 3e8);
    classes.push_back(worker);
  }
  return classes;
}

constexpr double kBatchLeast = 400;

proto::CurveFit RandomCurves(Random* random) {
  proto::CurveFit fit;
  fit.steps = Between(random, 800, 3000);
  fit.power = Between(random, 0.5, 1.5);
  fit.floor = 0.5;
  fit.minibatch = 500;
  fit.batch_power = random->Chance(0.5) ? 0 : random->Unit();
  if (random->Chance(0.5)) {
    fit.losses = {1.4, 1, 0.7};
  }
  double factor = 1;
  for (const auto& [workers, late] : {std::pair(1, 0.0), {1, 1.0}, {2, 0.0}, {4, 1.0}}) {
    std::vector<double> by_loss;
    for (size_t k = 0; k < fit.losses.size(); ++k) {
      by_loss.push_back(Between(random, 0.8, 1.25));
    }
    fit.fleets.push_back({workers, factor, late, std::move(by_loss)});
    factor *= Between(random, 1, 1.6);
  }
  fit.loss_min = Between(random, 0.55, 1.2);
  fit.residual = 0.05;
  return fit;
}

void SharePools(Random* random, PlanProblem* problem) {
  for (size_t k = 0; k + 1 < problem->offers.size(); k += 2) {
    int held = 0;
    int quota = 0;
    for (Offer* offer : {&problem->offers[k], &problem->offers[k + 1]}) {
      offer->pool = static_cast<int>(problem->pools.size());
      held += offer->held;
      quota += offer->quota;
    }
    // From just what is held and one server to more than both can use.
    const int least = held + (k == 0 ? 1 : 0);
    const auto spread = static_cast<uint64_t>(std::max(quota + 2 - least, 1));
    problem->pools.push_back({least + static_cast<int>(random->Below(spread))});
  }
  problem->servers.front().pool = 0;
}

void LimitMemory(Random* random, ServerOffer* server) {
  ServerMemory& memory = server->memory;
  memory.need.host_bytes = 2.5e8;
  memory.need.shared_bytes = Between(random, 1e9, 8e9);
  memory.need.worker_bytes = random->Chance(0.8) ? Between(random, 1e8, 1e9) : 0;
  if (random->Chance(0.5)) {
    memory.need.held_bytes = Between(random, 1e8, 1e9);
    memory.need.held_bytes_max = Between(random, 1e8, 2e9);
  }
  // Room for a few gradients on some number of hosts.
  const int hosts = 1 + static_cast<int>(random->Below(static_cast<uint64_t>(server->hosts_max)));
  const int workers = 1 + static_cast<int>(random->Below(4));
  memory.room_bytes = 1.001 * memory.BytesOf(workers, hosts);
  while (memory.WorkersMax(server->hosts_min) == 0) {
    ++server->hosts_min;
  }
}

void SpreadOverZones(Random* random, PlanProblem* problem) {
  problem->zones = {"a1", "a2", "b1"};
  const double zone_usd = random->Chance(0.1) ? 0 : std::exp(Between(random, -31, -24));
  const double region_usd = zone_usd * Between(random, 0.5, 3);
  problem->usd_per_byte = {
      {0, zone_usd, region_usd}, {zone_usd, 0, region_usd}, {region_usd, region_usd, 0}};
  problem->bytes_per_step = Between(random, 1e6, 8e7);
  for (Offer& offer : problem->offers) {
    if (offer.market == proto::Market::kOnDemand || random->Chance(0.2)) {
      continue;  // in each zone
    }
    const double usd = offer.usd_per_hour;
    for (int zone = random->Chance(0.1) ? -1 : 0; zone < 3; ++zone) {
      if (random->Chance(0.6)) {
        offer.places.push_back({zone, usd * Between(random, 0.7, 3.5)});
      }
    }
    if (!offer.places.empty()) {
      offer.usd_per_hour =
          std::ranges::min_element(offer.places, {}, &OfferPlace::usd_per_hour)->usd_per_hour;
    }
  }
  std::vector<ServerOffer> servers;
  for (const ServerOffer& server : problem->servers) {
    for (int zone = 0; zone < 3; ++zone) {
      servers.push_back(server);
      servers.back().zone = zone;
    }
  }
  problem->servers = std::move(servers);
}

void LimitVcpus(Random* random, PlanProblem* problem) {
  for (size_t i = 0; i < problem->offers.size(); ++i) {
    Offer& offer = problem->offers[i];
    offer.vcpus = 1 << random->Below(4);
    offer.vcpu_quota = offer.worker_class / 2;
    while (static_cast<int>(problem->vcpu_quotas.size()) <= offer.vcpu_quota) {
      problem->vcpu_quotas.push_back({"family", proto::Market::kSpot, 0});
    }
    problem->vcpu_quotas[static_cast<size_t>(offer.vcpu_quota)].vcpus +=
        offer.held * offer.vcpus + static_cast<int>(random->Below(12));
  }
  for (ServerOffer& server : problem->servers) {
    server.vcpus = 2;
    server.vcpu_quota = 0;
  }
  problem->vcpu_quotas.front().vcpus += 2;
}

void DelayStarts(Random* random, PlanProblem* problem) {
  problem->goal.counts_start_up = true;
  for (Offer& offer : problem->offers) {
    offer.start_up_s = Between(random, 0, 600);
  }
  const double server_s = Between(random, 0, 300);
  for (ServerOffer& server : problem->servers) {
    server.start_up_s = server_s;
  }
}

}  // namespace

PlanningSample RandomSample(uint64_t seed, const SampleShape& shape) {
  Random random(seed);
  PlanningSample sample;
  JobTraffic traffic;
  traffic.push_bytes = Between(&random, 1e6, 4e7);
  traffic.pull_bytes = traffic.push_bytes;
  traffic.pcie_bytes = 2 * traffic.push_bytes;
  if (shape.has_overlap) {
    traffic.overlap = 1;
    traffic.pull_bytes = 0;
    traffic.round_trip = 2;
  }
  traffic.local_steps = shape.local_steps;
  std::vector<WorkerClass> classes = RandomClasses(&random, shape.classes);
  proto::ContentionFit contention;
  contention.a1 = Between(&random, 0.1, 0.9);
  contention.b1 = Between(&random, -2, 0);
  contention.residual = 0.03;
  proto::LossFit loss;
  loss.c1 = Between(&random, 0, 1000);
  loss.c2 = Between(&random, -0.6, 0.1);  // also beyond where the curve makes sense
  loss.c3 = Between(&random, 800, 3000);
  loss.c4 = Between(&random, 0, 1);
  loss.c5 = 0.5;
  loss.has_heterogeneity = shape.has_heterogeneity;
  loss.residual = 0.05;
  std::vector<double> prices;
  for (const WorkerClass& worker : classes) {
    prices.push_back(Between(&random, 0.5, 1.5) * worker.samples / worker.compute_s / 1000);
  }
  if (shape.has_reckoned) {
    for (WorkerClass& worker : classes) {
      worker.deviation = random.Chance(0.4) ? 0 : Between(&random, 0.05, 0.5);
    }
  }
  if (shape.is_queue) {
    proto::QueueFit queue;
    queue.wait_share = random.Chance(0.5) ? 1 : Between(&random, 0.2, 1);
    queue.overhead_s = random.Chance(0.5) ? 0 : Between(&random, 0, 0.02);
    queue.residual = 0.03;
    const double overlap = random.Chance(0.7) ? 0 : random.Unit();
    traffic.overlap = shape.has_overlap ? 1 : overlap;
    sample.speed = std::make_unique<QueueSpeedModel>(std::move(classes), traffic, queue);
  } else {
    sample.speed = std::make_unique<SpotDnnSpeedModel>(
        std::move(classes), traffic, contention, SpotDnnOptions{.variant = shape.variant});
  }
  const RunProgress progress = shape.is_under_way ? RunProgress{1.25, 1.1} : RunProgress();
  sample.loss = std::make_unique<SpotDnnLossModel>(
      loss, shape.variant, shape.has_pools ? kBatchLeast : 0, progress);
  if (shape.has_curves) {
    sample.loss = std::make_unique<CurveLossModel>(RandomCurves(&random), progress);
  }
  if (shape.local_steps > 1) {
    const ExchangeChange change = {
        .samples = 1.3, .samples_deviation = 0.1, .samples_workers = shape.is_queue ? 2 : 0};
    sample.loss = std::make_unique<LocalStepsLossModel>(std::move(sample.loss), change, true);
  }
  if (shape.workers_listed > 0) {
    sample.loss =
        std::make_unique<ListedRateLossModel>(std::move(sample.loss), shape.workers_listed);
  }
  PlanProblem& problem = sample.problem;
  problem.speed = sample.speed.get();
  problem.loss = sample.loss.get();
  problem.local_steps = shape.local_steps;
  for (int k = 0; k < shape.classes; ++k) {
    const double price = prices[static_cast<size_t>(k)];
    const auto quota = static_cast<int>(random.Below(static_cast<uint64_t>(shape.quota_max) + 1));
    const int held =
        shape.has_held ? static_cast<int>(random.Below(static_cast<uint64_t>(quota) + 1)) / 2 : 0;
    problem.offers.push_back({k, proto::Market::kSpot, price, quota, held});
    if (shape.has_two_markets) {
      problem.offers.push_back(
          {k, proto::Market::kOnDemand, price * 3, static_cast<int>(random.Below(3)), 0});
    }
  }
  problem.offers.front().quota = std::max(problem.offers.front().quota, 1);
  for (int i = 0; i < shape.server_offers; ++i) {
    ServerOffer server;
    server.instance_type = "server" + std::to_string(i);
    server.link_bytes_per_s = Between(&random, 2e8, 2e9);
    server.usd_per_hour = random.Chance(0.3) ? 0 : Between(&random, 0.05, 0.5);
    server.hosts_max = 1 + static_cast<int>(random.Below(static_cast<uint64_t>(shape.hosts_max)));
    problem.servers.push_back(server);
  }
  if (shape.has_pools) {
    SharePools(&random, &problem);
  }
  problem.goal.loss = Between(&random, 0.55, 1.2);
  problem.goal.seconds_max = random.Chance(0.1)
                                 ? std::numeric_limits<double>::infinity()
                                 : std::exp(Between(&random, std::log(300.0), std::log(30000.0)));
  problem.goal.usd_max =
      random.Chance(0.7) ? std::numeric_limits<double>::infinity() : Between(&random, 0.2, 20);
  if (shape.has_curves) {
    problem.measured = {static_cast<int>(seed % 4), static_cast<int>(seed % 3)};
  }
  problem.goal.confidence = random.Chance(0.5) ? 0.5 : 0.9;
  problem.goal.takeover_s = shape.has_held ? Between(&random, 0, 60) : 0;
  if (shape.has_memory) {
    for (ServerOffer& server : problem.servers) {
      LimitMemory(&random, &server);
    }
  }
  if (shape.has_zones) {
    SpreadOverZones(&random, &problem);
  }
  if (shape.has_vcpus) {
    LimitVcpus(&random, &problem);
  }
  if (shape.has_start_up) {
    DelayStarts(&random, &problem);
  }
  if (shape.may_drop_held) {
    for (Offer& offer : problem.offers) {
      problem.runs.push_back(std::exchange(offer.held, 0));
    }
  }
  return sample;
}

PlanningSample ResNet110(
    SpotDnnVariant variant, double loss, double seconds_max, const RunProgress& progress) {
  struct Row {
    const char* name;
    int devices;
    double samples;
    double samples_per_s;
    double usd_per_hour;
    int quota;
  };

  const Row rows[] = {
      {"p3.2xlarge", 1, 1024, 1885, 0.918, 2},
      {"g4dn.4xlarge", 1, 1024, 750, 0.3612, 5},
      {"g3.8xlarge", 2, 1024, 1018, 0.684, 5},
      {"g3.16xlarge", 4, 2048, 1995, 1.5676, 8},
      {"p2.8xlarge", 8, 8192, 2115, 2.16, 5}};
  JobTraffic traffic;
  traffic.push_bytes = 11.5e6;
  traffic.pull_bytes = 11.5e6;
  traffic.pcie_bytes = 2 * 11.5e6;
  PlanningSample sample;
  std::vector<WorkerClass> classes;
  for (const Row& row : rows) {
    WorkerClass worker;
    worker.name = row.name;
    worker.devices = row.devices;
    worker.samples = row.samples;
    worker.pcie_bytes_per_s = 10e9;
    worker.link_bytes_per_s = 142e6;
    const double iteration_s = row.samples / row.samples_per_s;
    worker.compute_s = variant == SpotDnnVariant::kPrototype
                           ? PrototypeComputeSeconds(iteration_s, worker, traffic)
                           : PaperComputeSeconds(iteration_s, worker, traffic);
    worker.iteration_s = iteration_s;
    sample.problem.offers.push_back(
        {static_cast<int>(classes.size()), proto::Market::kSpot, row.usd_per_hour, row.quota, 0});
    classes.push_back(worker);
  }
  proto::ContentionFit contention;
  contention.a1 = 0.8;
  contention.b1 = -1.92;
  proto::LossFit fit;
  fit.c1 = 876.5;
  fit.c2 = -0.2;
  fit.c3 = 2507.6;
  fit.c5 = 0.5;
  fit.has_heterogeneity = false;
  sample.speed = std::make_unique<SpotDnnSpeedModel>(
      std::move(classes), traffic, contention, SpotDnnOptions{.variant = variant});
  sample.loss = std::make_unique<SpotDnnLossModel>(fit, variant, 0, progress);
  sample.problem.speed = sample.speed.get();
  sample.problem.loss = sample.loss.get();
  sample.problem.servers.push_back({"m5.xlarge", 1.2e9, 0, 1, 1});
  sample.problem.goal.loss = loss;
  sample.problem.goal.seconds_max = seconds_max;
  sample.problem.goal.usd_max = std::numeric_limits<double>::infinity();
  return sample;
}

void ForEachFleet(
    const PlanProblem& problem,
    const FleetJudge& judge,
    const std::function<void(const std::vector<int>& counts, int server, int hosts)>& see) {
  for (size_t server = 0; server < problem.servers.size(); ++server) {
    const ServerOffer& side = problem.servers[server];
    for (int hosts = side.hosts_min; hosts <= side.hosts_max; ++hosts) {
      std::vector<int> counts;
      for (const Offer& offer : problem.offers) {
        counts.push_back(offer.held);
      }
      for (size_t digit = 0; digit < counts.size();) {
        if (judge.IsSizeAllowed(counts) && judge.Fits(counts, static_cast<int>(server), hosts)) {
          see(counts, static_cast<int>(server), hosts);
        }
        for (digit = 0; digit < counts.size(); ++digit) {
          if (counts[digit] < problem.offers[digit].quota) {
            ++counts[digit];
            break;
          }
          counts[digit] = problem.offers[digit].held;
        }
      }
    }
  }
}

PlanAnswer Solve(const char* strategy, const PlanProblem& problem) {
  Result<PlanAnswer> answer = MakeStrategy(strategy)->Solve(problem);
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? std::move(answer).value() : PlanAnswer();
}

}  // namespace ps::provisioner
