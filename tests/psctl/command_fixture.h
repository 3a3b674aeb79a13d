#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "psctl/commands.h"
#include "tests/base/temporary_folder.h"

namespace ps::psctl {

/// For tests of commands: a folder, and a console that keeps what is said.
class CommandFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    console_.out = [this](std::string_view text) { out_ += text; };
    console_.err = [this](std::string_view text) { err_ += text; };
    console_.err_width = [] { return size_t{80}; };
  }

  /// psctl ARGUMENTS, with runs in root_/runs.
  int Run(const std::vector<std::string>& arguments) {
    out_.clear();
    err_.clear();
    return RunPsctl(arguments, console_, run::RunRegistry(root_ / "links", {root_ / "runs"}));
  }

  TemporaryFolder root_;
  run::Console console_;
  std::string out_;
  std::string err_;
};

}  // namespace ps::psctl
