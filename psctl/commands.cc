#include "psctl/commands.h"

#include <memory>

#include "ps/base/time.h"
#include "psctl/cli/command_line.h"
#include "psctl/cli/help_command.h"
#include "psctl/cloud/cloud_command.h"
#include "psctl/models/apply_command.h"
#include "psctl/models/evaluate_command.h"
#include "psctl/models/export_command.h"
#include "psctl/models/model_command.h"
#include "psctl/models/sample_command.h"
#include "psctl/plan/catalog_command.h"
#include "psctl/plan/catalog_refresh_command.h"
#include "psctl/plan/plan_command.h"
#include "psctl/plan/profile_command.h"
#include "psctl/plan/simulate_command.h"
#include "psctl/plan/tune_command.h"
#include "psctl/runs/attach_command.h"
#include "psctl/runs/check_command.h"
#include "psctl/runs/checkpoint_command.h"
#include "psctl/runs/fleet_command.h"
#include "psctl/runs/mode_command.h"
#include "psctl/runs/page_command.h"
#include "psctl/runs/runs_command.h"
#include "psctl/runs/set_command.h"
#include "psctl/runs/status_command.h"
#include "psctl/runs/stop_command.h"
#include "psctl/runs/top_command.h"
#include "psctl/runs/train_command.h"
#include "psctl/traces/claims_command.h"
#include "psctl/traces/forecast_command.h"
#include "psctl/traces/replay_command.h"
#include "run/planning/price_age.h"

namespace ps::psctl {
namespace {

/// A family comes before its commands.
constexpr const Command* kCommands[] = {
    &kTrain,
    &kCheck,
    &kModel,
    &kModelExport,
    &kResume,
    &kStatus,
    &kTop,
    &kPage,
    &kEvents,
    &kWhy,
    &kAttach,
    &kStop,
    &kScale,
    &kMove,
    &kDrain,
    &kNotice,
    &kPause,
    &kContinue,
    &kMode,
    &kSet,
    &kRuns,
    &kCompare,
    &kCheckpoint,
    &kCheckpointList,
    &kCheckpointShow,
    &kCheckpointVerify,
    &kCheckpointDiff,
    &kCheckpointExport,
    &kCheckpointPrune,
    &kCheckpointCopy,
    &kEvaluate,
    &kApply,
    &kSample,
    &kCloud,
    &kCloudCheck,
    &kCloudList,
    &kCloudSweep,
    &kPlan,
    &kPredict,
    &kCatalog,
    &kCatalogShow,
    &kCatalogCheck,
    &kCatalogImport,
    &kCatalogRefresh,
    &kProfile,
    &kTune,
    &kForecast,
    &kSimulate,
    &kReplay,
    &kClaims,
    &kHelp,
    &kCompletion,
};

}  // namespace

Commands AllCommands() {
  return kCommands;
}

int RunPsctl(
    const std::vector<std::string>& arguments,
    const run::Console& console,
    const run::RunRegistry& registry) {
  const Result<std::unique_ptr<Invocation>> invocation = ParseCommandLine(AllCommands(), arguments);
  if (!invocation.ok()) {
    return run::Misuse(console, invocation.status());
  }
  const Session session = {
      console, registry, AllCommands(), run::DayOf(SystemTime().UnixMicros()), arguments};
  return (*invocation)->Run(session);
}

}  // namespace ps::psctl
