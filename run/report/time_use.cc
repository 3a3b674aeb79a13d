#include "run/report/time_use.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "ps/base/text.h"
#include "ps/coordinator/meters/exchange_choice.h"
#include "ps/proto/job/step_settings.h"
#include "run/report/exchange.h"

namespace ps::run {
namespace {

constexpr double kWorthNaming = 0.05;  // of a worker's time
constexpr double kTarget = 0.95;       // of it computing
constexpr double kBitsOfByte = 8;

bool IsShown(const proto::WorkerRow& row, const std::optional<WorkerId>& worker) {
  return !row.is_gone() && row.stats.compute_s > 0 && (!worker || row.worker == *worker);
}

std::string Megabits(uint64_t bytes, double seconds) {
  return FormatFixed(kBitsOfByte * static_cast<double>(bytes) / seconds / 1e6, 1) + " Mbit/s";
}

/// One of the parts, of one worker.
struct TimePart {
  double share = 0;
  std::string text;
};

TimePart LargestPart(const proto::WorkerRow& row) {
  const TimeUse use = TimeUseOf(row.stats);
  const proto::WorkerTimes& times = row.stats.times;
  const std::string who = fmt::format("worker {}", row.worker.value);
  const std::array<TimePart, 6> parts = {{
      {use.push,
       fmt::format(
           "pushes of {} take {} of its time{}",
           who,
           FormatPercent(use.push, 0),
           times.push_s > 0 ? ", at " + Megabits(row.stats.bytes_pushed, times.push_s) : "")},
      {use.pull,
       fmt::format(
           "pulls of {} take {} of its time{}",
           who,
           FormatPercent(use.pull, 0),
           times.pull_s > 0 ? ", at " + Megabits(row.stats.bytes_pulled, times.pull_s) : "")},
      {use.others,
       fmt::format(
           "{} waits for slower workers {} of its time", who, FormatPercent(use.others, 0))},
      {use.lease,
       fmt::format("{} waits for work {} of its time", who, FormatPercent(use.lease, 0))},
      {use.evaluating,
       fmt::format("{} evaluates {} of its time", who, FormatPercent(use.evaluating, 0))},
      {use.rest,
       fmt::format(
           "{} does something else {} of its time: its threads or its first values",
           who,
           FormatPercent(use.rest, 0))},
  }};
  return *std::ranges::max_element(parts, {}, &TimePart::share);
}

/// The worker whose minibatches of the job's size take longest. Null: nobody works.
const proto::WorkerRow* Slowest(const proto::JobStatus& status) {
  const auto seconds = [](const proto::WorkerRow& row) {
    return row.stats.samples == 0 ? 0
                                  : row.stats.compute_s / static_cast<double>(row.stats.samples);
  };
  const proto::WorkerRow* slowest = nullptr;
  for (const proto::WorkerRow& row : status.workers) {
    if (IsShown(row, std::nullopt) && (slowest == nullptr || seconds(row) > seconds(*slowest))) {
      slowest = &row;
    }
  }
  return slowest;
}

std::string SharePercent(double share) {
  return "workers would compute for about " + FormatPercent(share, 0) +
         " of the time that they exchange in";
}

/// The local steps with which the target would be reached without fewer bits.
uint32_t LocalStepsNeeded(const coordinator::ExchangeMeasure& measure) {
  const double exchange = measure.push_s + measure.pull_s;
  return static_cast<uint32_t>(
      std::clamp(std::ceil(kTarget / (1 - kTarget) * exchange / measure.compute_s), 2.0, 500.0));
}

void AddExchangeAdvice(
    const proto::JobStatus& status, const ExchangeTotals& totals, std::vector<Advice>* advice) {
  const coordinator::ExchangeMeasure measure{
      totals.compute_s, totals.times.push_s, totals.times.pull_s};
  const proto::StepSettings& now = status.steps.in_force;
  const bool is_local = now.local_steps > 1;
  coordinator::ExchangeBounds bounds;
  bounds.chosen = {true, is_local};
  bounds.local_steps_max = is_local ? std::max(now.local_steps, 128U) : 1;
  bounds.is_overlapping = true;  // nobody needs advice to exchange more
  const auto choice = coordinator::ChooseExchange(now, measure, bounds);
  if (choice) {
    advice->push_back({"psctl set " + StepSettingsText(choice->settings, now), choice->why});
    std::string& command = advice->back().what;
    for (size_t comma = command.find(','); comma != std::string::npos; comma = command.find(',')) {
      command.erase(comma, 1);
    }
  }
  const bool is_short = measure.compute_s > 0 && measure.computing() < kTarget;
  if (is_short && !now.pull.is_lossy() && totals.times.pull_s > totals.times.push_s) {
    const coordinator::ExchangeMeasure halved{
        measure.compute_s, measure.push_s, measure.pull_s / 2};
    advice->push_back({"psctl set exchange.pull=bf16", SharePercent(halved.computing())});
  }
  if (is_short && !is_local) {
    advice->push_back(
        {fmt::format("train.local_steps {} in another run", LocalStepsNeeded(measure)),
         SharePercent(kTarget) + "; docs/thin-links.md says what it costs"});
  }
}

}  // namespace

TimeUse TimeUseOf(const proto::WorkerStats& stats) {
  const proto::WorkerTimes& times = stats.times;
  const double named = times.push_s + times.pull_s + times.others_s + times.lease_s;
  const double waited = std::max(stats.wait_s, named);
  TimeUse use;
  use.seconds = stats.compute_s + waited + times.evaluate_s;
  if (use.seconds <= 0) {
    return {};
  }
  use.computing = stats.compute_s / use.seconds;
  use.push = times.push_s / use.seconds;
  use.pull = times.pull_s / use.seconds;
  use.others = times.others_s / use.seconds;
  use.lease = times.lease_s / use.seconds;
  use.evaluating = times.evaluate_s / use.seconds;
  use.rest = (waited - named) / use.seconds;
  return use;
}

TimeUse TimeUseOf(const proto::JobStatus& status, const std::optional<WorkerId>& worker) {
  proto::WorkerStats sum;
  for (const proto::WorkerRow& row : status.workers) {
    if (IsShown(row, worker)) {
      sum.compute_s += row.stats.compute_s;
      sum.wait_s += row.stats.wait_s;
      sum.times.push_s += row.stats.times.push_s;
      sum.times.pull_s += row.stats.times.pull_s;
      sum.times.others_s += row.stats.times.others_s;
      sum.times.lease_s += row.stats.times.lease_s;
      sum.times.evaluate_s += row.stats.times.evaluate_s;
    }
  }
  return TimeUseOf(sum);
}

std::string LimitText(const proto::JobStatus& status, const std::optional<WorkerId>& worker) {
  TimePart largest;
  for (const proto::WorkerRow& row : status.workers) {
    if (!IsShown(row, worker)) {
      continue;
    }
    if (TimePart part = LargestPart(row); part.share > largest.share) {
      largest = std::move(part);
    }
  }
  return largest.share < kWorthNaming ? "" : largest.text;
}

std::vector<Advice> AdviceFor(
    const proto::JobStatus& status, const std::optional<WorkerId>& worker) {
  ExchangeTotals totals;
  for (const proto::WorkerRow& row : status.workers) {
    if (IsShown(row, worker)) {
      totals.Add(row.stats);
    }
  }
  std::vector<Advice> advice;
  AddExchangeAdvice(status, totals, &advice);
  const TimeUse use = TimeUseOf(status, worker);
  const proto::WorkerRow* const slowest = Slowest(status);
  if (use.others >= kWorthNaming && slowest != nullptr) {
    const proto::StepSettings& now = status.steps.in_force;
    if (now.local_steps > 1 && !now.is_by_speed) {
      advice.push_back(
          {"psctl set train.local_steps_by_speed=true", "slow workers make fewer local steps"});
    }
    advice.push_back({"psctl mode async", "nobody waits for anybody"});
    advice.push_back(
        {fmt::format("psctl drain {}", slowest->worker.value),
         fmt::format("worker {} is the slowest", slowest->worker.value)});
  }
  if (use.lease >= kWorthNaming) {
    advice.push_back(
        {"train.lease_steps larger in another run, or a coordinator nearby",
         "workers ask for work less often"});
  }
  return advice;
}

std::string KillText(const proto::JobStatus& status, const std::optional<WorkerId>& worker) {
  const proto::WorkerRow* worst = nullptr;
  const auto seconds = [&](const proto::WorkerRow& row) {
    const double samples = double{1} * row.minibatch * status.steps.in_force.local_steps;
    return row.stats.samples == 0
               ? 0
               : samples * row.stats.compute_s / static_cast<double>(row.stats.samples);
  };
  for (const proto::WorkerRow& row : status.workers) {
    if (IsShown(row, worker) && (worst == nullptr || seconds(row) > seconds(*worst))) {
      worst = &row;
    }
  }
  if (worst == nullptr) {
    return "";
  }
  const uint64_t minibatches = status.steps.in_force.local_steps;
  return fmt::format(
      "up to {} ({}, {} of worker {}'s work), which are handed out again",
      Plural(minibatches * worst->minibatch, "sample"),
      minibatches == 1 ? "1 minibatch" : fmt::format("{} minibatches", FormatCount(minibatches)),
      FormatDuration(seconds(*worst)),
      worst->worker.value);
}

}  // namespace ps::run
