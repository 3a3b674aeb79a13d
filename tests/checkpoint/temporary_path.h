#pragma once

#include "tests/base/temporary_folder.h"

namespace ps::checkpoint {

/// In memory where the machine has such a place: these tests sync often.
class TemporaryPath : public TemporaryFolder {
 public:
  TemporaryPath()
      : TemporaryFolder(
            std::filesystem::is_directory("/dev/shm") ? "/dev/shm"
                                                      : std::filesystem::temp_directory_path()) {}
};

}  // namespace ps::checkpoint
