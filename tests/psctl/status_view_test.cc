#include "psctl/status_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "psctl/files.h"
#include "tests/psctl/sample_status.h"

namespace ps::psctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// The expected text of tests/psctl/golden; tests run in the repository root.
std::string Golden(const std::string& name) {
  const Result<std::string> text = ReadFile("tests/psctl/golden/" + name);
  return text.ok() ? *text : text.status().ToString();
}

TEST(StatusViewTest, ARunningJobIsShownWhole) {
  EXPECT_EQ(RenderStatus(MakeStatus()), Golden("status.txt"));
}

TEST(StatusViewTest, ANarrowTerminalKeepsTheColumnsThatMatter) {
  EXPECT_THAT(
      RenderStatus(MakeStatus(), 40),
      HasSubstr("worker  state      samples/s  silent s\n"
                "     0  computing        812       0.2\n"
                "     1  waiting         96.0       0.2\n"
                "     2  lost               -         -\n"));
}

TEST(StatusViewTest, AJobWithoutWorkersOrServersSaysSo) {
  proto::JobStatus status;
  status.name = "mnist";
  status.state = "starting";
  const std::string text = RenderStatus(status);
  EXPECT_THAT(text, HasSubstr("no workers yet\n"));
  EXPECT_THAT(text, HasSubstr("no servers yet\n"));
  EXPECT_THAT(text, HasSubstr("no step yet\n"));
}

TEST(StatusViewTest, TextOfOtherProcessesCanNotControlTheTerminal) {
  proto::JobStatus status = MakeStatus();
  status.name = "a\x1b[2J";
  status.workers[0].host = "\x1b]0;title\x07";
  status.waits[0].what = "\r\n";
  for (const std::string& text :
       {RenderStatus(status), RenderJobList({status}), RenderWhy(status)}) {
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    EXPECT_THAT(text, Not(HasSubstr("\r")));
  }
}

TEST(StatusViewTest, SeveralJobsAreARowEach) {
  proto::JobStatus other;
  other.name = std::string(60, 'x');
  other.state = "starting";
  other.run_directory = "/r/other-20240131-120000";
  EXPECT_EQ(RenderJobList({MakeStatus(), other}), Golden("job_list.txt"));
}

TEST(StatusViewTest, WhyNamesWhoWaitsForWhomAndTheTimes) {
  EXPECT_EQ(RenderWhy(MakeStatus()), Golden("why.txt"));
}

TEST(StatusViewTest, WhyWithoutWaitsSaysSo) {
  proto::JobStatus status = MakeStatus();
  status.waits.clear();
  EXPECT_THAT(RenderWhy(status), HasSubstr("nobody waits\n"));
}

TEST(StalenessTest, MedianAndMaxComeFromTheHistogram) {
  const StalenessSummary some = SummarizeStaleness({100, 300, 50, 2, 0});
  EXPECT_EQ(some.median, 1U);
  EXPECT_EQ(some.max, 3U);
  EXPECT_EQ(some.count, 452U);
  EXPECT_FALSE(some.is_open_ended);
  const StalenessSummary open = SummarizeStaleness({1, 0, 5});
  EXPECT_EQ(open.median, 2U);
  EXPECT_TRUE(open.is_open_ended);
  EXPECT_EQ(SummarizeStaleness({}).count, 0U);
  EXPECT_EQ(SummarizeStaleness({0, 0}).count, 0U);
}

}  // namespace
}  // namespace ps::psctl
