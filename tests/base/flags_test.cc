#include "ps/base/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace ps {
namespace {

using ::testing::HasSubstr;

Result<Flags> Parse(std::vector<const char*> words) {
  words.insert(words.begin(), "program");
  return Flags::Parse(static_cast<int>(words.size()), words.data(), {"seat", "file"});
}

TEST(FlagsTest, BothWaysOfWritingAValueWork) {
  const auto flags = Parse({"--seat", "3", "--file=a=b"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->Number("seat", 0, 10).value(), 3U);
  EXPECT_EQ(flags->Text("file").value(), "a=b");
  EXPECT_EQ(flags->TextOr("other", "x"), "x");
}

TEST(FlagsTest, MisuseIsNamed) {
  EXPECT_THAT(std::string(Parse({"--seta", "3"}).status().message()), HasSubstr("--seta"));
  EXPECT_THAT(std::string(Parse({"--seat"}).status().message()), HasSubstr("needs a value"));
  EXPECT_THAT(std::string(Parse({"seat"}).status().message()), HasSubstr("no flag"));
  EXPECT_THAT(std::string(Parse({"--seat=1", "--seat=2"}).status().message()), HasSubstr("twice"));
}

TEST(FlagsTest, NumbersAreWholeAndInRange) {
  for (const char* bad : {"-1", "11", "1x", "", "1.5", "99999999999999999999"}) {
    const auto flags = Parse({"--seat", bad});
    ASSERT_TRUE(flags.ok());
    EXPECT_FALSE(flags->Number("seat", 0, 10).ok()) << bad;
  }
  EXPECT_EQ(Parse({})->Number("seat", 0, 10).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ps
