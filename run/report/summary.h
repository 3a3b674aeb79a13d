#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "ps/json/json_writer.h"
#include "ps/proto/files/profile.h"
#include "ps/proto/messages.h"

namespace ps::run {

/// "mnist: done after 1m 40s of training", with the reason when it was not done.
std::string RenderOutcome(const proto::JobStatus& status);

/// What a row of JobStatus::evaluations is of: "validation" or "test".
std::string_view EvaluatedOn(const proto::JobStatus& status, size_t row);

/// The newest of them: "validation" or "test". Requires: there is one.
std::string_view EvaluatedOn(const proto::JobStatus& status);

/// "0.42 USD for 21.3 GB": what bytes between workers and servers have cost.
std::string TrafficText(const proto::JobStatus& status);

/// What a run came to, for people. `width_max` 0: not limited. `starts`: of its workers elsewhere.
std::string RenderSummary(
    const proto::JobStatus& status,
    size_t width_max = 0,
    std::span<const proto::StartSample> starts = {});

/// The same for programs: one JSON object on one line, without a newline. `plan_outcome` is a JSON
/// object about the plan that was run; empty: there was none.
std::string SummaryToJson(
    const proto::JobStatus& status,
    std::string_view plan_outcome = "",
    std::span<const proto::StartSample> starts = {});

/// The exit code of a run that has ended in `state`. It is 0 only where the run also left the model
/// of its end, for scripts use that without reading more: `model_problem` as in JobStatus.
int ExitCodeOf(std::string_view state, std::string_view model_problem);

/// The counters of the job as fields of the object that `json` is in.
void AddCounters(const proto::JobStatus& status, JsonWriter* json);

}  // namespace ps::run
