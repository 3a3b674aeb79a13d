#pragma once

#include <string>

#include "ps/base/status.h"

namespace ps::checkpoint {

/// A folder in a checkpoint path for hard links to its files: they stay readable while the run
/// removes the files themselves. It goes with its owner.
class Links {
 public:
  /// Removes what processes that are gone have left. Errors: kIo.
  static Result<Links> Create(const std::string& path);

  Links(Links&& other) noexcept;
  Links& operator=(Links&&) = delete;
  ~Links();

  const std::string& path() const { return path_; }

 private:
  explicit Links(std::string path);

  std::string path_;  // empty: moved from
};

}  // namespace ps::checkpoint
