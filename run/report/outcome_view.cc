#include "run/report/outcome_view.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "ps/base/text.h"
#include "ps/json/json_writer.h"
#include "run/report/tables.h"

namespace ps::run {
namespace {

struct OutcomeRow {
  std::string name;
  const proto::Estimate* predicted = nullptr;
  double measured = 0;
  std::string (*format)(double) = nullptr;
};

std::string FormatSteps(double steps) {
  return FormatCount(static_cast<uint64_t>(std::llround(std::max(steps, 0.0))));
}

std::string Error(double predicted, double measured) {
  const double error = predicted / measured - 1;
  return (error < 0 ? "" : "+") + FormatPercent(error);
}

}  // namespace

std::string RenderPlanOutcome(const provisioner::PlanOutcome& outcome) {
  Table table(
      {{"against the plan", Align::kLeft},
       {"predicted"},
       {"from"},
       {"to"},
       {"measured"},
       {"error"}});
  const OutcomeRow rows[] = {
      {"samples/s", &outcome.samples_per_s, outcome.measured_samples_per_s, &FormatRate},
      {"time to the loss", &outcome.seconds, outcome.measured_seconds, &FormatDuration},
      {"steps to the loss", &outcome.steps, outcome.measured_steps, &FormatSteps},
  };
  for (const OutcomeRow& row : rows) {
    if (row.predicted->value <= 0) {
      continue;
    }
    const bool is_measured = row.measured > 0;
    table.AddRow(
        {row.name,
         row.format(row.predicted->value),
         row.format(row.predicted->low),
         row.format(row.predicted->high),
         is_measured ? row.format(row.measured) : "-",
         is_measured ? Error(row.predicted->value, row.measured) : "-"});
  }
  std::string text = table.Render();
  if (outcome.loss_target > 0) {
    text += "loss " + FormatLoss(outcome.measured_loss) + ", planned " +
            FormatFixed(outcome.loss_target, 4) +
            (outcome.measured_seconds > 0 ? "" : ": not reached") + "\n";
  }
  return text;
}

std::string PlanOutcomeToJson(const provisioner::PlanOutcome& outcome) {
  JsonWriter json(JsonForm::kOneLine);
  const auto add = [&json](
                       std::string_view key, const proto::Estimate& predicted, double measured) {
    json.BeginObject(key);
    json.Field("predicted", predicted.value);
    json.Field("low", predicted.low);
    json.Field("high", predicted.high);
    if (measured > 0) {
      json.Field("measured", measured);
    } else {
      json.Field("measured", nullptr);
    }
    json.EndObject();
  };
  json.BeginObject();
  add("samples_per_s", outcome.samples_per_s, outcome.measured_samples_per_s);
  add("seconds", outcome.seconds, outcome.measured_seconds);
  add("steps", outcome.steps, outcome.measured_steps);
  json.Field("loss_target", outcome.loss_target);
  json.Field("loss", outcome.measured_loss);
  json.EndObject();
  return std::move(json).Take();
}

std::string RenderRefinement(const std::string& path, const provisioner::Refinement& refinement) {
  const std::string learnt = Join(refinement.learnt);
  std::string text = path + (learnt.empty() ? " learnt nothing" : " refined by ") + learnt + "\n";
  for (const std::string& what : refinement.left_out) {
    text += path + ": left out " + what + "\n";
  }
  return text;
}

}  // namespace ps::run
