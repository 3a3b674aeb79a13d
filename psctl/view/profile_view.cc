#include "psctl/view/profile_view.h"

#include <fmt/core.h>

#include <cmath>
#include <utility>
#include <vector>

#include "ps/base/text.h"
#include "run/report/start_view.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

std::string Percent(double residual) {
  return "+-" + FormatPercent(residual);
}

/// The fleets of a fit, those that hide their exchanges and those that are late.
std::string FactorsText(const proto::CurveFit& curves, bool is_late) {
  std::string text;
  for (const proto::FleetFactor& fleet : curves.fleets) {
    if ((fleet.late >= 0.5) == is_late) {
      text += fmt::format("{} for {}, ", FormatFixed(fleet.factor, 2), fleet.workers);
    }
  }
  return text;
}

}  // namespace

std::string RenderProfile(const proto::JobProfile& profile) {
  const auto bytes = [](double n) { return FormatBytes(static_cast<uint64_t>(std::llround(n))); };
  std::vector<std::pair<std::string, std::string>> pairs = {
      {"job", Printable(profile.job) + ", model " + Printable(profile.model_fingerprint)},
      {"parameters", bytes(profile.parameter_bytes)},
      {"a step moves",
       bytes(profile.push_bytes) + " to the servers, " + bytes(profile.pull_bytes) + " back"},
      {"a worker alone takes", bytes(profile.request_bytes_per_s) + "/s each way"}};
  if (profile.local_steps > 1) {
    pairs.insert(
        pairs.begin() + 2,
        {"a step", std::to_string(profile.local_steps) + " minibatches, then an exchange"});
  }
  for (const proto::ExchangePenalty& penalty : profile.penalties) {
    const std::string scheme = proto::SchemeText(profile.SchemeOf(penalty), profile.Scheme());
    pairs.emplace_back(
        scheme + ", " + penalty.mode,
        FormatFixed(penalty.samples, 2) + " times the samples to a loss");
  }
  if (profile.queue.samples > 0) {
    pairs.emplace_back(
        "queue model",
        Percent(profile.queue.residual) + " over " +
            Plural(static_cast<uint64_t>(profile.queue.samples), "fleet"));
  }
  const proto::CurveFit& curves = profile.curves;
  if (curves.samples > 0) {
    pairs.emplace_back(
        "loss model",
        Percent(curves.residual) + " of the steps, down to a loss of " +
            FormatFixed(curves.loss_min, 2) + "; less sure below");
    if (const std::string hidden = FactorsText(curves, false); !hidden.empty()) {
      pairs.emplace_back("steps, exchange hidden", hidden + "others by how stale they are");
    }
    pairs.emplace_back(
        "steps by workers", FactorsText(curves, true) + "larger fleets extrapolated");
  }
  if (std::string starts = run::StartsText(profile.starts); !starts.empty()) {
    pairs.emplace_back("start-up", std::move(starts));
  }
  run::Table table(
      {{"type", run::Align::kLeft},
       {"minibatch"},
       {"step ms"},
       {"+-"},
       {"samples/s"},
       {"steps"},
       {"largest minibatch"}});
  for (const proto::WorkerProfile& worker : profile.workers) {
    table.AddRow(
        {Printable(worker.instance_type),
         std::to_string(worker.minibatch),
         FormatFixed(1000 * worker.compute_s, 2),
         FormatFixed(1000 * worker.compute_stddev_s, 2),
         FormatRate(worker.minibatch / worker.compute_s),
         FormatCount(static_cast<uint64_t>(worker.steps_measured)),
         worker.minibatch_max > 0 ? FormatCount(static_cast<uint64_t>(worker.minibatch_max))
                                  : "?"});
  }
  return run::RenderPairs(pairs) + "\n" + table.Render();
}

}  // namespace ps::psctl
