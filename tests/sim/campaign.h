#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/cluster.h"

namespace ps::sim {

/// Random scenarios of many seeds, each simulated once, in several processes.
struct CampaignOptions {
  uint64_t from = 0;   // the first seed
  uint64_t count = 1;  // seeds
  uint32_t jobs = 1;   // processes
  /// Counts the violations by kind, instead of stopping at the first one.
  bool keeps_going = false;
  Only only = Only::kAny;
};

/// The most jobs of one campaign.
constexpr uint32_t kCampaignJobsMax = 256;

/// Runs a campaign. Progress goes to stderr; violations and the final count to stdout. Returns the
/// number of seeds that broke a promise; a process that died counts as one.
/// Requires: 0 < options.jobs <= kCampaignJobsMax.
uint64_t RunCampaign(const CampaignOptions& options);

/// What broke, in one line: the first violation, or how the run ended.
std::string FirstFailure(const Outcome& outcome);

/// `failure` with each number replaced by '#': the same text for failures of one kind.
std::string KindOf(const std::string& failure);

}  // namespace ps::sim
