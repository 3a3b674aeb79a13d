#include "ps/http/date.h"

#include <array>
#include <ctime>

namespace ps {
namespace {

/// Seconds since 1970; empty unless `format` describes the text to its end. strptime takes the
/// names of the C locale, which the program never leaves.
std::optional<int64_t> ParseTime(const std::string& text, const char* format) {
  std::tm time{};
  const char* const end = ::strptime(text.c_str(), format, &time);
  if (end == nullptr || *end != '\0') {
    return std::nullopt;
  }
  return ::timegm(&time);
}

}  // namespace

std::optional<int64_t> ParseRfc3339(const std::string& text) {
  std::string whole = text;
  const size_t point = whole.find('.');
  if (point != std::string::npos) {
    const size_t end = whole.find_first_not_of("0123456789", point + 1);
    whole.erase(point, (end == std::string::npos ? whole.size() : end) - point);
  }
  if (whole.ends_with('Z')) {
    return ParseTime(whole, "%Y-%m-%dT%H:%M:%SZ");
  }
  // glibc's %z takes "-07:00", and leaves it for the caller to subtract.
  std::tm time{};
  const char* const end = ::strptime(whole.c_str(), "%Y-%m-%dT%H:%M:%S%z", &time);
  if (end == nullptr || *end != '\0') {
    return std::nullopt;
  }
  const int64_t distance_s = time.tm_gmtoff;
  return ::timegm(&time) - distance_s;
}

std::optional<int64_t> ParseHttpDate(const std::string& text) {
  return ParseTime(text, "%a, %d %b %Y %H:%M:%S GMT");
}

std::string Rfc3339Text(int64_t unix_s) {
  const std::time_t seconds = unix_s;
  std::tm time{};
  ::gmtime_r(&seconds, &time);
  std::array<char, 32> text{};
  const size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &time);
  return {text.data(), size};
}

}  // namespace ps
