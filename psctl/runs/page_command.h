#pragma once

#include <string>
#include <vector>

#include "ps/base/status.h"
#include "psctl/cli/command.h"
#include "run/directory/run_directory.h"

namespace ps::psctl {

/// `psctl page`: runs in a browser.
struct PageCommand {
  std::vector<std::string> runs;  // empty: all of this folder, and those that go on elsewhere
  std::string listen = "127.0.0.1";
  bool is_opened = false;  // by the desktop's browser
};

/// The link of the page that a running coordinator serves. Errors: kNotFound.
Result<std::string> LinkOf(const run::RunPaths& run);

extern const Command kPage;

}  // namespace ps::psctl
