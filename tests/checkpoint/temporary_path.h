#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "ps/base/check.h"

namespace ps::checkpoint {

/// A folder that goes with its owner. In memory where the machine has such a place: these tests
/// sync often.
class TemporaryPath {
 public:
  TemporaryPath() {
    const std::string memory = "/dev/shm";
    path_ =
        (std::filesystem::is_directory(memory) ? memory
                                               : std::filesystem::temp_directory_path().string()) +
        "/checkpoint-XXXXXX";
    PS_CHECK(::mkdtemp(path_.data()) != nullptr) << path_;
  }

  TemporaryPath(const TemporaryPath&) = delete;
  TemporaryPath& operator=(const TemporaryPath&) = delete;

  ~TemporaryPath() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace ps::checkpoint
