#pragma once

#include <string>
#include <string_view>

#include "ps/proto/messages.h"

namespace ps::psctl {

/// "mnist: done after 1m 40s of training", with the reason when it was not done.
std::string RenderOutcome(const proto::JobStatus& status);

/// What a run came to, for people. `width_max` 0: not limited.
std::string RenderSummary(const proto::JobStatus& status, size_t width_max = 0);

/// The same for programs: one JSON object on one line, without a newline. `plan_outcome` is a JSON
/// object about the plan that was run; empty: there was none.
std::string SummaryToJson(const proto::JobStatus& status, std::string_view plan_outcome = "");

/// One line of metrics.jsonl, without a newline.
std::string MetricsToJson(const proto::JobStatus& status, int64_t unix_micros);

}  // namespace ps::psctl
