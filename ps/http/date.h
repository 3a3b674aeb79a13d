#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ps {

/// Seconds since 1970 UTC of "2017-09-18T08:22:00Z", also with a fraction of a second, or with a
/// distance to UTC ("-07:00"); and of "Mon, 19 Sep 2016 18:29:47 GMT".
std::optional<int64_t> ParseRfc3339(const std::string& text);
std::optional<int64_t> ParseHttpDate(const std::string& text);

/// "2017-09-18T08:22:00Z". Requires: seconds since 1970 of the years 1970 to 9999.
std::string Rfc3339Text(int64_t unix_s);

}  // namespace ps
