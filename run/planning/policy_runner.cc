#include "run/planning/policy_runner.h"

#include <algorithm>
#include <utility>

#include "ps/base/file.h"
#include "run/directory/control.h"

namespace ps::run {
namespace {

constexpr double kLookSecondsMax = 2;
constexpr double kLooksInInterval = 4;
constexpr double kSecondsPerRow = 2e-3;  // of a status, one for each worker
constexpr size_t kLogBytesMax = size_t{2} * kLogFileBytesMax;

/// What the log has of the policy, before and after it was begun anew. None in a new run.
PolicyMemory Recall(const RunPaths& run) {
  std::string log;
  for (const std::string& path : {run.coordinator_log() + ".1", run.coordinator_log()}) {
    const Result<std::string> text = ReadFile(path, kLogBytesMax);
    log += text.ok() ? *text : "";
  }
  return RecallPolicy(log);
}

}  // namespace

std::vector<proto::ScaleChange> ChangesFor(
    const provisioner::FleetWish& fleet, const PolicyTypes& types) {
  std::vector<proto::ScaleChange> changes(1);
  changes[0].type = types.spot;
  changes[0].count = static_cast<int32_t>(fleet.spot);
  if (!types.on_demand.empty()) {
    proto::ScaleChange& change = changes.emplace_back();
    change.type = types.on_demand;
    change.count = static_cast<int32_t>(fleet.on_demand);
  }
  return changes;
}

PolicyRunner::PolicyRunner(RunPaths run, const proto::JobConfig& config, const Logger* log)
    : run_(std::move(run)),
      config_(config),
      types_(PolicyTypesOf(config)),
      log_(log),
      thread_([this](int) { Run(); }) {
  thread_.Add(0);
}

void PolicyRunner::Run() {
  std::optional<LivePolicy> policy;
  const double look_s =
      std::min(kLookSecondsMax, config_.provisioner.interval_s / kLooksInInterval);
  double pause_s = look_s;
  while (thread_.PauseUnlessEnding(FromSeconds(pause_s))) {
    const Result<proto::JobStatus> status = FetchStatus(run_);
    // A job that waits for its first machine back is one to decide about.
    if (!status.ok() || (status->state != "training" && status->state != "waiting")) {
      continue;
    }
    pause_s = look_s + kSecondsPerRow * static_cast<double>(status->workers.size());
    if (!policy) {
      policy.emplace(PolicySettingsOf(config_, status->samples_total), Recall(run_));
    }
    const PolicyLook look = policy->Look(PolicyFactsOf(*status, types_));
    if (look.is_interval) {
      log_->Info("policy_interval", {{"available", look.available}});
    }
    if (look.decision && Do(*look.decision)) {
      policy->NoteAsked(look.decision->fleet);
    }
  }
}

/// Whether another fleet is wanted from now on.
bool PolicyRunner::Do(const PolicyDecision& decision) {
  if (decision.has_change) {
    const std::vector<proto::ScaleChange> changes = ChangesFor(decision.fleet, types_);
    if (const auto asked = AskToScale(run_, changes, Asker::kPolicy); !asked.ok()) {
      log_->Warning("policy_refused", {{"why", asked.status()}});
      lines_.Say("the policy's fleet was refused: " + std::string(asked.status().message()));
      return false;
    }
  }
  log_->Info(
      "policy",
      {{"spot", decision.fleet.spot},
       {"on_demand", decision.fleet.on_demand},
       {"hand_until_s", decision.hand_until_s},
       {"why", decision.why}});
  lines_.Say("policy: " + decision.why);
  return decision.has_change;
}

}  // namespace ps::run
