#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ps/json/json_writer.h"
#include "ps/proto/messages.h"

namespace ps::run {

/// Rows of workers and servers that a page has at most: those that need to be looked at.
inline constexpr size_t kWorstMax = 20;
/// So many are all shown.
inline constexpr size_t kAllMax = 40;

/// Workers in the order in which a person would look at them: those that give no sign, leave or sit
/// out, then the others, the slowest first where not all are shown, then the newest of those that
/// are gone. At most `max`, or all where they are no more than kAllMax.
std::vector<const proto::WorkerRow*> WorstWorkers(const proto::JobStatus& status, size_t max);

/// What the page shows of a run, as the members of the object that `json` is in. Its size is
/// bounded whatever the size of the fleet.
void AddPageState(const proto::JobStatus& status, JsonWriter* json);

/// What summary.json, or a line of metrics.jsonl, tells of an ended run. What it does not tell
/// stays as it is in an empty status. Takes any JSON.
proto::JobStatus StatusFromSummary(const std::string& text, const std::string& file);

}  // namespace ps::run
