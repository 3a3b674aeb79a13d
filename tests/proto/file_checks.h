#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <string_view>

#include "ps/base/random.h"
#include "ps/base/status.h"
#include "tests/proto/members.h"

// What the tests of the files that people write have in common.

namespace ps::tests {

/// Why a text was refused.
template <typename T>
std::string ErrorOf(const Result<T>& parsed) {
  return parsed.ok() ? "no error" : std::string(parsed.status().message());
}

/// VisitFields of each type leaves out no member.
template <typename... T>
void ExpectAllMembersVisited() {
  const auto expect = []<typename One>(One value) {
    size_t visited = 0;
    VisitFields(value, [&](const char*, auto&) { ++visited; });
    EXPECT_EQ(visited, MemberCount<One>()) << __PRETTY_FUNCTION__;
  };
  (expect(T()), ...);
}

/// Puts one to three faults into a text: bytes changed, taken out, doubled, JSON's own signs put
/// in.
inline void Damage(std::string& text, Random& random) {
  constexpr std::string_view kBits[] = {
      "{",
      "}",
      "[",
      "]",
      "\"",
      ",",
      ":",
      "0",
      "-",
      "1e9",
      "null",
      "\\u00e4",
      "//",
      "/*",
      "\n",
      "\xff",
      "true",
      "kind"};
  for (uint64_t n = 1 + random.Below(3); n > 0; --n) {
    const size_t at = random.Below(text.size());
    switch (random.Below(4)) {
      case 0:
        text[at] = static_cast<char>(random.Below(256));
        break;
      case 1:
        text.erase(at, random.Below(20));
        break;
      case 2:
        text.insert(at, kBits[random.Below(std::size(kBits))]);
        break;
      default:
        text.insert(at, text.substr(random.Below(text.size()), random.Below(40)));
        break;
    }
    text += ' ';
  }
}

/// Damaged texts are answered with one line that names the file, or with a value that prints and
/// parses back the same. Returns how many were values.
template <typename Parse, typename Print>
size_t ParseDamaged(std::string_view good, int rounds, const Parse& parse, const Print& print) {
  Random random(7);
  size_t valid = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string text(good);
    Damage(text, random);
    const auto value = parse(text, "file.json");
    if (value.ok()) {
      ++valid;
      const auto again = parse(print(*value), "printed.json");
      EXPECT_TRUE(again.ok() && *again == *value) << text;
    } else {
      const std::string message(value.status().message());
      EXPECT_THAT(message, testing::StartsWith("file.json:")) << text;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
    if (testing::Test::HasFailure()) {
      break;
    }
  }
  return valid;
}

}  // namespace ps::tests
