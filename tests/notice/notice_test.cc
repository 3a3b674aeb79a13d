// The three metadata services as a small real server speaks them, and what others got wrong.

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "ps/notice/metadata.h"
#include "ps/notice/notice_source.h"
#include "ps/notice/notice_watcher.h"
#include "tests/base/temporary_folder.h"
#include "tests/notice/service.h"

namespace ps::notice {
namespace {

using proto::NoticeService;
using testing::HasSubstr;
using testing::Not;

/// Longer than any answer, shorter than the server's silence.
constexpr Duration kAnswerPatience = std::chrono::seconds(2);

/// Stands still until a test moves it.
class ManualTime final : public TimeSource {
 public:
  TimePoint Now() const override { return now_; }

  int64_t UnixMicros() const override { return 0; }

  void Pass(Duration duration) { now_ += duration; }

 private:
  TimePoint now_{std::chrono::hours(1)};
};

class NoticeTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(Service().port(), 0) << Service().why(); }

  static NoticeSettings SettingsOf(const std::string& machine) {
    NoticeSettings settings;
    settings.url = UrlOf(machine);
    settings.patience_max = kAnswerPatience;
    return settings;
  }

  std::unique_ptr<NoticeSource> Source(NoticeService service, const std::string& machine) {
    return MakeNoticeSource(service, SettingsOf(machine));
  }

  /// The first answer that is a notice or nothing, after at most `failures_max` that are neither.
  std::optional<ProviderNotice> FirstAnswer(NoticeSource* source, size_t failures_max) {
    for (failures_ = 0; failures_ <= failures_max; ++failures_) {
      Result<std::optional<ProviderNotice>> answer = source->Ask();
      if (answer.ok()) {
        return *std::move(answer);
      }
      last_failure_ = answer.status();
    }
    ADD_FAILURE() << last_failure_;
    return std::nullopt;
  }

  std::optional<ProviderNotice> Ask(NoticeService service, const std::string& machine) {
    return FirstAnswer(Source(service, machine).get(), 0);
  }

  size_t failures_ = 0;
  Status last_failure_;
};

struct Provider {
  NoticeService service;
  const char* name;
  int grace_s;  // what it announces in these tests
};

/// What each of them has to do.
class EveryProvider : public NoticeTest, public testing::WithParamInterface<Provider> {
 protected:
  std::string Machine(const char* state) const {
    return std::string(GetParam().name) + "-" + state;
  }

  void ExpectEnd(const std::optional<ProviderNotice>& notice) const {
    ASSERT_TRUE(notice.has_value());
    EXPECT_FALSE(notice->is_advice);
    EXPECT_LE(notice->grace, std::chrono::seconds(GetParam().grace_s + 1));
    EXPECT_GE(notice->grace, std::chrono::seconds(GetParam().grace_s - 2));
  }
};

INSTANTIATE_TEST_SUITE_P(
    Notice,
    EveryProvider,
    testing::Values(
        Provider{NoticeService::kEc2, "ec2", 120},
        Provider{NoticeService::kGcp, "gcp", 30},
        Provider{NoticeService::kAzure, "azure", 30}),
    [](const auto& suite) { return suite.param.name; });

/// A second is within what metadata services need when their machine is busy. Others gave up after
/// a tenth of one.
TEST_P(EveryProvider, WaitsForAnAnswerThatIsSlowButRight) {
  const auto source = Source(GetParam().service, Machine("slow"));
  ExpectEnd(FirstAnswer(source.get(), 0));
  EXPECT_EQ(failures_, 0U);
}

/// The clocks of this machine and of the service are two hours apart.
TEST_P(EveryProvider, CountsByTheServicesClock) {
  ExpectEnd(Ask(GetParam().service, Machine("skewed")));
}

/// 500, 401, 403, garbage, nothing, too much, a broken connection, silence: each is an error with a
/// text, and the notice after them is found.
TEST_P(EveryProvider, GoesOnAfterAnyTrouble) {
  const auto source = Source(GetParam().service, Machine("trouble"));
  ExpectEnd(FirstAnswer(source.get(), 9));
  EXPECT_GE(failures_, 8U);
  EXPECT_FALSE(last_failure_.message().empty());
}

