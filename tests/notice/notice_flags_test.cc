// What ps_server and ps_worker are told of notices on their command lines.

#include "ps/notice/notice_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ps::notice {
namespace {

using testing::HasSubstr;

Result<NoticeOptions> Read(std::vector<std::string> words) {
  words.insert(words.begin(), "program");
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  Manual manual;
  manual.sections.push_back({"Flags", "", "", NoticeFlags(), {}});
  PS_ASSIGN(const Flags flags, Flags::Parse(static_cast<int>(argv.size()), argv.data(), manual));
  return ReadNoticeFlags(flags);
}

TEST(NoticeFlagsTest, NobodyIsAskedAndSigtermLeavesFiveSecondsUnlessSomebodySaysSo) {
  const Result<NoticeOptions> options = Read({});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->service, proto::NoticeService::kNone);
  EXPECT_EQ(options->file, "");
  EXPECT_EQ(options->term_grace, std::chrono::seconds(5));
}

TEST(NoticeFlagsTest, SigtermLeavesWhatTheFlagSays) {
  const auto grace_of = [](const std::string& text) {
    return Read({"--term-grace-s", text}).value().term_grace;
  };
  EXPECT_EQ(grace_of("0"), Duration::zero());
  EXPECT_EQ(grace_of("120"), std::chrono::minutes(2));
  EXPECT_EQ(grace_of("3600"), std::chrono::hours(1));
  for (const char* const wrong : {"3601", "-1", "5s", ""}) {
    const Result<NoticeOptions> options = Read({"--term-grace-s", wrong});
    ASSERT_FALSE(options.ok()) << wrong;
    EXPECT_THAT(std::string(options.status().message()), HasSubstr("--term-grace-s")) << wrong;
  }
}

TEST(NoticeFlagsTest, AProviderIsOneOfThoseThatThereAre) {
  const Result<NoticeOptions> options =
      Read({"--notices", "azure", "--metadata-url", "http://there", "--notice-file", "f"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->service, proto::NoticeService::kAzure);
  EXPECT_EQ(options->url, "http://there");
  EXPECT_EQ(options->file, "f");
  EXPECT_THAT(
      std::string(Read({"--notices", "aws"}).status().message()),
      HasSubstr("--notices is 'aws'; allowed: none, ec2, gcp, azure"));
}

}  // namespace
}  // namespace ps::notice
