#pragma once

#include <string_view>

namespace ps::run {

/// A file of assets/, which the build has put into the program.
struct PageFile {
  std::string_view path;  // at which it is served
  const char* type;
  std::string_view text;
};

extern const PageFile kPageFiles[3];

}  // namespace ps::run
