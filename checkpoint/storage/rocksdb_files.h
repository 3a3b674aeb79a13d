#pragma once

#include <string>

#include "ps/base/status.h"

namespace ps::checkpoint {

/// Makes `target` a database with all that was on the disk of the one in `directory`, beside
/// whoever writes to it: its tables and large values by hard links, so both have to be on one file
/// system, and the little rest as copies. Requires: `target` is not there, its parent is. Errors:
/// kNotFound when there is no database; kUnavailable when the writer removed files again and
/// again; kIo.
Status LinkDatabase(const std::string& directory, const std::string& target);

}  // namespace ps::checkpoint
