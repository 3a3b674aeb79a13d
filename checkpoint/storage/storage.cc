#include "checkpoint/storage/storage.h"

#include <fmt/core.h>

namespace ps::checkpoint {

Status CheckKey(std::string_view key) {
  if (key.size() > kKeyBytesMax) {
    return Status::InvalidArgument(
        fmt::format("a key of {} bytes; at most {} are possible", key.size(), kKeyBytesMax));
  }
  return Status::Ok();
}

}  // namespace ps::checkpoint
