#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ps::tidy {

/// A command of a CMake file: its name, where it begins, its words without quotes and comments.
struct CMakeCommand {
  std::string name;
  int line = 0;
  std::vector<std::string> words;
};

std::vector<CMakeCommand> ReadCommands(std::string_view text);

/// A target as ps_library, ps_program, ps_test, ps_benchmark, add_library, add_executable or
/// target_link_libraries states it.
struct CMakeTarget {
  std::string name;
  int line = 0;
  bool is_definition = false;  // not only a target_link_libraries
  std::vector<std::string> links;
};

std::vector<CMakeTarget> ReadTargets(std::string_view text);

}  // namespace ps::tidy
