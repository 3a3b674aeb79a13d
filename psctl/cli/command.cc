#include "psctl/cli/command.h"

namespace ps::psctl {

std::string_view LastWord(std::string_view path) {
  const size_t blank = path.rfind(' ');
  return path.substr(blank == std::string_view::npos ? 0 : blank + 1);
}

std::string_view FamilyOf(std::string_view path) {
  const size_t blank = path.rfind(' ');
  return path.substr(0, blank == std::string_view::npos ? 0 : blank);
}

}  // namespace ps::psctl
