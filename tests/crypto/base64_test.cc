#include "ps/crypto/base64.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>

namespace ps::crypto {
namespace {

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Base64Test, TheExamplesOfTheStandardComeOut) {
  EXPECT_EQ(Base64Of(BytesOf("")), "");
  EXPECT_EQ(Base64Of(BytesOf("f")), "Zg==");
  EXPECT_EQ(Base64Of(BytesOf("fo")), "Zm8=");
  EXPECT_EQ(Base64Of(BytesOf("foobar")), "Zm9vYmFy");
}

TEST(Base64Test, InAUrlThereIsNothingToEncode) {
  EXPECT_EQ(Base64Of(BytesOf("\xfb\xff\xfe\x01")), "+//+AQ==");
  EXPECT_EQ(Base64UrlOf(BytesOf("\xfb\xff\xfe\x01")), "-__-AQ");
  EXPECT_EQ(Base64UrlOf(BytesOf("")), "");
}

}  // namespace
}  // namespace ps::crypto