/// What is asked before: EC2 for a token, Azure for the machine's own name.
TEST_F(NoticeTest, GoesOnAfterAnyTroubleWithATokenOrAName) {
  const std::pair<NoticeService, const char*> machines[] = {
      {NoticeService::kEc2, "ec2-token"}, {NoticeService::kAzure, "azure-name"}};
  for (const auto& [service, machine] : machines) {
    SCOPED_TRACE(machine);
    NoticeSettings settings = SettingsOf(machine);
    settings.patience_max = std::chrono::milliseconds(500);
    const auto source = MakeNoticeSource(service, settings);
    std::string failures;
    std::optional<ProviderNotice> notice;
    for (int i = 0; i < 20 && !notice; ++i) {
      const auto answer = source->Ask();
      failures += answer.ok() ? "" : answer.status().ToString() + "\n";
      notice = answer.ok() ? *answer : std::nullopt;
      EXPECT_EQ(notice.has_value(), answer.ok()) << "no trouble means that the machine stays";
    }
    EXPECT_TRUE(notice.has_value());
    EXPECT_GE(std::ranges::count(failures, '\n'), 11) << failures;
    const std::string noun = service == NoticeService::kEc2 ? "token" : "name";
    EXPECT_THAT(failures, HasSubstr("answers 500 to /"));
    EXPECT_THAT(failures, HasSubstr("gives an invalid " + noun));
  }
}

TEST_P(EveryProvider, AsksThisMachineAndNoProxy) {
  ASSERT_EQ(::setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
  ExpectEnd(Ask(GetParam().service, Machine("end")));
  ::unsetenv("http_proxy");
}

TEST_P(EveryProvider, FailsWhereNobodyAnswers) {
  NoticeSettings settings = SettingsOf("");
  settings.url = "127.0.0.1:1";
  const auto source = MakeNoticeSource(GetParam().service, settings);
  EXPECT_EQ(source->Ask().status().code(), StatusCode::kUnavailable);
}

TEST_F(NoticeTest, ATokenThatIsWorthNothingAnyMoreIsReplaced) {
  const auto source = Source(NoticeService::kEc2, "ec2-expiring");
  for (int i = 0; i < 6; ++i) {
    const auto answer = source->Ask();
    EXPECT_TRUE(answer.ok()) << answer.status();
  }
}

/// The machine is taken back as soon as a second token has been asked for.
TEST_F(NoticeTest, ATokenIsRenewedBeforeItEnds) {
  ManualTime time;
  NoticeSettings settings = SettingsOf("ec2-renewed");
  settings.time = &time;
  const auto source = MakeNoticeSource(NoticeService::kEc2, settings);
  for (const int minutes : {0, 30, 29}) {
    time.Pass(std::chrono::minutes(minutes));
    EXPECT_FALSE(FirstAnswer(source.get(), 0).has_value()) << "the first token is good";
  }
  time.Pass(std::chrono::seconds(46));
  EXPECT_TRUE(FirstAnswer(source.get(), 0).has_value()) << "14 s before its end";
}

/// Azure's service is switched on by the first question, which takes up to two minutes. Later ones
/// are answered at once, or something is wrong.
TEST_F(NoticeTest, TheQuestionThatSwitchesTheServiceOnMayTakeLong) {
  NoticeSettings settings = SettingsOf("azure-waking");
  settings.patience_max = std::chrono::milliseconds(300);
  const auto source = MakeNoticeSource(NoticeService::kAzure, settings);
  const auto first = source->Ask();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->has_value());
  EXPECT_EQ(source->Ask().status().code(), StatusCode::kDeadlineExceeded) << "as slow as the first";
}

TEST_F(NoticeTest, WhereMetadataIsOffItIsSaid) {
  const auto answer = Source(NoticeService::kEc2, "ec2-disabled")->Ask();
  EXPECT_THAT(answer.status().ToString(), HasSubstr("answers 403 to /latest/api/token"));
}

TEST_F(NoticeTest, HibernationAndTimesThatCantBeReadLeaveNoTime) {
  for (const char* machine : {"ec2-hibernate", "ec2-badtime", "ec2-past"}) {
    const auto notice = Ask(NoticeService::kEc2, machine);
    ASSERT_TRUE(notice.has_value()) << machine;
    EXPECT_EQ(notice->grace, kAtOnce) << machine;
  }
}

TEST_F(NoticeTest, ARecommendationToMoveIsAdvice) {
  const auto notice = Ask(NoticeService::kEc2, "ec2-rebalance");
  ASSERT_TRUE(notice.has_value());
  EXPECT_TRUE(notice->is_advice);
}

TEST_F(NoticeTest, AChangeIsWaitedFor) {
  const auto source = Source(NoticeService::kGcp, "gcp-changes");
  EXPECT_FALSE(FirstAnswer(source.get(), 0).has_value());
  EXPECT_TRUE(FirstAnswer(source.get(), 0).has_value());
}

TEST_F(NoticeTest, WhoeverAnswersInTheNameOfTheMetadataServerIsNotBelieved) {
  const auto answer = Source(NoticeService::kGcp, "gcp-impostor")->Ask();
  EXPECT_THAT(answer.status().ToString(), HasSubstr("is not Compute Engine's metadata server"));
}

