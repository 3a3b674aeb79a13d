// What it costs to simulate a run with the production coordinator: per step of a worker by the
// number of workers, memory per worker, and whole weeks of a trace.

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/simulator/simulated_run.h"
#include "provisioner/simulator/simulation.h"
#include "ps/base/check.h"
#include "ps/base/random.h"
#include "tests/bench/harness.h"

namespace ps::bench {
namespace {

using provisioner::CapacityStep;
using provisioner::SimulatedJob;
using provisioner::SimulationResult;
using provisioner::SpotMachine;

constexpr double kWeekS = 7 * 24 * 3600;
/// Mean life of a machine.
constexpr double kLifeS = 20'000;

/// Workers with steps of 100 samples and a second.
SimulatedJob JobOf(uint32_t workers) {
  SimulatedJob job;
  job.step_samples = 100;
  job.lost_s = 1;
  job.spot_usd_per_hour = 1;
  for (uint32_t n = 0; n <= workers; ++n) {
    job.samples_per_s.push_back(100.0 * n);
  }
  return job;
}

/// As many machines all the time, each of which is now and then replaced.
std::vector<SpotMachine> SteadyMachines(uint32_t count, double end_s) {
  Random random(1);
  std::vector<SpotMachine> machines;
  for (uint32_t i = 0; i < count; ++i) {
    for (double begin_s = 0; begin_s < end_s;) {
      const double until_s = begin_s + kLifeS * 2 * random.Unit();
      machines.push_back({begin_s, until_s});
      begin_s = until_s;
    }
  }
  return machines;
}

/// A week of counts up to 64 that change every ten minutes or so.
std::vector<CapacityStep> WeekOfCounts(double end_s) {
  Random random(2);
  std::vector<CapacityStep> steps;
  uint32_t count = 48;
  for (double at_s = 0; at_s < end_s; at_s += 60 + 1080 * random.Unit()) {
    const auto change = static_cast<uint32_t>(random.Below(9));
    count = random.Chance(0.5) ? std::min<uint32_t>(64, count + change)
                               : count - std::min(count, change);
    steps.push_back({at_s, count});
  }
  return steps;
}

struct Cost {
  SimulationResult result;
  double cpu_s = 0;
};

Cost Run(
    const std::string& policy,
    const SimulatedJob& job,
    const std::vector<SpotMachine>& machines,
    double end_s,
    double steps_max) {
  auto made = provisioner::MakeFleetPolicy(policy, job);
  PS_CHECK(made.ok()) << made.status();
  const double begin = CpuSeconds();
  auto result = steps_max == 0 ? provisioner::Simulate(job, machines, end_s, made->get())
                               : provisioner::SimulateWithCores(
                                     job, machines, end_s, made->get(), {.steps_max = steps_max});
  PS_CHECK(result.ok()) << result.status();
  return {*std::move(result), CpuSeconds() - begin};
}

/// KiB of memory that this process has had at most.
double MostKib() {
  rusage usage{};
  PS_CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return static_cast<double>(usage.ru_maxrss);
}

void MeasureFleets(const BenchArguments& arguments) {
  const double steps = arguments.is_tiny ? 2e4 : 6e6;
  std::vector<uint32_t> fleets = arguments.is_tiny ? std::vector<uint32_t>{10, 50}
                                                   : std::vector<uint32_t>{10, 100, 1000, 10'000};
  std::erase_if(fleets, [&](uint32_t workers) {
    return !arguments.Wants(std::to_string(workers) + " workers");
  });
  if (fleets.empty()) {
    return;
  }
  std::vector<std::function<double()>> candidates;
  std::vector<Cost> costs(fleets.size());
  std::vector<double> kib(fleets.size());
  std::vector<Samples> starts(fleets.size());
  for (size_t i = 0; i < fleets.size(); ++i) {
    candidates.emplace_back([&, i] {
      const SimulatedJob job = JobOf(fleets[i]);
      const double end_s = job.start_s + steps / fleets[i];
      const std::vector<SpotMachine> machines = SteadyMachines(fleets[i], end_s);
      const double before = MostKib();
      costs[i] = Run("reactive", job, machines, end_s, 1e12);
      kib[i] = std::max(kib[i], (MostKib() - before) / fleets[i]);
      // All have started, and nobody has finished a step.
      const Cost start = Run("reactive", job, machines, job.start_s + 0.5, 1e12);
      starts[i].values.push_back(start.cpu_s * 1e6 / fleets[i]);
      return (costs[i].cpu_s - start.cpu_s) * 1e6 / static_cast<double>(costs[i].result.steps);
    });
  }
  const std::vector<Samples> samples =
      MeasureInTurn(arguments.is_tiny ? 1 : arguments.runs, candidates, 1);
  Table table(
      {"workers",
       "hours",
       "steps",
       "revoked",
       "us a step",
       "x of first",
       "us a start",
       "events/s",
       "KiB a worker"});
  for (size_t i = 0; i < fleets.size(); ++i) {
    const SimulationResult& result = costs[i].result;
    table.Add(
        {std::to_string(fleets[i]),
         Fixed(result.seconds / 3600, 1),
         std::to_string(result.steps),
         std::to_string(result.revocations),
         Spread(samples[i], 3),
         Fixed(samples[i].Median() / samples[0].Median(), 2),
         Spread(starts[i], 1),
         Fixed(static_cast<double>(result.events) / costs[i].cpu_s, 0),
         fleets[i] < 1000 ? "-" : Fixed(kib[i], 1)});
  }
  table.Print();
}

void MeasureWeek(const BenchArguments& arguments) {
  const double end_s = arguments.is_tiny ? 3600 : kWeekS;
  const SimulatedJob job = JobOf(64);
  const std::vector<SpotMachine> machines = provisioner::MachinesOf(WeekOfCounts(end_s), end_s, 1);
  const std::vector<std::pair<std::string, double>> engines = {
      {"cores, each step", 1e12}, {"cores, at most 10 million", 1e7}, {"rates", 0}};
  Table table({"engine and policy", "s", "samples", "steps", "revoked", "events/s"});
  for (const auto& [name, steps_max] : engines) {
    for (const char* const policy : {"reactive", "parcae"}) {
      const Cost cost = Run(policy, job, machines, end_s, steps_max);
      table.Add(
          {name + " " + policy,
           Fixed(cost.cpu_s, 2),
           Fixed(cost.result.samples, 0),
           std::to_string(cost.result.steps),
           std::to_string(cost.result.revocations),
           Fixed(static_cast<double>(cost.result.events) / cost.cpu_s, 0)});
    }
  }
  std::printf("\na week of a trace of up to 64 machines; seconds of CPU\n\n");
  table.Print();
}

int Main(int argc, char** argv) {
  const BenchArguments arguments = ReadBenchArguments(argc, argv, {.has_rows = true});
  std::printf("simulated runs; steps of a second, one machine lost in %.0f s\n\n", kLifeS);
  MeasureFleets(arguments);
  if (arguments.Wants("week")) {
    MeasureWeek(arguments);
  }
  return 0;
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  return ps::bench::Main(argc, argv);
}
