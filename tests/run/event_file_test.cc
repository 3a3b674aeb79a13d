#include "run/event_file.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace ps::run {
namespace {

std::string Hex(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    char text[3];
    std::snprintf(text, sizeof(text), "%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    out += text;
  }
  return out;
}

// The expected bytes were read by TensorBoard 2.21's own EventFileLoader, which gave back the wall
// time, steps, tags and values below.

TEST(EventFileTest, TheFirstRecordNamesTheVersion) {
  EXPECT_EQ(
      Hex(EncodeEventVersion(1706702400.25)),
      "1800000000000000a37f4b2209000010908d6ed9411a0d627261696e2e4576656e743a32b07cd64a");
}

TEST(EventFileTest, AStepsScalarsAreOneRecord) {
  EXPECT_EQ(
      Hex(EncodeEvent(1706702400.25, 300, {{"train/loss", 0.5F}, {"fleet/workers", 3.0F}})),
      "3700000000000000e7e8ca5909000010908d6ed94110ac022a290a110a0a747261696e2f6c6f7373150000003f"
      "0a140a0d666c6565742f776f726b6572731500004040293ec1fe");
}

TEST(EventFileTest, ALengthOfMoreThanOneByteIsAVarint) {
  const std::string tag(200, 'x');
  const std::string event = EncodeEvent(1, 1, {{tag, 1.0F}});
  EXPECT_NE(event.find(std::string("\x0a\xc8\x01") + tag), std::string::npos);
}

}  // namespace
}  // namespace ps::run
