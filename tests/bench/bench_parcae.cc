// How far below the ideal each policy of pipelines ends on Parcae's trace, by
// model: the published plans, and ours by what they know of the minutes to
// come. Needs no quiet machine: it measures no time. Run it in the root of the
// source tree.

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <utility>

#include "provisioner/claims/parcae_policies.h"
#include "tests/bench/harness.h"

namespace ps::bench {
namespace {

int Run(int argc, char** argv) {
  const BenchArguments arguments = ReadBenchArguments(argc, argv, {.has_rows = true});
  const int draws = arguments.is_tiny ? 2 : 1000;
  Table table(
      {"model",
       "policy",
       "samples",
       "below the ideal, %",
       "plans as of forecasts, %",
       "of true futures, %"});
  for (const std::string& name : provisioner::ParcaeModelNames()) {
    Result<provisioner::ParcaeCase> loaded =
        provisioner::LoadParcaeCase(provisioner::PublishedFigures("tests/data"), name);
    if (!loaded.ok()) {
      fmt::print(stderr, "{}\n", loaded.status().message());
      return 1;
    }
    provisioner::ParcaeCase some = std::move(loaded).value();
    if (arguments.is_tiny) {
      some.minutes.resize(20);
    }
    provisioner::ParcaeCosts costs(some.model, draws, 1);
    const double ideal = provisioner::ParcaeIdealSamples(some);
    for (const auto& [title, policy] : provisioner::ParcaePolicies()) {
      if (!arguments.Wants(name + " " + title)) {
        continue;
      }
      const provisioner::ParcaeOutcome outcome = provisioner::RunParcaePolicy(some, &costs, policy);
      const double percent = 100.0 / static_cast<double>(some.minutes.size());
      table.Add(
          {name,
           title,
           Fixed(outcome.all(), 0),
           Fixed(100 * (1 - outcome.all() / ideal), 1),
           Fixed(percent * static_cast<double>(outcome.as_predicted), 1),
           Fixed(percent * static_cast<double>(outcome.as_truth), 1)});
    }
  }
  table.Print();
  return 0;
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  return ps::bench::Run(argc, argv);
}
