#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "ps/base/check.h"

namespace ps {

/// A new folder, removed with all that is in it. Tests run at the same time, also the same test of
/// two builds: a file of a test belongs into one.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(
      const std::filesystem::path& parent = std::filesystem::temp_directory_path())
      : path_((parent / "spotps-XXXXXX").string()) {
    PS_CHECK(::mkdtemp(path_.data()) != nullptr) << path_;
  }

  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  ~TemporaryFolder() {
    std::error_code ignored;  // what is left behind is the parent's business
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace ps
