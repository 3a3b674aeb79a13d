#pragma once

#include <CLI/CLI.hpp>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "psctl/cli/arguments.h"
#include "psctl/cli/command.h"

namespace ps::psctl {

/// The commands as CLI11 parses them. Stays where it is: what is parsed goes to its values.
struct Parser {
  explicit Parser(Commands commands);
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  /// Requires: `app` has parsed. Errors: those of Arguments::Finish.
  Result<std::unique_ptr<Invocation>> TakeParsed();

  CLI::App app;

 private:
  struct Entry {
    CLI::App* app;
    Arguments arguments;
    std::unique_ptr<Invocation> invocation;
  };

  std::deque<Entry> entries_;  // of all but families
};

/// "psctl stop mnist    end a job after the steps in hand", of each example; a long one takes two
/// lines.
std::vector<std::string> ExampleLines(const Command& command);

}  // namespace ps::psctl
