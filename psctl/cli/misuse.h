#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "psctl/cli/command.h"

namespace ps::psctl {

// What was typed wrongly, said in one line: kInvalidArgument.

/// Mistyped commands and flags, looked for before CLI11 does, whose messages suggest no name.
Status CheckNames(const CLI::App& app, const std::vector<std::string>& arguments);

Status CheckIsCommandOf(const CLI::App& scope, const std::string& name);

/// CLI11's messages, as one line without its own punctuation.
Status MisuseOf(const CLI::ParseError& error, const CLI::App& app, Commands commands);

/// "train", "catalog show"
std::string FullName(const CLI::App& app);

}  // namespace ps::psctl
