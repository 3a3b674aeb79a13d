#pragma once

#include <memory>
#include <string>

#include "checkpoint/storage.h"

namespace ps::checkpoint {

/// The mark in the file at `path`, which is created with its parent's entry synced. Errors: kIo.
Result<std::unique_ptr<Mark>> OpenFileMark(const std::string& path);

}  // namespace ps::checkpoint
