// How long planning takes: the optimum by branch and bound, spotDNN's sliding window and, where it
// can end, the exhaustive search, on the same problems with the same models; how the time grows
// with types and quota; and how long one prediction takes.

#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/model/curve_model.h"
#include "provisioner/model/queue_model.h"
#include "provisioner/model/spotdnn_model.h"
#include "provisioner/planner/planner.h"
#include "ps/base/random.h"
#include "tests/bench/harness.h"

namespace ps::bench {
namespace {

using provisioner::PlanAnswer;
using provisioner::PlanProblem;

struct Problem {
  std::unique_ptr<provisioner::SpeedModel> speed;
  std::unique_ptr<provisioner::LossModel> loss;
  PlanProblem plan;
};

struct Size {
  int types = 7;
  int quota = 10;
  int server_types = 1;
  int hosts_max = 1;
};

/// Types around those of spotDNN's table III: 400 to 2,700 samples/s of ResNet-110 at 1, 2, 4 or 8
/// devices, at prices of 0.4 to 0.7 USD/h per 1,000 samples/s.
std::vector<provisioner::WorkerClass> Types(int count, std::vector<double>* prices) {
  Random random(7);
  std::vector<provisioner::WorkerClass> classes;
  for (int k = 0; k < count; ++k) {
    provisioner::WorkerClass worker;
    worker.name = "type" + std::to_string(k);
    worker.devices = 1 << (k % 4);
    worker.samples = worker.devices * (random.Chance(0.5) ? 1024 : 512);
    const double samples_per_s = 400 + 500 * worker.devices * (0.3 + random.Unit());
    worker.compute_s = worker.samples / samples_per_s;
    worker.pcie_bytes_per_s = 1e10;
    worker.link_bytes_per_s = 142e6;
    classes.push_back(worker);
    prices->push_back(samples_per_s / 1000 * (0.4 + 0.3 * random.Unit()));
  }
  return classes;
}

constexpr double kLoss = 0.8;

/// Steps that depend on whether exchanges hide behind computation or come late. Made up; fleets of
/// 8 need three times the steps of one worker, as those of tests/netns did.
proto::CurveFit Curves() {
  proto::CurveFit fit;
  fit.steps = 2000;
  fit.power = 0.95;
  fit.floor = 0.2;
  fit.minibatch = 1024;
  fit.fleets = {
      {1, 1, 0},
      {1, 1.05, 1},
      {2, 1.05, 0},
      {2, 1.2, 1},
      {4, 1.2, 0},
      {4, 1.7, 1},
      {6, 2.3, 1},
      {8, 3.1, 1}};
  fit.loss_min = 0.5;
  return fit;
}

/// Without limits on time and cost. `model`: "spotdnn" or "queue", both with spotDNN's steps, or
/// "curves", the queue with steps that tell late exchanges from hidden ones. `overlap`: share of
/// communication that computation can hide.
Problem MakeProblem(const Size& size, const std::string& model, double overlap = 0) {
  provisioner::JobTraffic traffic;
  traffic.push_bytes = 11.5e6;
  traffic.pull_bytes = 11.5e6;
  traffic.pcie_bytes = 23e6;
  traffic.overlap = model == "curves" ? 1 : overlap;
  std::vector<double> prices;
  std::vector<provisioner::WorkerClass> classes = Types(size.types, &prices);
  Problem problem;
  if (model != "spotdnn") {
    problem.speed = std::make_unique<provisioner::QueueSpeedModel>(
        std::move(classes), traffic, proto::QueueFit{});
  } else {
    proto::ContentionFit fit;
    fit.a1 = 0.8;
    fit.b1 = -1.92;
    problem.speed = std::make_unique<provisioner::SpotDnnSpeedModel>(
        std::move(classes), traffic, fit, provisioner::SpotDnnOptions{});
  }
  proto::LossFit fit;
  fit.c1 = 876.5;
  fit.c2 = -0.1;
  fit.c3 = 2507.6;
  fit.c4 = 1;
  fit.c5 = 0.5;
  if (model == "curves") {
    problem.loss = std::make_unique<provisioner::CurveLossModel>(Curves());
  } else {
    problem.loss =
        std::make_unique<provisioner::SpotDnnLossModel>(fit, provisioner::SpotDnnVariant::kPaper);
  }
  problem.plan.speed = problem.speed.get();
  problem.plan.loss = problem.loss.get();
  for (int k = 0; k < size.types; ++k) {
    problem.plan.offers.push_back(
        {k, proto::Market::kSpot, prices[static_cast<size_t>(k)], size.quota, 0});
  }
  for (int i = 0; i < size.server_types; ++i) {
    problem.plan.servers.push_back(
        {"server" + std::to_string(i), 3e8 * (1 + i), 0.1 * (1 + i), 1, size.hosts_max});
  }
  problem.plan.goal.loss = kLoss;
  problem.plan.goal.seconds_max = std::numeric_limits<double>::infinity();
  problem.plan.goal.usd_max = std::numeric_limits<double>::infinity();
  return problem;
}

struct Timed {
  double ms = 0;
  double usd = 0;  // NaN: no plan
  uint64_t fleets = 0;
};

Timed Solve(const std::string& strategy, const Problem& problem) {
  const double begin = WallSeconds();
  const Result<PlanAnswer> answer = provisioner::MakeStrategy(strategy)->Solve(problem.plan);
  Timed timed;
  timed.ms = (WallSeconds() - begin) * 1e3;
  if (!answer.ok()) {
    std::fprintf(stderr, "%s\n", answer.status().ToString().c_str());
    return timed;
  }
  timed.usd = answer->best.empty() ? std::nan("") : answer->best.front().usd;
  timed.fleets = answer->fleets_evaluated;
  return timed;
}

// Time limits to plan for, as multiples of the fastest fleet's time: the first ones leave few
// fleets.
constexpr double kLimits[] = {1.1, 1.3, 2, 4};

double FastestSeconds(const Problem& problem) {
  PlanProblem hopeless = problem.plan;
  hopeless.goal.seconds_max = 1e-3;
  const Result<PlanAnswer> answer = provisioner::MakeStrategy("exact")->Solve(hopeless);
  return answer.ok() ? answer->infeasible.seconds_min : std::nan("");
}

/// `is_small`: the others end soon enough to be timed like 'exact', too. Else the window runs once,
/// for one goal: it takes some 20 s.
void CompareStrategies(
    const char* title, const Size& size, const BenchArguments& arguments, bool is_small) {
  std::printf(
      "\n%s: %d types x quota %d, %d server types x 1..%d hosts; ms, median (MAD)\n",
      title,
      size.types,
      size.quota,
      size.server_types,
      size.hosts_max);
  Table table(
      {"model, limit / fastest",
       "exact",
       "its fleets",
       "spotdnn",
       "its cost",
       "exhaustive",
       "its cost"});
  for (const std::string model : {"spotdnn", "queue", "curves"}) {
    Problem problem = MakeProblem(size, model);
    const double fastest_s = FastestSeconds(problem);
    for (const double limit : kLimits) {
      problem.plan.goal.seconds_max = fastest_s * limit;
      const Timed exact = Solve("exact", problem);
      std::vector<std::function<double()>> candidates = {
          [&] { return Solve("exact", problem).ms; }};
      if (is_small) {
        candidates.emplace_back([&] { return Solve("spotdnn", problem).ms; });
      }
      const std::vector<Samples> samples = MeasureInTurn(arguments.runs, candidates);
      std::vector<std::string> row = {
          model + ", " + Fixed(limit, 1), Spread(samples[0], 2), std::to_string(exact.fleets)};
      if (is_small || (model == "spotdnn" && limit == kLimits[0])) {
        const Timed window = Solve("spotdnn", problem);
        row.push_back(is_small ? Spread(samples[1], 2) : Fixed(window.ms, 0));
        row.push_back(Fixed(window.usd / exact.usd, 4));
      }
      if (is_small && model == "spotdnn") {
        const Timed oracle = Solve("exhaustive", problem);
        row.push_back(Fixed(oracle.ms, 0));
        row.push_back(Fixed(oracle.usd / exact.usd, 4));
      }
      row.resize(7, "-");
      table.Add(row);
    }
  }
  table.Print();
  std::printf("costs are those of the strategy's plan over those of the exact one\n");
}

void ShowGrowth(const BenchArguments& arguments) {
  const std::vector<int> types =
      arguments.is_tiny ? std::vector<int>{3} : std::vector<int>{5, 10, 20, 30};
  const std::vector<int> quotas =
      arguments.is_tiny ? std::vector<int>{2} : std::vector<int>{5, 10, 20, 40};
  for (const std::string model : {"spotdnn", "queue", "curves"}) {
    std::printf(
        "\ngrowth of 'exact', %s model, limit 1.3 x fastest, 3 server types x 1..8; ms\n",
        model.c_str());
    std::vector<std::string> header = {"types"};
    for (const int quota : quotas) {
      header.push_back("quota " + std::to_string(quota));
    }
    Table table(header);
    for (const int count : types) {
      std::vector<std::string> row = {std::to_string(count)};
      for (const int quota : quotas) {
        Problem problem = MakeProblem({count, quota, 3, 8}, model);
        problem.plan.goal.seconds_max = 1.3 * FastestSeconds(problem);
        const auto samples =
            MeasureInTurn(arguments.runs, {[&] { return Solve("exact", problem).ms; }});
        row.push_back(Spread(samples[0], 2));
      }
      table.Add(row);
    }
    table.Print();
  }
}

double NanosecondsPerPrediction(const Problem& problem, int types, int calls) {
  Random random(1);
  std::vector<std::vector<int>> fleets(64, std::vector<int>(static_cast<size_t>(types)));
  for (auto& fleet : fleets) {
    for (int& count : fleet) {
      count = static_cast<int>(random.Below(4));
    }
    fleet[0] += 1;
  }
  double sum = 0;
  const double begin = WallSeconds();
  for (int i = 0; i < calls; ++i) {
    sum += problem.speed->Predict(fleets[static_cast<size_t>(i) % fleets.size()], {2, 1.2e9})
               .samples_per_s;
  }
  const double seconds = WallSeconds() - begin;
  return sum > 0 ? seconds / calls * 1e9 : 0;
}

void ShowPredictions(const BenchArguments& arguments) {
  std::printf("\none prediction of a random fleet, ns, median (MAD)\n");
  Table table({"model", "7 types", "30 types"});
  const int calls = arguments.is_tiny ? 100 : 200'000;
  for (const auto& [model, overlap] :
       {std::pair("spotdnn", 0.0), {"queue", 0.0}, {"queue", 0.5}, {"queue", 1.0}}) {
    std::vector<std::string> row = {
        model + (overlap > 0 ? ", overlap " + Fixed(overlap, 1) : std::string())};
    for (const int types : {7, 30}) {
      const Problem problem = MakeProblem({types, 10, 1, 1}, model, overlap);
      const auto samples = MeasureInTurn(
          arguments.runs, {[&] { return NanosecondsPerPrediction(problem, types, calls); }});
      row.push_back(Spread(samples[0], 0));
    }
    table.Add(row);
  }
  table.Print();
}

void Main(const BenchArguments& arguments) {
  ShowPredictions(arguments);
  if (arguments.is_tiny) {
    CompareStrategies("tiny", {3, 3, 1, 2}, arguments, true);
  } else {
    CompareStrategies("11^7 combinations", {7, 10, 1, 1}, arguments, true);
    CompareStrategies("41^30 combinations", {30, 40, 3, 8}, arguments, false);
  }
  ShowGrowth(arguments);
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  ps::bench::Main(ps::bench::ReadBenchArguments(argc, argv));
  return 0;
}
