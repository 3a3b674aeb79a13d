// What every source of notices has to do, whoever speaks: a provider, a file, a signal.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "ps/base/file.h"
#include "ps/notice/local_sources.h"
#include "ps/notice/metadata.h"
#include "tests/base/temporary_folder.h"
#include "tests/notice/service.h"

namespace ps::notice {
namespace {

using testing::HasSubstr;

constexpr Duration kFileGrace = std::chrono::seconds(45);
constexpr Duration kSignalGrace = std::chrono::seconds(20);

std::string FilePath(const std::string& name) {
  static const TemporaryFolder folder;
  return folder / name;
}

std::unique_ptr<NoticeSource> OfProvider(proto::NoticeService service, const char* machine) {
  NoticeSettings settings;
  settings.url = UrlOf(machine);
  return MakeNoticeSource(service, settings);
}

std::unique_ptr<NoticeSource> OfFile(bool is_end) {
  const std::string path = FilePath(is_end ? "end" : "none");
  if (is_end) {
    WriteFileAtomically(path, "45\n").Ignore("the test would say that there is no notice");
  }
  return std::make_unique<FileSource>(path);
}

std::unique_ptr<NoticeSource> OfSignal(bool is_end) {
  auto source = std::make_unique<SignalSource>(kSignalGrace, &SystemTime());
  if (is_end) {
    source->Note(SIGTERM);
  }
  return source;
}

struct Announcer {
  const char* name;
  std::function<std::unique_ptr<NoticeSource>(bool is_end)> make;  // of a machine that goes, or not
  Duration grace;
};

class EverySource : public testing::TestWithParam<Announcer> {
 protected:
  void SetUp() override { ASSERT_NE(Service().port(), 0) << Service().why(); }

  static std::optional<ProviderNotice> Ask(NoticeSource* source) {
    Result<std::optional<ProviderNotice>> answer = source->Ask();
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *std::move(answer) : std::nullopt;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Notice,
    EverySource,
    testing::Values(
        Announcer{
            "ec2",
            [](bool is_end) {
              return OfProvider(proto::NoticeService::kEc2, is_end ? "ec2-end" : "ec2-calm");
            },
            std::chrono::seconds(120)},
        Announcer{
            "gcp",
            [](bool is_end) {
              return OfProvider(proto::NoticeService::kGcp, is_end ? "gcp-end" : "gcp-calm");
            },
            std::chrono::seconds(30)},
        Announcer{
            "azure",
            [](bool is_end) {
              return OfProvider(proto::NoticeService::kAzure, is_end ? "azure-end" : "azure-calm");
            },
            std::chrono::seconds(30)},
        Announcer{"file", OfFile, kFileGrace},
        Announcer{"signal", OfSignal, kSignalGrace}),
    [](const auto& suite) { return suite.param.name; });

TEST_P(EverySource, SaysNothingOfAMachineThatStays) {
  const auto source = GetParam().make(false);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(Ask(source.get()).has_value());
  }
}

TEST_P(EverySource, SaysHowLongIsLeftAndSaysItAgain) {
  const auto source = GetParam().make(true);
  for (int i = 0; i < 2; ++i) {
    const auto notice = Ask(source.get());
    ASSERT_TRUE(notice.has_value());
    EXPECT_FALSE(notice->is_advice);
    EXPECT_FALSE(notice->what.empty());
    EXPECT_LE(notice->grace, GetParam().grace + std::chrono::seconds(1));
    EXPECT_GE(notice->grace, GetParam().grace - std::chrono::seconds(10));
  }
}

TEST_P(EverySource, HasANameAndAPeriod) {
  const auto source = GetParam().make(false);
  EXPECT_EQ(source->name(), GetParam().name);
  EXPECT_GE(source->period(), Duration::zero());
  EXPECT_LE(source->period(), std::chrono::seconds(5));
}

class FileSourceTest : public testing::Test {
 protected:
  ~FileSourceTest() override {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }

  std::optional<ProviderNotice> After(const std::string& text) {
    EXPECT_TRUE(WriteFileAtomically(path_, text).ok());
    FileSource source(path_);
    const auto answer = source.Ask();
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : std::nullopt;
  }

  const std::string path_ = FilePath("file");
};

TEST_F(FileSourceTest, WhatIsNoNumberOfSecondsIsANoticeThatLeavesNoTime) {
  const std::string long_text(100, '1');
  for (const std::string& text : {"soon", "-3", "5 s", "nan", "inf", "1e", long_text.c_str()}) {
    const auto notice = After(text);
    ASSERT_TRUE(notice.has_value()) << text;
    EXPECT_EQ(notice->grace, kAtOnce) << text;
  }
  EXPECT_THAT(After("a\x1b[2J")->what, HasSubstr("is no number of seconds"));
  EXPECT_EQ(After("a\x1b[2J")->what.find('\x1b'), std::string::npos) << "it is shown to people";
}

TEST_F(FileSourceTest, FractionsCountAndNobodyHasMoreThanADay) {
  EXPECT_EQ(After("0")->grace, Duration::zero());
  EXPECT_EQ(After("2.5\n")->grace, std::chrono::milliseconds(2500));
  EXPECT_EQ(After("1e30")->grace, kGraceMax);
}

TEST_F(FileSourceTest, AnEmptyFileIsANoticeWhenItStaysEmpty) {
  ASSERT_TRUE(WriteFileAtomically(path_, "").ok());
  FileSource source(path_);
  EXPECT_EQ(source.Ask().status().code(), StatusCode::kUnavailable) << "its writer is about to";
  ASSERT_TRUE(WriteFileAtomically(path_, "7").ok());
  EXPECT_EQ(source.Ask().value()->grace, std::chrono::seconds(7));
  ASSERT_TRUE(WriteFileAtomically(path_, "").ok());
  EXPECT_EQ(source.Ask().value()->grace, kAtOnce);
}

TEST_F(FileSourceTest, WhatCantBeReadIsAskedAgain) {
  std::filesystem::create_directory(path_);
  FileSource source(path_);
  EXPECT_FALSE(source.Ask().ok());
  std::filesystem::remove(path_);
  EXPECT_FALSE(source.Ask().value().has_value());
}

class SteppedTime final : public TimeSource {
 public:
  TimePoint Now() const override { return now; }

  int64_t UnixMicros() const override { return 0; }

  TimePoint now{std::chrono::hours(1)};
};

TEST(SignalSourceTest, TheGraceCountsFromTheFirstSignal) {
  SteppedTime time;
  SignalSource source(kSignalGrace, &time);
  source.Note(SIGINT);
  time.now += std::chrono::seconds(5);
  source.Note(SIGTERM);
  EXPECT_EQ(source.Ask().value()->what, "SIGINT");
  EXPECT_EQ(source.Ask().value()->grace, kSignalGrace - std::chrono::seconds(5));
  time.now += std::chrono::hours(1);
  EXPECT_EQ(source.Ask().value()->grace, Duration::zero());
}

}  // namespace
}  // namespace ps::notice
