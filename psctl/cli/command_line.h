#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "psctl/cli/command.h"
#include "psctl/cli/command_text.h"

namespace ps::psctl {

inline constexpr std::string_view kExitCodes =
    "0 done, 1 failed, 2 misused. Results go to stdout, progress and logs to stderr.";

/// The command that was typed, `arguments` being without the program's name; --help and --version
/// are commands that print. Errors: kInvalidArgument with one line for the user, that says what is
/// wrong and, for a mistyped name, the nearest one.
Result<std::unique_ptr<Invocation>> ParseCommandLine(
    Commands commands, const std::vector<std::string>& arguments);

/// What `psctl help PATH...` prints. Errors: kInvalidArgument, for a command that is not there.
Result<std::string> HelpText(Commands commands, const std::vector<std::string>& path);

/// The commands as a table, for man page and completion.
CommandText DescribeCommands(Commands commands);

/// The man page of psctl, as roff.
std::string ManPage(Commands commands);

/// `kind` is what `known` names: "sort order". Errors: kInvalidArgument with the nearest one.
Status CheckOneOf(
    const std::string& kind, const std::string& name, const std::vector<std::string>& known);

}  // namespace ps::psctl
