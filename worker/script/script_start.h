#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "ps/process/flags.h"

// How a program of somebody else's becomes a worker: it is started with these variables in its
// environment, and the library behind spotps.h reads them.

namespace ps::worker {

/// The flags of ps_worker, as a JSON list of texts "--name=value".
inline constexpr char kWorkerVariable[] = "SPOTPS_WORKER";
/// The file to which the program is to describe what it trains, and end then.
inline constexpr char kDescribeVariable[] = "SPOTPS_DESCRIBE";
/// Where the library is, for those who load it.
inline constexpr char kLibraryVariable[] = "SPOTPS_LIBRARY";

/// A JSON list of at least one text, none of them empty. Errors: kInvalidArgument that begins with
/// `what`.
Result<std::vector<std::string>> ParseWords(std::string_view json, const std::string& what);

/// What ParseWords reads.
std::string PrintWords(const std::vector<std::string>& words);

/// libspotps.so of this program's installation or build; empty when there is none.
std::string LibraryPath();

/// Becomes the program, in `directory` if that isn't empty, with ps_worker's `flags` in its
/// environment. `token_file`: the text of the flag's file, which the program gets in memory of its
/// own, since the file may be a pipe. Returns only when it can't. Errors: kInvalidArgument,
/// kNotFound, kIo.
Status StartScript(
    const std::string& program_json,
    const std::string& directory,
    const Flags& flags,
    const std::string& token_file);

}  // namespace ps::worker
