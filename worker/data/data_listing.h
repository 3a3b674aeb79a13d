#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"

namespace ps::worker {

/// The data files of a folder. A format that takes "every file that is called so" asks here, so
/// that all of them agree on what is no data:
///   - what begins with a point: .DS_Store, the ._ files of macOS, swap files of editors;
///   - what is no file: a folder that is called so;
///   - what tells people of the data: README.txt, LICENSE.txt, SHA256SUMS.txt and the like.
/// Copies of editors and downloads (train.csv~, train.csv.part) end otherwise and are not asked
/// for. A file beside its own packed form is an error, whatever the format: all that is in them
/// would count twice, or one of them is out of date.
struct DataListing {
  std::vector<std::string> paths;     // in the order of their names
  std::vector<std::string> left_out;  // names of those that are called so and tell people of it
};

/// `prefix`*`end` and `prefix`*`end`.gz, where `end` has its point. Empty: there are none. Errors:
/// kIo (the folder can't be listed), kInvalidArgument (a file plain and packed).
Result<DataListing> ListDataFiles(
    const std::string& directory, std::string_view prefix, std::string_view end);

/// `name` or `name`.gz in a folder, for a format whose files have one name each. Errors: kNotFound,
/// kInvalidArgument (plain and packed).
Result<std::string> FindDataFile(const std::string& directory, const std::string& name);

/// The size of a file; 0: it can't be looked at, which is an error when it is read.
uint64_t StoredBytes(const std::string& path);

}  // namespace ps::worker
