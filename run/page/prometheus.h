#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "ps/proto/messages.h"

namespace ps::run {

/// Workers that have lines of their own in /metrics; of more, the fleet's alone are there.
inline constexpr size_t kWorkerMetricsMax = 128;
/// So are shards.
inline constexpr size_t kShardMetricsMax = 128;

/// A status in Prometheus' text format (0.0.4), each name after its HELP and TYPE. What is not
/// known has no line. `age_s`: of the status. A counter falls when a run goes back to a checkpoint,
/// which Prometheus takes for a restart.
std::string RenderPrometheus(
    const proto::JobStatus& status, std::string_view software, double age_s);

}  // namespace ps::run
