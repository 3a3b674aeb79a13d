#pragma once

#include <string>
#include <vector>

#include "ps/base/status.h"
#include "psctl/command_parser.h"

namespace ps::psctl {

// What was typed wrongly, said in one line: kInvalidArgument.

/// Mistyped commands and flags, looked for before CLI11 does, whose messages name no neighbour.
Status CheckNames(const CommandParser& parser, const std::vector<std::string>& arguments);

/// `kind` is what `known` names: "sort order".
Status CheckOneOf(
    const std::string& kind, const std::string& name, const std::vector<std::string>& known);

/// CLI11's messages, as one line without its own punctuation.
Status MisuseOf(const CLI::ParseError& error, const CommandParser& parser);

}  // namespace ps::psctl
