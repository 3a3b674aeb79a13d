#include "psctl/view/why_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "ps/base/text.h"
#include "ps/base/time.h"
#include "ps/proto/timing.h"
#include "run/report/exchange.h"
#include "run/report/tables.h"
#include "run/report/time_use.h"

namespace ps::psctl {
namespace {

constexpr size_t kAdviceMax = 4;

void AddRow(const std::string& who, const run::TimeUse& use, run::Table* table) {
  const auto percent = [&](double share) {
    return use.seconds > 0 ? FormatPercent(share, 0) : "-";
  };
  table->AddRow(
      {who,
       percent(use.computing),
       percent(use.push),
       percent(use.pull),
       percent(use.others),
       percent(use.lease),
       percent(use.evaluating),
       percent(use.rest)});
}

/// Where the time goes, and what follows. Empty before the first step.
std::string RenderTimes(const proto::JobStatus& status, const std::optional<WorkerId>& worker) {
  run::Table table(
      {{"worker", run::Align::kLeft},
       {"computing"},
       {"push"},
       {"pull"},
       {"slower workers"},
       {"lease"},
       {"evaluation"},
       {"other"}});
  size_t shown = 0;
  for (const proto::WorkerRow& row : status.workers) {
    if (!row.is_gone() && row.stats.compute_s > 0 && (!worker || row.worker == *worker)) {
      AddRow(std::to_string(row.worker.value), run::TimeUseOf(row.stats), &table);
      ++shown;
    }
  }
  if (shown == 0) {
    return worker ? fmt::format("worker {} has made no step yet, or is gone\n\n", worker->value)
                  : "";
  }
  if (shown > 1) {
    AddRow("all", run::TimeUseOf(status, worker), &table);
  }
  std::string out = "where the time goes\n" + table.Render() + "\n";
  std::vector<std::pair<std::string, std::string>> pairs;
  pairs.emplace_back("exchange", run::StepsText(status.steps));
  if (status.steps.changes > 0) {
    pairs.emplace_back("", "the times above are also of before the last change of it");
  }
  const std::string limit = run::LimitText(status, worker);
  pairs.emplace_back("the limit", limit.empty() ? "arithmetic: nothing else takes 5 %" : limit);
  const std::vector<run::Advice> advice = run::AdviceFor(status, worker);
  for (size_t i = 0; i < std::min(advice.size(), kAdviceMax); ++i) {
    pairs.emplace_back(i == 0 ? "would help" : "", advice[i].what + ": " + advice[i].expected);
  }
  if (advice.empty()) {
    pairs.emplace_back("would help", "more or faster workers (psctl scale, psctl plan)");
  }
  pairs.emplace_back("a kill now", "loses " + run::KillText(status, worker));
  return out + run::RenderPairs(pairs) + "\n";
}

std::string Milliseconds(Duration duration) {
  return FormatFixed(Seconds(duration) * 1000, 0) + " ms";
}

}  // namespace

std::string RenderWaits(const proto::JobStatus& status, size_t count_max) {
  std::vector<proto::Wait> waits = status.waits;
  std::sort(waits.begin(), waits.end(), [](const auto& a, const auto& b) {
    return std::tie(b.since_s, a.who, a.what) < std::tie(a.since_s, b.who, b.what);
  });
  std::string out;
  for (size_t i = 0; i < std::min(waits.size(), count_max); ++i) {
    const proto::Wait& wait = waits[i];
    out += fmt::format(
        "{} waits for {}: {}, for {}, since membership generation {}\n",
        Printable(wait.who),
        Printable(wait.for_whom),
        Printable(wait.what),
        FormatDuration(wait.since_s),
        wait.generation.value);
  }
  if (waits.size() > count_max) {
    out += "and " + Plural(waits.size() - count_max, "shorter wait") + ": psctl why\n";
  }
  return out.empty() ? "nobody waits\n" : out;
}

std::string RenderWhy(const proto::JobStatus& status, const std::optional<WorkerId>& worker) {
  std::string out = Printable(status.name) + " is " + std::string(proto::StateName(status.state));
  if (!status.detail.empty()) {
    out += ": " + Printable(status.detail);
  }
  out += fmt::format(" (membership generation {})\n\n", status.generation.value);
  out += RenderTimes(status, worker);
  out += RenderWaits(status, status.waits.size());
  const proto::Timing timing = proto::Timing::FromMaxDetect(FromSeconds(status.max_detect_s));
  out += "\ntimes, all from fleet.max_detect_s = " + FormatFixed(status.max_detect_s, 2) +
         " and servers.max_detect_s\n";
  out += run::RenderPairs(
      {{"  heartbeat every", Milliseconds(timing.heartbeat)},
       {"  a silent member is lost after", Milliseconds(timing.detect)},
       {"  a silent server is lost after", Milliseconds(FromSeconds(status.server_max_detect_s))},
       {"  a lease without progress is taken back after", Milliseconds(timing.lease)},
       {"  a request is sent again after",
        Milliseconds(timing.retry_first) + ", later at most " + Milliseconds(timing.retry_limit)},
       {"  a connection attempt is given up after", Milliseconds(timing.connect_timeout)}});
  return out;
}

}  // namespace ps::psctl
