#include "worker/data/text/text_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ps/base/random.h"

namespace ps::worker::test {
namespace {

using testing::HasSubstr;

const Bpe& Golden() {
  static const Bpe bpe = Bpe::Load("tests/data/bpe").value();
  return bpe;
}

/// Words, numbers, signs and all kinds of white space, some of them beyond ASCII.
std::string TextOf(uint64_t seed, size_t bytes) {
  static constexpr std::string_view kParts[] = {
      "we've",
      "Round",
      " ",
      "  ",
      "\n",
      "\n\n",
      "\t",
      " \n ",
      "42",
      "3.5",
      "--",
      "!'s",
      "\u00e9t\u00e9",
      "\u00a0",
      "\u2003",
      "\u4f60\u597d",
      "'ll",
      "the",
      "of",
      "x"};
  std::string text;
  Random random(seed);
  while (text.size() < bytes) {
    text += kParts[random.Below(std::size(kParts))];
  }
  return text;
}

Status Encode(const std::string& text, std::vector<uint32_t>* tokens, LoadProgress* progress) {
  return EncodeText(text, "a.txt", Golden(), progress, [&](std::span<const uint32_t> more) {
    tokens->insert(tokens->end(), more.begin(), more.end());
    return Status::Ok();
  });
}

TEST(TextEncoderTest, ThreadsMakeTheTokensThatOneMakes) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{2'200'000}}) {
    const std::string text = TextOf(bytes, bytes);
    std::vector<uint32_t> tokens;
    LoadProgress progress;
    progress.Expect(text.size());
    ASSERT_TRUE(Encode(text, &tokens, &progress).ok());
    EXPECT_EQ(progress.share(), text.empty() ? 0 : 1);
    std::vector<uint32_t> expected;
    Bpe(Golden()).Encode(text, &expected);
    EXPECT_TRUE(tokens == expected) << bytes;  // not EQ, which would print millions
  }
}

TEST(TextEncoderTest, ATextWithoutWhiteSpaceIsOneBlock) {
  std::string text(1'200'000, 'a');
  text[1'100'000] = 'b';
  std::vector<uint32_t> tokens;
  LoadProgress progress;
  ASSERT_TRUE(Encode(text, &tokens, &progress).ok());
  std::vector<uint32_t> expected;
  Bpe(Golden()).Encode(text, &expected);
  EXPECT_TRUE(tokens == expected);
}

TEST(TextEncoderTest, AnErrorNamesTheByteOfTheFile) {
  std::string text = TextOf(7, 1'800'000);
  const size_t at = text.find("the", 1'500'000);
  text[at] = '\xff';
  std::vector<uint32_t> tokens;
  LoadProgress progress;
  const Status status = Encode(text, &tokens, &progress);
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("a.txt: byte " + std::to_string(at) + ": 0xff is not UTF-8"));
}

TEST(TextEncoderTest, ASinkThatFailsEndsItAndSoDoesWhoeverCancels) {
  const std::string text = TextOf(3, 1'800'000);
  LoadProgress progress;
  const Status status =
      EncodeText(text, "a.txt", Golden(), &progress, [](std::span<const uint32_t> /*tokens*/) {
        return Status::Unavailable("full");
      });
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  progress.Cancel();
  std::vector<uint32_t> tokens;
  EXPECT_EQ(Encode(text, &tokens, &progress).code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace ps::worker::test
