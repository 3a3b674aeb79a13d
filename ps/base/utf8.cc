#include "ps/base/utf8.h"

#include <algorithm>
#include <span>

namespace ps {
namespace {

struct CharacterRange {
  char32_t first;
  char32_t last;
};

// Ascending. Line and paragraph separators, marks and overrides of direction, fillers, tags, and
// what Unicode says is no character.
constexpr CharacterRange kHidden[] = {
    {0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},     {0x34f, 0x34f},   {0x61c, 0x61c},
    {0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180b, 0x180f}, {0x200b, 0x200b}, {0x200e, 0x200f},
    {0x2028, 0x202e},   {0x2060, 0x206f},   {0x3164, 0x3164}, {0xd800, 0xdfff}, {0xfdd0, 0xfdef},
    {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0x1bca0, 0x1bca3},
    {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
};

// Two columns.
constexpr CharacterRange kWide[] = {
    {0x1100, 0x115e},   {0x231a, 0x231b},   {0x23e9, 0x23ec},   {0x2614, 0x2615},
    {0x2e80, 0x303e},   {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0xa4cf},
    {0xa960, 0xa97c},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe10, 0xfe19},
    {0xfe30, 0xfe6f},   {0xff01, 0xff60},   {0xffe0, 0xffe6},   {0x16fe0, 0x18cff},
    {0x1b000, 0x1b2ff}, {0x1f18e, 0x1f19a}, {0x1f200, 0x1f320}, {0x1f32d, 0x1f64f},
    {0x1f680, 0x1f6ff}, {0x1f7e0, 0x1f7eb}, {0x1f90c, 0x1faff}, {0x20000, 0x3fffd},
};

// No column: they join the character before.
constexpr CharacterRange kCombining[] = {
    {0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},   {0x64b, 0x65f},
    {0x6d6, 0x6dc},   {0x900, 0x902},   {0x93c, 0x93c},   {0x941, 0x948},   {0x94d, 0x94d},
    {0xe31, 0xe31},   {0xe34, 0xe3a},   {0xe47, 0xe4e},   {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},
    {0x200c, 0x200d}, {0x20d0, 0x20f0}, {0x3099, 0x309a}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
};

bool IsIn(std::span<const CharacterRange> ranges, char32_t character) {
  const auto range = std::ranges::lower_bound(ranges, character, {}, &CharacterRange::last);
  return range != ranges.end() && range->first <= character;
}

/// Bytes and columns of the character at the front, or of a byte that begins none.
struct Front {
  size_t bytes;
  size_t columns;
};

Front FrontOf(std::string_view text) {
  const size_t bytes = Utf8Bytes(text);
  if (bytes <= 1) {
    return {1, 1};
  }
  const char32_t character = Utf8Character(text);
  return {bytes, IsIn(kCombining, character) ? 0U : IsIn(kWide, character) ? 2U : 1U};
}

}  // namespace

char32_t Utf8Character(std::string_view text) {
  constexpr unsigned char kLeadBits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  const size_t bytes = Utf8Bytes(text);
  char32_t character = static_cast<unsigned char>(text[0]) & kLeadBits[bytes];
  for (size_t i = 1; i < bytes; ++i) {
    character = character << 6U | (static_cast<unsigned char>(text[i]) & 0x3fU);
  }
  return character;
}

bool IsShown(char32_t character) {
  constexpr char32_t kNone = 0xfffe;  // the last two of each plane
  return (character & kNone) != kNone && !IsIn(kHidden, character);
}

size_t TextWidth(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const Front front = FrontOf(text);
    width += front.columns;
    text.remove_prefix(front.bytes);
  }
  return width;
}

std::string_view FrontOfWidth(std::string_view text, size_t width) {
  size_t bytes = 0;
  for (size_t columns = 0; bytes < text.size();) {
    const Front front = FrontOf(text.substr(bytes));
    columns += front.columns;
    if (columns > width) {
      break;
    }
    bytes += front.bytes;
  }
  return text.substr(0, bytes);
}

}  // namespace ps
