#include "psctl/view/probe_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "ps/base/text.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

/// Rows of tensors; those of larger models share rows.
constexpr size_t kRowsMax = 20;

std::string Milliseconds(double seconds) {
  return FormatFixed(1000 * seconds, 2);
}

std::string Bytes(double bytes) {
  return FormatBytes(static_cast<uint64_t>(std::llround(bytes)));
}

std::string SignedPercent(double error) {
  return fmt::format("{:+.1f} %", 100 * error);
}

std::string RenderPasses(const proto::JobProfile& profile) {
  run::Table table(
      {{"passes of a step", run::Align::kLeft},
       {"minibatch"},
       {"forward ms"},
       {"backward ms"},
       {"both"},
       {"steps"}});
  for (const proto::StepTimes& times : profile.steps) {
    table.AddRow(
        {Printable(times.instance_type),
         std::to_string(times.minibatch),
         Milliseconds(times.forward_s),
         Milliseconds(times.backward_s),
         Milliseconds(times.forward_s + times.backward_s),
         FormatCount(static_cast<uint64_t>(times.steps))});
  }
  return table.Render();
}

/// In the order in which they are ready; of neighbours in one row when the last of them is.
std::string RenderTensors(const proto::StepTimes& times) {
  run::Table table(
      {{"tensors, as ready", run::Align::kLeft}, {"bytes"}, {"of backward"}, {"ready ms"}});
  const size_t count = times.tensors.size();
  const size_t together = (count + kRowsMax - 1) / kRowsMax;
  for (size_t begin = 0; begin < count; begin += together) {
    const size_t end = std::min(begin + together, count);
    double bytes = 0;
    for (size_t i = begin; i < end; ++i) {
      bytes += times.tensors[i].bytes;
    }
    const double ready = times.tensors[end - 1].ready;
    table.AddRow(
        {end - begin > 1 ? fmt::format("{} to {}", begin + 1, end) : std::to_string(end),
         Bytes(bytes),
         FormatPercent(ready),
         Milliseconds(times.forward_s + ready * times.backward_s)});
  }
  return table.Render();
}

std::string RenderLink(const proto::LinkTimes& link) {
  if (link.exchanges == 0) {
    return "the link of a worker was not timed\n";
  }
  return run::RenderPairs(
      {{"a worker's link",
        fmt::format(
            "{}/s to the servers, {}/s back, round trip {} ms, {}",
            Bytes(link.push_bytes_per_s),
            Bytes(link.pull_bytes_per_s),
            Milliseconds(link.round_trip_s),
            Plural(static_cast<uint64_t>(link.exchanges), "exchange"))}});
}

/// "2 local, 1 local-slowed"
std::string FleetText(const proto::FleetSample& fleet) {
  std::map<std::string, int> counts;
  for (const std::string& type : fleet.workers) {
    ++counts[type];
  }
  std::vector<std::string> parts;
  for (const auto& [type, count] : counts) {
    parts.push_back(fmt::format("{} {}", count, Printable(type)));
  }
  return Join(parts);
}

std::string RenderComparisons(const std::vector<provisioner::StepComparison>& comparisons) {
  run::Table table(
      {{"step of a worker, ms", run::Align::kLeft},
       {"measured"},
       {"overlap"},
       {"error"},
       {"queue"},
       {"error"}});
  for (const provisioner::StepComparison& comparison : comparisons) {
    table.AddRow(
        {FleetText(comparison.fleet),
         Milliseconds(comparison.measured_s),
         Milliseconds(comparison.overlap_s),
         SignedPercent(comparison.OverlapError()),
         Milliseconds(comparison.queue_s),
         SignedPercent(comparison.QueueError())});
  }
  return table.Render();
}

}  // namespace

provisioner::ExchangeKind ExchangeKindOf(const proto::JobConfig& config) {
  if (config.train.mode == proto::Mode::kBsp) {
    return provisioner::ExchangeKind::kRounds;
  }
  return config.train.mode == proto::Mode::kAsync && config.train.overlap
             ? provisioner::ExchangeKind::kHidden
             : provisioner::ExchangeKind::kWaiting;
}

std::string RenderProbes(const proto::JobProfile& profile, provisioner::ExchangeKind kind) {
  if (profile.steps.empty()) {
    return "no passes were timed; use a larger --seconds\n";
  }
  std::string text = RenderPasses(profile) + "\n" + RenderTensors(profile.steps.front()) + "\n" +
                     RenderLink(profile.link) + "\n";
  const auto comparisons = provisioner::CompareStepModels(profile, kind);
  return text + (comparisons.ok() ? RenderComparisons(*comparisons)
                                  : std::string(comparisons.status().message()) + "\n");
}

}  // namespace ps::psctl
