#pragma once

#include <string>
#include <string_view>

namespace ps::proto {

/// The JSON Schema of "job", "catalog", "profile" or "plan", for editors; empty for another name.
std::string JsonSchemaOf(std::string_view name);

/// The reference of the job file in Markdown: committed as docs/config.md.
std::string JobManual();

}  // namespace ps::proto
