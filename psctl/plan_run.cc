#include "psctl/plan_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ps/base/text.h"
#include "ps/proto/json_writer.h"
#include "psctl/tables.h"

namespace ps::psctl {
namespace {

constexpr double kBytesPerMbit = 1e6 / 8;

float MbitPerS(double bytes_per_s) {
  return static_cast<float>(bytes_per_s / kBytesPerMbit);
}

struct Row {
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

Result<proto::JobConfig> ApplyPlan(
    proto::JobConfig config, const proto::Plan& plan, const std::string& fingerprint) {
  if (!plan.model_fingerprint.empty() && plan.model_fingerprint != fingerprint) {
    return Status::InvalidArgument(
        "the plan is for another model: its model_fingerprint is " + plan.model_fingerprint +
        ", this job's is " + fingerprint + "; plan again with `psctl plan`");
  }
  config.workers.clear();
  for (const proto::PlanWorkers& planned : plan.workers) {
    if (planned.count <= 0) {
      continue;
    }
    proto::WorkerGroup group;
    group.count = static_cast<uint32_t>(planned.count);
    group.minibatch = static_cast<uint32_t>(std::max(planned.minibatch, 0));
    group.step_ms = static_cast<float>(1000 * planned.compute_s);
    group.link_mbit_per_s = MbitPerS(planned.link_bytes_per_s);
    group.type = planned.instance_type;
    config.workers.push_back(std::move(group));
  }
  if (config.workers.empty()) {
    return Status::InvalidArgument("the plan has no workers, so there is nothing to run");
  }
  config.servers.count = static_cast<uint32_t>(std::max(plan.servers.count, 1));
  config.servers.link_mbit_per_s = MbitPerS(plan.servers.link_bytes_per_s);
  if (plan.loss_target > 0) {
    config.run.stop_at_loss = static_cast<float>(plan.loss_target);
  }
  config.faults.clear();  // they name seats of another fleet
  return config;
}

PlanOutcome CompareWithPlan(
    const proto::Plan& plan,
    const proto::JobProfile& measured,
    const LossReached& reached,
    double last_loss) {
  PlanOutcome outcome;
  outcome.samples_per_s = plan.samples_per_s;
  outcome.seconds = plan.seconds;
  outcome.measured_seconds = reached.seconds;
  outcome.steps = plan.steps;
  outcome.measured_steps = reached.steps;
  outcome.loss_target = plan.loss_target;
  outcome.measured_loss = last_loss;
  if (!measured.fleets.empty()) {
    outcome.measured_samples_per_s = measured.fleets.back().samples_per_s;
  }
  return outcome;
}

std::string RenderPlanOutcome(const PlanOutcome& outcome) {
  Table table(
      {{"against the plan", Align::kLeft},
       {"predicted"},
       {"from"},
       {"to"},
       {"measured"},
       {"error"}});
  const Row rows[] = {
      {"samples/s", &outcome.samples_per_s, outcome.measured_samples_per_s, &FormatRate},
      {"time to the loss", &outcome.seconds, outcome.measured_seconds, &FormatDuration},
      {"steps to the loss", &outcome.steps, outcome.measured_steps, &FormatSteps},
  };
  for (const Row& row : rows) {
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
    text += "loss " + FormatFixed(outcome.measured_loss, 4) + ", planned " +
            FormatFixed(outcome.loss_target, 4) +
            (outcome.measured_seconds > 0 ? "" : ": not reached") + "\n";
  }
  return text;
}

std::string PlanOutcomeToJson(const PlanOutcome& outcome) {
  proto::JsonWriter json(proto::JsonForm::kOneLine);
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

}  // namespace ps::psctl
