#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ps/base/status.h"
#include "psctl/plan/catalog_command.h"
#include "psctl/plan/forecast_command.h"
#include "psctl/plan/plan_command.h"
#include "psctl/plan/profile_command.h"
#include "psctl/plan/replay_command.h"
#include "psctl/plan/simulate_command.h"
#include "psctl/plan/tune_command.h"
#include "psctl/runs/attach_command.h"
#include "psctl/runs/check_command.h"
#include "psctl/runs/checkpoint_command.h"
#include "psctl/runs/fleet_command.h"
#include "psctl/runs/mode_command.h"
#include "psctl/runs/model_command.h"
#include "psctl/runs/runs_command.h"
#include "psctl/runs/top_command.h"
#include "run/resume.h"
#include "run/train.h"

namespace ps::psctl {

struct StatusCommand {
  std::string job;  // empty: every running job
  bool is_json = false;
};

struct WhyCommand {
  std::string job;  // empty: the only running job
};

struct StopCommand {
  std::string job;  // empty: the only running job
  bool is_immediate = false;
};

/// help, completion, --help, --version: a text for stdout, and that is all.
struct PrintCommand {
  std::string text;
};

using Command = std::variant<
    TrainCommand,
    CheckCommand,
    ModelCommand,
    RunsCommand,
    StatusCommand,
    WhyCommand,
    StopCommand,
    TopCommand,
    EventsCommand,
    ReplayCommand,
    ForecastCommand,
    SimulateCommand,
    PauseCommand,
    ModeCommand,
    NoticeCommand,
    DrainCommand,
    ScaleCommand,
    AttachCommand,
    ResumeCommand,
    CatalogShowCommand,
    CatalogCheckCommand,
    CatalogImportCommand,
    CheckpointCommand,
    PlanCommand,
    PredictCommand,
    ProfileCommand,
    TuneCommand,
    PrintCommand>;

/// `arguments` without the program's name. Errors: kInvalidArgument with one line for the user,
/// that says what is wrong and, for a mistyped name, the nearest one.
Result<Command> ParseCommandLine(const std::vector<std::string>& arguments);

}  // namespace ps::psctl
