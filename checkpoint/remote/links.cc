#include "checkpoint/remote/links.h"

#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace ps::checkpoint {
namespace {

constexpr std::string_view kPrefix = "links-";

/// Whether the process in "links-1234-5" is gone.
bool IsLeftBehind(std::string_view name) {
  long process = 0;
  name.remove_prefix(kPrefix.size());
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), process);
  std::error_code error;
  return parsed.ec == std::errc() &&
         !std::filesystem::exists(fmt::format("/proc/{}", process), error);
}

}  // namespace

Links::Links(std::string path) : path_(std::move(path)) {}

Links::Links(Links&& other) noexcept : path_(std::exchange(other.path_, {})) {}

Links::~Links() {
  std::error_code error;
  if (!path_.empty()) {
    std::filesystem::remove_all(path_, error);
  }
}

Result<Links> Links::Create(const std::string& path) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(kPrefix) && IsLeftBehind(name)) {
      std::error_code removal;
      std::filesystem::remove_all(it->path(), removal);
    }
  }
  static std::atomic<int> count = 0;
  const std::string made = fmt::format("{}/{}{}-{}", path, kPrefix, ::getpid(), ++count);
  error.clear();
  if (!std::filesystem::create_directory(made, error)) {
    return Status::Io(fmt::format("cannot create {}: {}", made, error.message()));
  }
  return Links(made);
}

}  // namespace ps::checkpoint
