#pragma once

#include <string>

namespace ps::proto {

/// JSON Schema (draft 7) of a job file, for editors: committed as configs/job.schema.json.
std::string JobJsonSchema();

/// The reference of the job file in Markdown: committed as docs/config.md.
std::string JobManual();

}  // namespace ps::proto
