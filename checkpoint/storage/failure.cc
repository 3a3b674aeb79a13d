#include "checkpoint/storage/failure.h"

#include <fmt/core.h>

#include <string_view>

namespace ps::checkpoint {
namespace {

// In the text, since a status crosses processes as its code and its text.
constexpr std::string_view kFileMissing = "a file of the database is missing: ";

bool IsFileMissing(const Status& status) {
  return status.message().find(kFileMissing) != std::string_view::npos;
}

}  // namespace

Status FileMissing(StatusCode code, const std::string& text) {
  return {code, fmt::format("{}{}", kFileMissing, text)};
}

bool IsProvedCorrupt(const Status& status) {
  return status.code() == StatusCode::kCorruption && !IsFileMissing(status);
}

bool IsUnusable(const Status& status) {
  return status.code() == StatusCode::kCorruption || status.code() == StatusCode::kUnsupported ||
         IsFileMissing(status);
}

}  // namespace ps::checkpoint
