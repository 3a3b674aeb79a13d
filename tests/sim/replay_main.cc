// Repeats one random scenario and prints its log, or runs a campaign of many; see kUsage.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>

#include "tests/sim/campaign.h"
#include "tests/sim/cluster.h"
#include "tests/sim/minimise.h"

namespace ps::sim {
namespace {

constexpr const char* kUsage =
    "usage: sim_replay SEED [--messages]\n"
    "         repeats the scenario of a seed and prints its log, with every message\n"
    "       sim_replay SEED --minimise [--tries T]\n"
    "         looks for the smallest scenario that breaks the same promise, each with T seeds\n"
    "       sim_replay --from SEED --count N [--jobs K] [--keep-going]\n"
    "         runs N seeds in K processes; stops at the first one that breaks a promise,\n"
    "         or counts the violations by kind\n"
    "       --only moves|resumes|frozen|local|differences: scenarios that all have that\n";

const std::map<std::string, Only> kOnly = {
    {"moves", Only::kMoves},
    {"resumes", Only::kResumes},
    {"frozen", Only::kFrozen},
    {"local", Only::kLocal},
    {"differences", Only::kDifferences}};

struct Arguments {
  std::optional<uint64_t> seed;
  bool logs_messages = false;
  bool is_minimised = false;
  uint32_t tries = 20;
  bool is_campaign = false;
  CampaignOptions campaign;
};

std::optional<uint64_t> ToNumber(const char* text) {
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 10);
  return end == text || *end != '\0' ? std::nullopt : std::optional(value);
}

/// False when there is no such flag, or the value is out of its range.
bool TakeNumber(const std::string& name, uint64_t value, Arguments* arguments) {
  const bool is_small = value > 0 && value <= kCampaignJobsMax;
  if (name == "--tries" && is_small) {
    arguments->tries = static_cast<uint32_t>(value);
    return true;
  }
  arguments->is_campaign = true;
  if (name == "--from") {
    arguments->campaign.from = value;
  } else if (name == "--count") {
    arguments->campaign.count = value;
  } else if (name == "--jobs" && is_small) {
    arguments->campaign.jobs = static_cast<uint32_t>(value);
  } else {
    return false;
  }
  return true;
}

/// Nothing when the arguments are wrong.
std::optional<Arguments> Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--messages") {
      arguments.logs_messages = true;
    } else if (name == "--minimise") {
      arguments.is_minimised = true;
    } else if (name == "--keep-going") {
      arguments.campaign.keeps_going = true;
    } else if (name == "--only") {
      const std::string what = i + 1 < argc ? argv[++i] : "";
      const auto only = kOnly.find(what);
      if (only == kOnly.end()) {
        return std::nullopt;
      }
      arguments.campaign.only = only->second;
    } else if (name.rfind("--", 0) != 0) {
      arguments.seed = ToNumber(argv[i]);
      if (!arguments.seed) {
        return std::nullopt;
      }
    } else {
      const std::optional<uint64_t> value = i + 1 < argc ? ToNumber(argv[++i]) : std::nullopt;
      if (!value) {
        return std::nullopt;
      }
      if (!TakeNumber(name, *value, &arguments)) {
        return std::nullopt;
      }
    }
  }
  return arguments.is_campaign != arguments.seed.has_value() ? std::optional(arguments)
                                                             : std::nullopt;
}

int Replay(const Arguments& arguments) {
  Scenario scenario = RandomScenario(*arguments.seed, arguments.campaign.only);
  if (arguments.is_minimised) {
    scenario = Minimise(scenario, arguments.tries);
  }
  scenario.log_detail = arguments.logs_messages ? LogDetail::kMessages : LogDetail::kEvents;
  const Outcome outcome = Simulate(scenario);
  std::fputs(outcome.log.c_str(), stdout);
  std::printf("%s\n", Describe(scenario).c_str());
  for (const std::string& violation : outcome.violations) {
    std::printf("violation: %s\n", violation.c_str());
  }
  if (!outcome.is_finished) {
    for (const proto::Wait& wait : outcome.job.waits) {
      std::printf(
          "%s waits for %s: %s, since %.3f s\n",
          wait.who.c_str(),
          wait.for_whom.c_str(),
          wait.what.c_str(),
          wait.since_s);
    }
  }
  std::printf(
      "%s: %s; %.3f virtual seconds, %llu messages, %llu pushes checked, trace %016llx\n",
      outcome.is_finished ? "finished" : "not finished",
      outcome.status.ToString().c_str(),
      Seconds(outcome.virtual_time),
      static_cast<unsigned long long>(outcome.delivered),
      static_cast<unsigned long long>(outcome.pushes_checked),
      static_cast<unsigned long long>(outcome.trace_hash));
  return outcome.ok() ? 0 : 1;
}

}  // namespace
}  // namespace ps::sim

int main(int argc, char** argv) {
  const auto arguments = ps::sim::Parse(argc, argv);
  if (!arguments) {
    std::fputs(ps::sim::kUsage, stderr);
    return 2;
  }
  if (arguments->is_campaign) {
    return ps::sim::RunCampaign(arguments->campaign) == 0 ? 0 : 1;
  }
  return ps::sim::Replay(*arguments);
}