/// Azure announces 30 s, and has been seen to leave less than ten.
TEST_F(NoticeTest, AsMuchTimeIsLeftAsTheEventSays) {
  const auto notice = Ask(NoticeService::kAzure, "azure-short");
  ASSERT_TRUE(notice.has_value());
  EXPECT_LE(notice->grace, std::chrono::seconds(9));
  EXPECT_GE(notice->grace, std::chrono::seconds(5));
}

TEST_F(NoticeTest, AllEventsAreReadAndOnlyThoseOfThisMachineCount) {
  const auto notice = Ask(NoticeService::kAzure, "azure-second");
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->what, "Azure event (Preempt)") << "the first to end it, listed last";
  EXPECT_FALSE(Ask(NoticeService::kAzure, "azure-others").has_value()) << "one freezes it";
  EXPECT_EQ(Ask(NoticeService::kAzure, "azure-started")->grace, kAtOnce);
}

AzureEvents Events(const std::string& type, const std::string& status, const std::string& machine) {
  const std::string text = fmt::format(
      R"({{"Events": [{{"EventType": "{}", "EventStatus": "{}", "Resources": ["{}"],)"
      R"( "NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT"}}]}})",
      type,
      status,
      machine);
  HttpReply reply;
  reply.status = 200;
  reply.headers["date"] = "Mon, 19 Sep 2016 18:29:27 GMT";
  const auto body = std::as_bytes(std::span(text));
  reply.body.assign(body.begin(), body.end());
  return ReadAzureEvents(reply, "MySpotVM").value();
}

TEST(MetadataTest, AnEventForThisMachineCountsInAnyLetterCase) {
  for (const auto& [type, machine] :
       {std::pair("Preempt", "myspotvm"), std::pair("preempt", "MYSPOTVM")}) {
    const AzureEvents events = Events(type, "Scheduled", machine);
    ASSERT_TRUE(events.notice.has_value()) << type << " of " << machine;
    EXPECT_EQ(events.notice->grace, std::chrono::seconds(20));
    EXPECT_EQ(events.ignored, "");
  }
}

TEST(MetadataTest, AnEventThatIsNoNoticeSaysWhy) {
  EXPECT_EQ(
      Events("Preempt", "Scheduled", "othervm").ignored,
      "Azure event (Preempt), which is of othervm");
  EXPECT_EQ(
      Events("Freeze", "Scheduled", "myspotvm").ignored,
      "Azure event (Freeze), which ends no machine");
  EXPECT_EQ(
      Events("Reboot", "Completed", "myspotvm").ignored, "Azure event (Reboot), which is over");
  EXPECT_FALSE(Events("Reboot", "Completed", "myspotvm").notice.has_value());
}

TEST(MetadataTest, TimesAreReadToTheirEnd) {
  EXPECT_EQ(ParseRfc3339("2017-09-18T08:22:00Z"), 1505722920);
  EXPECT_EQ(ParseHttpDate("Mon, 19 Sep 2016 18:29:47 GMT"), 1474309787);
  EXPECT_EQ(ParseRfc3339("2017-09-18T08:22:00.125Z"), 1505722920);
  EXPECT_EQ(ParseRfc3339("2017-09-18T01:22:00.125-07:00"), 1505722920);
  EXPECT_EQ(ParseRfc3339("2017-09-18T10:22:00+02:00"), 1505722920);
  EXPECT_EQ(ParseRfc3339("2017-09-18T08:22:00Zx"), std::nullopt);
  EXPECT_EQ(ParseRfc3339("2017-09-18T08:22:00"), std::nullopt);
  EXPECT_EQ(ParseRfc3339(""), std::nullopt);
  EXPECT_EQ(ParseHttpDate("soon"), std::nullopt);
}

TEST(MetadataTest, AnAddressHasASchemeAndNoSlashAtItsEnd) {
  EXPECT_EQ(BaseUrl("", "http://own"), "http://own");
  EXPECT_EQ(BaseUrl("10.0.0.1:80/", "http://own"), "http://10.0.0.1:80");
}

class Lines final : public LogSink {
 public:
  void Write(LogLevel /*level*/, std::string_view line) override {
    const std::lock_guard lock(mutex_);
    text_ += line;
    changed_.notify_all();
  }

  bool WaitFor(const std::string& text) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(
        lock, std::chrono::seconds(60), [&] { return text_.find(text) != std::string::npos; });
  }

  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
};

class WatcherTest : public NoticeTest {
 protected:
  std::unique_ptr<NoticeWatcher> Watch(
      NoticeService service,
      const std::string& machine,
      Duration period_max = std::chrono::milliseconds(10)) {
    NoticeWatcher::Options options;
    options.service = service;
    options.url = UrlOf(machine);
    options.period_max = period_max;
    options.patience_max = kAnswerPatience;
    return std::make_unique<NoticeWatcher>(options, Callbacks(), &log_);
  }

