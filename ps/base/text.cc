#include "ps/base/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "ps/base/utf8.h"

namespace ps {
std::string FormatCount(uint64_t n) {
  const std::string digits = std::to_string(n);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) {
      out += ',';
    }
    out += digits[i];
  }
  return out;
}

std::string FormatFixed(double value, int decimals) {
  if (std::isnan(value)) {
    return "nan";  // its sign means nothing
  }
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", decimals, value);
  return text;
}

std::string FormatUsd(double usd) {
  static constexpr int kDecimalsMax = 6;  // smaller amounts are not of interest
  int decimals = 2;
  for (double least = 0.0995; std::abs(usd) < least && decimals < kDecimalsMax; least /= 10) {
    ++decimals;
  }
  return FormatFixed(usd, std::abs(usd) < 0.5e-6 ? 2 : decimals);
}

std::string FormatRate(double per_s) {
  if (!std::isfinite(per_s) || per_s < 0) {
    return "?";
  }
  if (per_s >= 99.95) {
    return FormatCount(static_cast<uint64_t>(std::min(per_s + 0.5, 1e18)));
  }
  if (per_s > 0 && per_s < 0.0995) {
    return fmt::format("{:.2g}", per_s);
  }
  return FormatFixed(per_s, per_s < 9.995 ? 2 : 1);
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) {
    return fmt::format("{} B", bytes);
  }
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  static constexpr std::string_view kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  value /= 1024;
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return FormatFixed(value, 1) + " " + std::string(kUnits[unit]);
}

std::string FormatDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) {
    return "?";
  }
  if (seconds < 59.95) {
    return FormatFixed(seconds, seconds < 9.995 ? 2 : 1) + " s";
  }
  const auto total = static_cast<int64_t>(std::min(seconds + 0.5, 1e15));
  const auto pair = [](int64_t large, const char* large_unit, int64_t small, const char* unit) {
    char text[64];
    std::snprintf(
        text,
        sizeof(text),
        "%lld%s %02lld%s",
        static_cast<long long>(large),
        large_unit,
        static_cast<long long>(small),
        unit);
    return std::string(text);
  };
  if (total < 3600) {
    return pair(total / 60, "m", total % 60, "s");
  }
  if (total < 86400) {
    return pair(total / 3600, "h", total / 60 % 60, "m");
  }
  return pair(total / 86400, "d", total / 3600 % 24, "h");
}

std::string FormatPercent(double fraction, int decimals) {
  return FormatFixed(fraction * 100, decimals) + " %";
}

std::string Plural(uint64_t n, std::string_view noun) {
  return FormatCount(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

std::string Clip(std::string_view text, size_t width) {
  constexpr size_t kBytesPerColumn = 4;  // accents on one character may go on for ever
  if (text.size() <= width) {
    return std::string(text);
  }
  const std::string_view whole = FrontOfWidth(text, width);
  if (whole.size() == text.size() && text.size() <= kBytesPerColumn * width) {
    return std::string(text);
  }
  if (width == 0) {
    return "";
  }
  std::string_view front = FrontOfWidth(text, width - 1);
  front = front.substr(0, kBytesPerColumn * (width - 1));
  while (front.size() < text.size() && !front.empty() && IsUtf8Continuation(text[front.size()])) {
    front.remove_suffix(1);
  }
  return std::string(front) + "~";
}

std::string Printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t bytes = Utf8Bytes(text);
    if (bytes == 0 || !IsShown(Utf8Character(text))) {
      out += '?';
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return out;
}

std::string XmlText(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

size_t TypingErrorsMax(size_t length) {
  return length < 5 ? 1 : length < 9 ? 2 : 3;
}

}  // namespace ps
