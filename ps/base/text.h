#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ps {

// Numbers and names as people read them. None has control characters; numbers are plain ASCII.

/// "1,234,567".
std::string FormatCount(uint64_t n);
/// "0.0042", "0.71", "12.3", "2,431": two digits below a tenth, else three or more.
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

/// "a, b, c", of a range of strings or string views.
template <typename Names>
std::string Join(const Names& names) {
  std::string text;
  for (const std::string_view name : names) {
    text += (text.empty() ? "" : ", ");
    text += name;
  }
  return text;
}

/// At most `width` columns of a terminal; the last is '~' when something was cut.
std::string Clip(std::string_view text, size_t width);

/// What is no UTF-8, a control character, invisible or a mark of direction becomes '?', so that a
/// terminal shows the rest without harm. For names that come from files and other processes.
std::string Printable(std::string_view text);

/// As text or an attribute of an XML file.
std::string XmlText(std::string_view text);

/// Levenshtein's distance, with swapped neighbours counted once (optimal string alignment).
size_t EditDistance(std::string_view a, std::string_view b);

/// How many edits still make a typing error of a name: one in short names, two from five letters
/// on, three from nine on.
size_t TypingErrorsMax(size_t length);

/// The candidate that is fewest edits away, when they may be typing errors; else empty. Of a range
/// of strings or string views. Names beyond 64 letters resemble nothing.
template <typename Names>
std::string NearestName(std::string_view name, const Names& candidates) {
  constexpr size_t kLengthMax = 64;
  std::string nearest;
  size_t best = TypingErrorsMax(name.size()) + 1;
  for (const std::string_view candidate : candidates) {
    const size_t distance = name.size() > kLengthMax ? best : EditDistance(name, candidate);
    if (distance < best && distance < candidate.size()) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace ps
