#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "psctl/cli/command_text.h"

namespace ps::psctl {

struct CommandParser;

/// The commands as a table, for man page and completion.
CommandText DescribeCommands(const CommandParser& parser);

/// What `psctl help PATH...` prints. Errors: as below, for a command that is not there.
Result<std::string> HelpText(const std::vector<std::string>& path);

/// The man page of psctl, as roff.
std::string ManPage();

// What was typed wrongly, said in one line: kInvalidArgument.

/// Mistyped commands and flags, looked for before CLI11 does, whose messages suggest no name.
Status CheckNames(const CommandParser& parser, const std::vector<std::string>& arguments);

/// `kind` is what `known` names: "sort order".
Status CheckOneOf(
    const std::string& kind, const std::string& name, const std::vector<std::string>& known);

/// CLI11's messages, as one line without its own punctuation.
Status MisuseOf(const CLI::ParseError& error, const CommandParser& parser);

}  // namespace ps::psctl
