#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ps/base/status.h"
#include "psctl/attach_command.h"
#include "psctl/catalog_command.h"
#include "psctl/check_command.h"
#include "psctl/checkpoint_command.h"
#include "psctl/fleet_command.h"
#include "psctl/forecast_command.h"
#include "psctl/mode_command.h"
#include "psctl/model_command.h"
#include "psctl/plan_command.h"
#include "psctl/profile_command.h"
#include "psctl/replay_command.h"
#include "psctl/resume.h"
#include "psctl/runs_command.h"
#include "psctl/simulate_command.h"
#include "psctl/top_command.h"
#include "psctl/train.h"
#include "psctl/tune_command.h"

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
