#pragma once

#include <memory>
#include <string>

#include "checkpoint/storage/storage.h"

namespace ps::checkpoint {

/// The mark in the file at `path`, which is created where it is missing. Requires: a path with a
/// directory. Errors: kIo.
Result<std::unique_ptr<Mark>> OpenFileMark(const std::string& path);

}  // namespace ps::checkpoint
