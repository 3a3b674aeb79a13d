#pragma once

#include <string>

namespace ps::proto {

/// The reference of the job file in Markdown: committed as docs/config.md.
std::string JobManual();

}  // namespace ps::proto
