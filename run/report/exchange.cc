#include "run/report/exchange.h"

#include <fmt/core.h>

#include <algorithm>

#include "ps/base/text.h"
#include "ps/proto/job/step_settings.h"

namespace ps::run {

void ExchangeTotals::Add(const proto::WorkerStats& stats) {
  bytes_pushed += stats.bytes_pushed;
  bytes_pulled += stats.bytes_pulled;
  samples += stats.samples;
  compute_s += stats.compute_s;
  wait_s += stats.wait_s;
  times.push_s += stats.times.push_s;
  times.pull_s += stats.times.pull_s;
  times.others_s += stats.times.others_s;
  times.lease_s += stats.times.lease_s;
  times.evaluate_s += stats.times.evaluate_s;
  times.held_back = std::max(times.held_back, stats.times.held_back);
}

double ExchangeTotals::computing() const {
  return compute_s > 0 ? compute_s / (compute_s + wait_s) : 0;
}

double ExchangeTotals::PerSample(uint64_t bytes) const {
  return samples == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(samples);
}

ExchangeTotals ExchangeOf(const proto::JobStatus& status) {
  ExchangeTotals totals;
  for (const proto::WorkerRow& row : status.workers) {
    totals.Add(row.stats);
  }
  return totals;
}

bool IsPlain(const proto::StepsStatus& steps) {
  const proto::StepSettings& now = steps.in_force;
  return !now.push.is_lossy() && !now.pull.is_lossy() && now.local_steps == 1 &&
         steps.chosen == proto::AutoSettings() && steps.changes == 0 && steps.wanted == now;
}

std::string StepsText(const proto::StepsStatus& steps) {
  const proto::StepSettings& now = steps.in_force;
  std::string text = fmt::format(
      "push {}{}{}, pull {}, ",
      now.push.ToText(),
      now.push.is_lossy() && now.has_feedback ? " with error feedback" : "",
      steps.chosen.push ? " (auto)" : "",
      now.pull.ToText());
  text += now.local_steps == 1 ? "every minibatch"
                               : fmt::format(
                                     "every {} minibatches{}{}",
                                     now.local_steps,
                                     now.is_by_speed ? ", fewer where slow" : "",
                                     steps.chosen.local_steps ? " (auto)" : "");
  if (steps.changes > 0) {
    text += fmt::format(", since {} samples", FormatCount(steps.since_samples));
  }
  if (steps.wanted != now) {
    text += "; with the next round " + StepSettingsText(steps.wanted, now);
  }
  return text;
}

std::string ExchangeText(const ExchangeTotals& totals) {
  std::string text =
      FormatBytes(totals.bytes_pushed) + " pushed, " + FormatBytes(totals.bytes_pulled) + " pulled";
  if (totals.samples > 0) {
    const auto pushed = static_cast<uint64_t>(totals.PerSample(totals.bytes_pushed));
    const auto pulled = static_cast<uint64_t>(totals.PerSample(totals.bytes_pulled));
    text += "; a sample " + FormatBytes(pushed) + " and " + FormatBytes(pulled);
  }
  return text;
}

}  // namespace ps::run
