#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ps::psctl {

// Numbers as people read them. All are plain ASCII and contain no control characters.

/// "1,234,567".
std::string FormatCount(uint64_t n);
/// "0.71", "12.3", "2,431": three digits or more.
std::string FormatRate(double per_s);
/// "312 B", "1.5 KiB", "12.3 MiB", "1,024 GiB".
std::string FormatBytes(uint64_t bytes);
/// "0.42 s", "12.3 s", "1m 05s", "2h 07m", "3d 04h"; "?" when negative.
std::string FormatDuration(double seconds);
/// 0.8834 is "88.3 %" with one decimal.
std::string FormatPercent(double fraction, int decimals = 1);
std::string FormatFixed(double value, int decimals);
/// Cents, and of less than 10 cents two digits: "13.45", "0.69", "0.0045".
std::string FormatUsd(double usd);

/// "1 sample", "2 samples".
std::string Plural(uint64_t n, std::string_view noun);

/// "a, b, c".
std::string Join(const std::vector<std::string>& names);

/// At most `width` characters; the last is '~' when something was cut.
std::string Clip(std::string_view text, size_t width);

/// Printable ASCII only: control characters and bytes above 126 become '?'. For names that come
/// from files and other processes.
std::string Printable(std::string_view text);

/// The candidate with the smallest edit distance, when it is close enough to be a typing error.
std::string NearestName(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace ps::psctl
