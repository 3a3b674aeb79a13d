#pragma once

#include <string>
#include <variant>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job_config.h"
#include "psctl/catalog_command.h"
#include "psctl/plan_command.h"
#include "psctl/profile_command.h"

namespace ps::psctl {

struct TrainCommand {
  std::string job_path;
  std::vector<proto::ConfigOverride> overrides;
  bool is_json = false;
  bool only_prints_config = false;
  std::string plan_path;     // empty: the job's own fleet
  std::string profile_path;  // refined by the run; empty: none but the run directory's
};

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

/// --help, --version: a text for stdout, and that is all.
struct PrintCommand {
  std::string text;
};

using Command = std::variant<
    TrainCommand,
    StatusCommand,
    WhyCommand,
    StopCommand,
    CatalogShowCommand,
    CatalogCheckCommand,
    CatalogImportCommand,
    PlanCommand,
    PredictCommand,
    ProfileCommand,
    PrintCommand>;

/// `arguments` without the program's name. Errors: kInvalidArgument with one line for the user,
/// that says what is wrong and, for a mistyped name, the nearest one.
Result<Command> ParseCommandLine(const std::vector<std::string>& arguments);

}  // namespace ps::psctl
