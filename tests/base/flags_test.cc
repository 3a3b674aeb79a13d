#include "ps/process/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace ps {
namespace {

using ::testing::HasSubstr;

using ::testing::StartsWith;

Manual ProgramManual() {
  return {
      "program",
      "does things",
      "--seat N",
      {{"Flags", "", "", {{"--seat", "N", "Where."}, {"--file", "FILE", "What."}}, {}}}};
}

Result<Flags> Parse(std::vector<const char*> words) {
  words.insert(words.begin(), "program");
  return Flags::Parse(static_cast<int>(words.size()), words.data(), ProgramManual());
}

std::string Asked(std::vector<const char*> words) {
  words.insert(words.begin(), "program");
  return Flags::Asked(static_cast<int>(words.size()), words.data(), ProgramManual(), "1.2");
}

TEST(FlagsTest, BothWaysOfWritingAValueWork) {
  const auto flags = Parse({"--seat", "3", "--file=a=b"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->Number("seat", 0, 10).value(), 3U);
  EXPECT_EQ(flags->Text("file").value(), "a=b");
  EXPECT_EQ(flags->TextOr("other", "x"), "x");
}

TEST(FlagsTest, MisuseIsNamed) {
  EXPECT_EQ(Parse({"--seta", "3"}).status().message(), "unknown flag --seta; did you mean --seat?");
  EXPECT_EQ(Parse({"--xyz"}).status().message(), "unknown flag --xyz; try program --help");
  EXPECT_THAT(std::string(Parse({"--seat"}).status().message()), HasSubstr("needs a value"));
  EXPECT_THAT(std::string(Parse({"seat"}).status().message()), HasSubstr("no flag"));
  EXPECT_THAT(std::string(Parse({"--seat=1", "--seat=2"}).status().message()), HasSubstr("twice"));
}

TEST(FlagsTest, HelpManPageAndVersionAreAskedForAnywhere) {
  EXPECT_EQ(
      Asked({"--help"}),
      "program: does things\nUsage: program --seat N\n\nFlags:\n"
      "  --seat N                        Where.\n"
      "  --file FILE                     What.\n");
  EXPECT_EQ(Asked({"--seat", "1", "-h"}), Asked({"--help"}));
  EXPECT_THAT(Asked({"--man"}), StartsWith(".TH PROGRAM 1"));
  EXPECT_EQ(Asked({"--version"}), "program 1.2\n");
  EXPECT_EQ(Asked({"--seat", "1"}), "");
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
