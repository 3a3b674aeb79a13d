#pragma once

#include <string>

#include "ps/base/file.h"

namespace ps::psctl {

/// The expected text of tests/psctl/golden; tests run in the repository root.
inline std::string Golden(const std::string& name) {
  const Result<std::string> text = ReadFile("tests/psctl/golden/" + name);
  return text.ok() ? *text : text.status().ToString();
}

}  // namespace ps::psctl
