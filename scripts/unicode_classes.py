#!/usr/bin/env python3
"""Prints worker/data/text/unicode_classes.cc: which characters are letters, numbers and white space,
as Python's unicodedata has them (categories L* and N*, property White_Space).

    scripts/unicode_classes.py > worker/data/text/unicode_classes.cc
"""

import sys
import unicodedata

# Category Z* and the control characters that have the property White_Space (UAX #44).
WHITE_CONTROLS = {0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x85}
PER_LINE = 4

HEAD = """#include "worker/data/text/unicode_classes.h"

#include <algorithm>
#include <array>
#include <cstddef>

// Made by scripts/unicode_classes.py from Unicode %s. Do not edit.

namespace ps::worker {
namespace {

struct Range {
  char32_t first;
  char32_t last;
  CharacterClass kind;
};

constexpr CharacterClass kL = CharacterClass::kLetter;
constexpr CharacterClass kN = CharacterClass::kNumber;
constexpr CharacterClass kS = CharacterClass::kSpace;

// Ascending; what is in none is kOther.
// clang-format off
constexpr std::array<Range, %d> kRanges = {{
"""

TAIL = """}};
// clang-format on

constexpr char32_t kAsciiEnd = 128;

CharacterClass Search(char32_t character) {
  const auto* const found = std::lower_bound(
      kRanges.begin(), kRanges.end(), character, [](const Range& range, char32_t value) {
        return range.last < value;
      });
  return found != kRanges.end() && found->first <= character ? found->kind
                                                             : CharacterClass::kOther;
}

std::array<CharacterClass, kAsciiEnd> MakeAscii() {
  std::array<CharacterClass, kAsciiEnd> classes{};
  for (char32_t c = 0; c < kAsciiEnd; ++c) {
    classes[c] = Search(c);
  }
  return classes;
}

}  // namespace

CharacterClass ClassOf(char32_t character) {
  static const std::array<CharacterClass, kAsciiEnd> ascii = MakeAscii();
  return character < kAsciiEnd ? ascii[character] : Search(character);
}

}  // namespace ps::worker
"""


def class_of(code):
    category = unicodedata.category(chr(code))
    if category[0] in "LN":
        return category[0]
    return "S" if category[0] == "Z" or code in WHITE_CONTROLS else None


def main():
    ranges = []
    for code in range(sys.maxunicode + 1):
        kind = class_of(code)
        if ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == kind:
            ranges[-1][1] = code
        elif kind:
            ranges.append([code, code, kind])
    print(HEAD % (unicodedata.unidata_version, len(ranges)), end="")
    for i in range(0, len(ranges), PER_LINE):
        line = ", ".join("{0x%x, 0x%x, k%s}" % tuple(r) for r in ranges[i : i + PER_LINE])
        print("    " + line + ("," if i + PER_LINE < len(ranges) else ""))
    print(TAIL, end="")


if __name__ == "__main__":
    main()
