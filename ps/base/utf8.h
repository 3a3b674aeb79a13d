#pragma once

#include <cstddef>
#include <string_view>

namespace ps {

/// Whether a byte goes on with a character that an earlier byte began.
inline bool IsUtf8Continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
}

/// Bytes of the UTF-8 character at the front of `text`, 0 when there is no valid one (RFC 3629).
/// Requires: text is not empty.
inline size_t Utf8Bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t n = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (n == 0 || lead > 0xf4 || n > text.size()) {
    return 0;
  }
  for (size_t i = 1; i < n; ++i) {
    if (!IsUtf8Continuation(text[i])) {
      return 0;
    }
  }
  const auto second = static_cast<unsigned char>(n > 1 ? text[1] : 0);
  const bool is_bad = (lead == 0xe0 && second < 0xa0) || (lead == 0xed && second >= 0xa0) ||
                      (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second >= 0x90);
  return is_bad ? 0 : n;
}

/// The character at the front of `text`. Requires: Utf8Bytes(text) is not 0.
char32_t Utf8Character(std::string_view text);

/// Whether a terminal shows it without harm: no control character, nothing that is invisible or
/// changes the direction of what is around it. Joiners of scripts and of emoji pass.
bool IsShown(char32_t character);

/// Columns that a text takes on a terminal: two for a character of East Asia, none for an accent
/// that stands above the one before, one for a byte that is no UTF-8. Terminals differ in newer
/// characters.
size_t TextWidth(std::string_view text);

/// The front of `text` that takes at most `width` columns, whole characters of it.
std::string_view FrontOfWidth(std::string_view text, size_t width);

}  // namespace ps
