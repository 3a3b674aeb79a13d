// Repeats one random scenario and prints its whole log: sim_replay SEED [--messages]

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/cluster.h"

int main(int argc, char** argv) {
  const bool logs_messages = argc == 3 && std::strcmp(argv[2], "--messages") == 0;
  if (argc != 2 && !logs_messages) {
    std::fprintf(stderr, "usage: sim_replay SEED [--messages]\n");
    return 2;
  }
  auto scenario = ps::sim::RandomScenario(std::strtoull(argv[1], nullptr, 10));
  scenario.logs_messages = logs_messages;
  const auto outcome = ps::sim::Simulate(scenario);
  std::fputs(outcome.log.c_str(), stdout);
  std::printf("%s\n", ps::sim::Describe(scenario).c_str());
  for (const std::string& violation : outcome.violations) {
    std::printf("violation: %s\n", violation.c_str());
  }
  std::printf(
      "%s: %s; %.3f virtual seconds, %llu messages, %llu pushes checked, trace %016llx\n",
      outcome.is_finished ? "finished" : "not finished",
      outcome.status.ToString().c_str(),
      ps::Seconds(outcome.virtual_time),
      static_cast<unsigned long long>(outcome.delivered),
      static_cast<unsigned long long>(outcome.pushes_checked),
      static_cast<unsigned long long>(outcome.trace_hash));
  return outcome.ok() ? 0 : 1;
}