  NoticeWatcher::Callbacks Callbacks() {
    return {
        [this](const ProviderNotice& notice) { told_.set_value(notice); },
        [this](bool is_at_risk) {
          log_.Info("risk", {{"is_at_risk", is_at_risk}});
        },
        [this](const std::string& what) {
          log_.Info("ignored", {{"what", what}});
        }};
  }

  ProviderNotice Told() {
    auto told = told_.get_future();
    EXPECT_EQ(told.wait_for(std::chrono::seconds(60)), std::future_status::ready);
    return told.get();
  }

  Lines lines_;
  Logger log_{"w0", &SystemTime(), &lines_};
  std::promise<ProviderNotice> told_;
};

TEST_F(WatcherTest, TellsAfterTroubleAndSaysThatThereWasSome) {
  const auto watcher = Watch(NoticeService::kEc2, "ec2-trouble.watched");
  EXPECT_EQ(Told().what, "EC2 spot interruption (terminate)");
  EXPECT_THAT(lines_.text(), HasSubstr("event=notices_not_readable service=ec2 why=\"unavailable"));
  EXPECT_THAT(lines_.text(), HasSubstr("event=notices_readable service=ec2"));
}

/// Others asked one machine after the other, and a notice came later the more of them there were.
TEST_F(WatcherTest, SilentMachinesDoNotDelayTheNoticeOfAnother) {
  std::vector<std::unique_ptr<NoticeWatcher>> silent;
  for (int i = 0; i < 8; ++i) {
    silent.push_back(Watch(NoticeService::kEc2, fmt::format("ec2-silent.{}", i), Duration::max()));
  }
  const auto watcher = Watch(NoticeService::kEc2, "ec2-end");
  EXPECT_EQ(Told().what, "EC2 spot interruption (terminate)");
  EXPECT_THAT(lines_.text(), Not(HasSubstr("event=notices_not_readable")))
      << "it was told before the others were given up";
}

TEST_F(WatcherTest, TellsOfADistantEndWhenItIsNear) {
  const auto watcher = Watch(NoticeService::kEc2, "ec2-ahead");
  EXPECT_EQ(Told().what, "EC2 spot interruption (terminate)");
  EXPECT_THAT(lines_.text(), HasSubstr("event=notice_ahead what=\"EC2 spot"));
}

TEST_F(WatcherTest, ADistantEndMayBeWithdrawn) {
  const auto azure = Watch(NoticeService::kAzure, "azure-withdrawn");
  EXPECT_TRUE(lines_.WaitFor("event=notice_withdrawn what=\"Azure event (Reboot)\""))
      << lines_.text();
  const auto ec2 = Watch(NoticeService::kEc2, "ec2-withdrawn");
  EXPECT_TRUE(lines_.WaitFor("event=notice_withdrawn what=\"EC2 spot interruption (stop)\""))
      << lines_.text();
  EXPECT_EQ(told_.get_future().wait_for(Duration::zero()), std::future_status::timeout)
      << "nobody was told to go";
}

TEST_F(WatcherTest, WhatIsNoNoticeOfThisMachineIsInTheLogWithTheReason) {
  const auto watcher = Watch(NoticeService::kAzure, "azure-others");
  EXPECT_TRUE(lines_.WaitFor("event=notice_ignored service=azure what=\"Azure event ("))
      << lines_.text();
  EXPECT_TRUE(lines_.WaitFor("event=ignored what=\"Azure event (")) << lines_.text();
}

TEST_F(WatcherTest, AdviceIsToldOnceAndTheNoticeAfterIt) {
  const auto watcher = Watch(NoticeService::kEc2, "ec2-advised");
  EXPECT_EQ(Told().what, "EC2 spot interruption (terminate)");
  const std::string text = lines_.text();
  const size_t risk = text.find("event=risk is_at_risk=true");
  ASSERT_NE(risk, std::string::npos) << text;
  EXPECT_EQ(text.find("event=risk", risk + 1), std::string::npos) << text;
}

TEST_F(WatcherTest, AdviceMayEnd) {
  const auto watcher = Watch(NoticeService::kEc2, "ec2-unadvised");
  EXPECT_TRUE(lines_.WaitFor("event=risk is_at_risk=true")) << lines_.text();
  EXPECT_TRUE(lines_.WaitFor("event=risk is_at_risk=false")) << lines_.text();
}

/// What a file says is not withdrawn: its end in the distance is told now.
TEST_F(WatcherTest, AFileIsToldAtOnceWhateverItLeaves) {
  const TemporaryFolder folder;
  const std::string path = folder / "notice";
  ASSERT_TRUE(WriteFileAtomically(path, "600\n").ok());
  NoticeWatcher::Options options;
  options.file = path;
  const NoticeWatcher watcher(options, Callbacks(), &log_);
  EXPECT_EQ(Told().grace, std::chrono::seconds(600));
}

}  // namespace
}  // namespace ps::notice
