#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ps/base/unique_fd.h"

namespace ps::fuzz {

/// A file in memory, for parsers that take a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const uint8_t> bytes);

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  UniqueFd fd_;
};

}  // namespace ps::fuzz
