#include "run/resume_loss.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "ps/base/text.h"
#include "ps/json/json_value.h"
#include "run/directory/run_checkpoints.h"
#include "run/report/run_events.h"

namespace ps::run {
namespace {

/// A line of metrics has a row for each worker.
constexpr std::streamoff kTailBytes = std::streamoff{4} << 20;

template <typename T>
bool Take(const JsonValue& line, std::string_view name, T* value) {
  const JsonValue* const found = line.Find(name);
  if (found == nullptr || found->kind != JsonValue::Kind::kNumber) {
    return false;
  }
  const char* const end = found->text.data() + found->text.size();
  const auto [stopped, error] = std::from_chars(found->text.data(), end, *value);
  return error == std::errc() && stopped == end;
}

/// Empty when it can't be read.
std::string TailOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) {
    return "";
  }
  const std::streamoff size = file.tellg();
  const std::streamoff length = std::min(size, kTailBytes);
  std::string tail(static_cast<size_t>(length), '\0');
  file.seekg(size - length);
  file.read(tail.data(), length);
  return file ? tail : "";
}

bool IsSamePath(const std::string& a, const std::string& b) {
  std::error_code error;
  return a == b || std::filesystem::equivalent(a, b, error);
}

}  // namespace

std::optional<CountedWork> CountedByJournal(const proto::JobState& state, uint64_t checkpoint) {
  if (state.checkpoints.next <= checkpoint) {
    return std::nullopt;
  }
  CountedWork counted;
  counted.steps = state.counters.steps_counted;
  for (const proto::EpochRecord& epoch : state.ledger.epochs) {
    counted.samples += epoch.counted.size();
  }
  counted.is_all = true;
  return counted;
}

std::optional<CountedWork> CountedByMetrics(std::string_view tail) {
  while (!tail.empty()) {
    const size_t end = tail.find_last_of('\n');
    if (end == std::string_view::npos) {
      return std::nullopt;  // what follows the last end of a line was cut off
    }
    tail = tail.substr(0, end);
    const size_t before = tail.find_last_of('\n');
    const std::string_view line = before == std::string_view::npos ? tail : tail.substr(before + 1);
    const Result<JsonValue> json = ParseJson(line, "metrics.jsonl");
    CountedWork counted;
    if (json.ok() && json->kind == JsonValue::Kind::kObject &&
        Take(*json, "steps_counted", &counted.steps) &&
        Take(*json, "samples_counted", &counted.samples) &&
        Take(*json, "time_unix_s", &counted.unix_s)) {
      const JsonValue* const state = json->Find("state");
      counted.is_all = state != nullptr && (state->text == "done" || state->text == "stopped" ||
                                            state->text == "failed");
      return counted;
    }
  }
  return std::nullopt;
}

std::optional<CountedWork> FindCounted(
    const std::string& path,
    const std::optional<RunPaths>& run,
    const RunRegistry& registry,
    const checkpoint::Manifest& manifest) {
  std::vector<RunPaths> runs = registry.All();
  if (run) {
    runs.push_back(*run);
  }
  // The usual place of checkpoints is within the run.
  runs.push_back({std::filesystem::path(path).parent_path().string()});
  std::optional<CountedWork> newest;
  for (const RunPaths& candidate : runs) {
    if (!IsSamePath(CheckpointPathOf(candidate), path)) {
      continue;
    }
    const std::optional<CountedWork> counted = CountedByMetrics(TailOf(candidate.metrics()));
    if (counted && (!newest || counted->unix_s > newest->unix_s)) {
      newest = counted;
    }
  }
  const double written = static_cast<double>(manifest.unix_micros) / 1e6;
  return newest && newest->unix_s >= written ? newest : std::nullopt;
}

std::string LossText(
    const checkpoint::Progress& progress,
    const std::optional<CountedWork>& counted,
    double checkpoint_every_s) {
  if (!counted || counted->steps < progress.steps || counted->samples < progress.samples) {
    return fmt::format(
        "lost since the checkpoint: not known, up to {:g} s of training (checkpoint.every_s) and "
        "the time that a checkpoint takes; it is trained again\n",
        checkpoint_every_s);
  }
  const uint64_t steps = counted->steps - progress.steps;
  const uint64_t samples = counted->samples - progress.samples;
  if (counted->is_all && steps == 0) {
    return "lost since the checkpoint: nothing\n";
  }
  return fmt::format(
      "lost since the checkpoint: {}{}; {} trained again\n",
      counted->is_all ? "" : "by the last line of metrics.jsonl at least ",
      StepsOfSamples(steps, samples),
      steps == 1 ? "it is" : "they are");
}

}  // namespace ps::run
