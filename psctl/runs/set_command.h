#pragma once

#include <string>
#include <vector>

#include "ps/proto/messages.h"
#include "psctl/cli/command.h"
#include "run/directory/run_directory.h"
#include "run/report/console.h"

namespace ps::psctl {

/// `psctl set`: what the steps of a running job have from now on.
struct SetCommand {
  std::vector<std::string> words;                // as they were typed
  std::vector<proto::ConfigOverride> changes{};  // of those that are KEY=VALUE
  std::string job{};                             // empty: the only running job
};

/// What words say: "exchange.push=int8", and at most one that names the run, which comes last.
/// Errors: kInvalidArgument, what is allowed.
Status ParseSettings(const std::vector<std::string>& words, SetCommand* command);

extern const Command kSet;

}  // namespace ps::psctl
