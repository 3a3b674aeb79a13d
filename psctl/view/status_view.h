#pragma once

#include <string>
#include <vector>

#include "ps/proto/messages.h"

namespace ps::psctl {

/// `psctl status` of one run. `width_max` 0: not limited.
std::string RenderStatus(const proto::JobStatus& status, size_t width_max = 0);

/// `psctl status` without a name, when several run: one row each.
std::string RenderJobList(const std::vector<proto::JobStatus>& jobs, size_t width_max = 0);

/// What a histogram says whose last bucket means "that or more".
struct StalenessSummary {
  uint64_t median = 0;
  uint64_t max = 0;
  bool is_open_ended = false;  // max is at least that
  uint64_t count = 0;
};

StalenessSummary SummarizeStaleness(const std::vector<uint64_t>& histogram);

}  // namespace ps::psctl
