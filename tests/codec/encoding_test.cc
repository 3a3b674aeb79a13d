#include "ps/codec/encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codec/encodings.h"

namespace ps::codec {
namespace {

using testing::HasSubstr;

std::string ErrorOf(std::string_view text) {
  const Result<Encoding> encoding = ParseEncoding(text);
  return encoding.ok() ? "" : std::string(encoding.status().message());
}

TEST(EncodingTest, TextsAreReadAsTheyArePrinted) {
  for (const Encoding& encoding : AllEncodings()) {
    const auto again = ParseEncoding(encoding.ToText());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, encoding);
    EXPECT_TRUE(CheckEncoding(encoding).ok());
  }
  EXPECT_EQ(ParseEncoding("topk:0.01")->share, 10'000U);
  EXPECT_EQ(ParseEncoding("topk:0.5")->share, 500'000U);
  EXPECT_EQ((Encoding{EncodingKind::kTopk, 10'000}).ToText(), "topk:0.01");
}

TEST(EncodingTest, ErrorsSayWhatIsMeant) {
  EXPECT_THAT(ErrorOf("int9"), HasSubstr("did you mean int8?"));
  EXPECT_THAT(ErrorOf("b16"), HasSubstr("did you mean bf16?"));
  EXPECT_THAT(ErrorOf("zzzzz"), HasSubstr("f32, bf16, int8, int4, topk:0.01"));
  EXPECT_THAT(ErrorOf("topk"), HasSubstr("topk:0.01"));
  EXPECT_THAT(ErrorOf("int8:0.1"), HasSubstr("nothing after its name"));
  for (const char* share :
       {"0", "-0.1", "0.500001", "1", "nan", "inf", "", "0.1x", "1e-7", "0.0000015"}) {
    EXPECT_THAT(ErrorOf(std::string("topk:") + share), HasSubstr("up to 0.5")) << share;
  }
}

TEST(EncodingTest, NothingHasNoBytesAndNoNameInAJob) {
  const Encoding nothing{EncodingKind::kNothing};
  EXPECT_TRUE(CheckEncoding(nothing).ok());
  EXPECT_FALSE(ParseEncoding(nothing.ToText()).ok());
  const std::vector<float> values = {1, -2, std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> residual = {0.5F, 0.5F, 0.5F};
  const std::vector<std::byte> bytes = Encoded(nothing, values, residual);
  EXPECT_TRUE(bytes.empty());
  EXPECT_THAT(residual, testing::Each(0.5F));
  std::vector<float> decoded(3, 7);
  ASSERT_TRUE(Decode(nothing, bytes, decoded).ok());
  EXPECT_THAT(decoded, testing::Each(0.0F));
  EXPECT_FALSE(Decode(nothing, std::vector<std::byte>(4), decoded).ok());
}

TEST(EncodingTest, AShareBelongsToTopkAlone) {
  EXPECT_FALSE(CheckEncoding({EncodingKind::kInt8, 1}).ok());
  EXPECT_FALSE(CheckEncoding({EncodingKind::kTopk, 0}).ok());
  EXPECT_FALSE(CheckEncoding({EncodingKind::kTopk, Encoding::kShareMax + 1}).ok());
  EXPECT_FALSE(CheckEncoding({static_cast<EncodingKind>(6), 0}).ok());
}

}  // namespace
}  // namespace ps::codec
