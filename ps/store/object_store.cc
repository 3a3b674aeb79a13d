#include "ps/store/object_store.h"

#include <fmt/core.h>

#include <algorithm>

namespace ps::store {

Status CheckObjectKey(std::string_view key) {
  const bool is_fine =
      !key.empty() && key.size() <= 255 && !key.starts_with('/') && !key.ends_with('/') &&
      key.find("//") == std::string_view::npos && std::all_of(key.begin(), key.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '/' || c == '-';
      });
  if (!is_fine) {
    return Status::InvalidArgument(fmt::format("\"{}\" is no name of an object", key));
  }
  return Status::Ok();
}

}  // namespace ps::store
