#include "ps/notice/local_sources.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/notice/metadata.h"

namespace ps::notice {
namespace {

constexpr Duration kFilePeriod = std::chrono::milliseconds(250);
constexpr size_t kFileBytesMax = 64;

/// Nothing: that is no time to be left.
std::optional<Duration> ParseGrace(const std::string& text) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  const bool is_number = end != text.c_str() && *end == '\0' && std::isfinite(seconds);
  if (!is_number || seconds < 0) {
    return std::nullopt;
  }
  return std::min(FromSeconds(seconds), kGraceMax);
}

}  // namespace

Duration FileSource::period() const {
  return kFilePeriod;
}

Result<std::optional<ProviderNotice>> FileSource::Ask() {
  const Result<std::string> text = ReadSmallFile(path_, kFileBytesMax);
  if (!text.ok()) {
    if (text.status().code() == StatusCode::kNotFound) {
      is_empty_ = false;
      return std::optional<ProviderNotice>();
    }
    if (text.status().code() != StatusCode::kInvalidArgument) {
      return text.status();
    }
    return std::optional(ProviderNotice{"notice file, which is too long", kAtOnce, false});
  }
  if (text->empty() && !std::exchange(is_empty_, true)) {
    return Status::Unavailable(fmt::format("{} is empty so far", path_));
  }
  const std::optional<Duration> grace = ParseGrace(*text);
  if (!grace) {
    return std::optional(ProviderNotice{
        fmt::format("notice file, whose '{}' is no number of seconds", Printable(*text)),
        kAtOnce,
        false});
  }
  return std::optional(ProviderNotice{"notice file", *grace, false});
}

void SignalSource::Note(int signal) {
  const std::lock_guard lock(mutex_);
  if (signal_ == 0) {
    signal_ = signal;
    came_ = time_->Now();
  }
}

Result<std::optional<ProviderNotice>> SignalSource::Ask() {
  const std::lock_guard lock(mutex_);
  if (signal_ == 0) {
    return std::optional<ProviderNotice>();
  }
  const Duration left = std::max(Duration::zero(), grace_ - (time_->Now() - came_));
  return std::optional(ProviderNotice{
      signal_ == SIGTERM  ? "SIGTERM"
      : signal_ == SIGINT ? "SIGINT"
                          : fmt::format("signal {}", signal_),
      left,
      false});
}

}  // namespace ps::notice
