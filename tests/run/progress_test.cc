#include "run/report/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/run/sample_status.h"

namespace ps::run {
namespace {

using ::testing::ElementsAre;
using ::testing::Not;

TEST(ProgressBlockTest, AWideTerminalShowsEverything) {
  EXPECT_THAT(
      RenderProgressBlock(MakeStatus(), 100),
      ElementsAre(
          "fashion-mnist  [=================>                    ]  48.0 %  epoch 2/3  38.5 s left",
          "86,400/180,000 samples  2,431/s  loss 0.4123  acc 85.2 %  test 86.1 %  workers 2/3"));
}

TEST(ProgressBlockTest, ANarrowTerminalLeavesOutTheLeastImportant) {
  EXPECT_THAT(
      RenderProgressBlock(MakeStatus(), 50),
      ElementsAre(
          "fashion-mnist  48.0 %  epoch 2/3  38.5 s left",
          "2,431/s  loss 0.4123  test 86.1 %  workers 2/3"));
}

TEST(ProgressBlockTest, NoLineIsEverWiderThanTheTerminal) {
  proto::JobStatus status = MakeStatus();
  status.name = std::string(200, 'n');
  proto::JobStatus waiting = status;
  waiting.state = proto::RunState::kWaiting;
  waiting.detail = std::string(300, 'd');
  for (size_t width = 1; width < 150; ++width) {
    for (const auto& lines :
         {RenderProgressBlock(status, width), RenderProgressBlock(waiting, width)}) {
      ASSERT_EQ(lines.size(), 2U);
      EXPECT_LE(lines[0].size(), width);
      EXPECT_LE(lines[1].size(), width);
    }
  }
}

TEST(ProgressBlockTest, BeforeTheFirstStepNothingIsInvented) {
  proto::JobStatus status;
  status.name = "mnist";
  status.state = proto::RunState::kStarting;
  status.detail = "waiting for 2 shards";
  status.epochs = 1;
  EXPECT_THAT(
      RenderProgressBlock(status, 60),
      ElementsAre(
          "mnist  [                                 ]  0.0 %  epoch 1/1",
          "starting: waiting for 2 shards"));
}

TEST(ProgressLineTest, SaysTheSameOnOneLine) {
  EXPECT_EQ(
      RenderProgressLine(MakeStatus()),
      "35.5 s  48.0 %  epoch 2/3  86,400/180,000 samples  2,431/s  loss 0.4123  acc 85.2 %  "
      "test 86.1 %  workers 2/3  38.5 s left");
}

TEST(ProgressLineTest, BeforeTrainingItSaysWhatIsWaitedFor) {
  proto::JobStatus status = MakeStatus();
  status.state = proto::RunState::kStarting;
  status.detail = "waiting for workers: w0, w1";
  EXPECT_EQ(RenderProgressLine(status), "starting: waiting for workers: w0, w1");
}

class ProgressPrinterTest : public ::testing::Test {
 protected:
  ProgressPrinter Make(bool is_terminal) {
    return ProgressPrinter(
        {.is_terminal = is_terminal,
         .write = [this](std::string_view text) { text_ += text; },
         .terminal_width = [this] { return width_; }});
  }

  std::string Take() { return std::exchange(text_, ""); }

  std::string text_;
  size_t width_ = 80;
  const TimePoint start_{};
};

TEST_F(ProgressPrinterTest, ALogGetsALineWhenItIsDueAndNoControlCharacters) {
  ProgressPrinter printer = Make(false);
  const std::string line = RenderProgressLine(MakeStatus()) + "\n";
  printer.Update(MakeStatus(), {}, start_);
  EXPECT_EQ(Take(), line);
  printer.Update(MakeStatus(), {}, start_ + std::chrono::seconds(4));
  EXPECT_EQ(Take(), "");
  printer.Update(MakeStatus(), {"worker 2 lost"}, start_ + std::chrono::milliseconds(4500));
  EXPECT_EQ(Take(), "worker 2 lost\n");
  printer.Update(MakeStatus(), {}, start_ + std::chrono::seconds(5));
  EXPECT_EQ(Take(), line);
  printer.Say("text");
  printer.Finish();
  EXPECT_EQ(Take(), "text\n");
}

TEST_F(ProgressPrinterTest, ATerminalBlockIsRedrawnInPlaceWithEventsAbove) {
  ProgressPrinter printer = Make(true);
  const std::vector<std::string> lines = RenderProgressBlock(MakeStatus(), 79);
  const std::string block = lines[0] + "\n" + lines[1] + "\n";
  const std::string erase = "\r\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K";
  printer.Update(MakeStatus(), {}, start_);
  EXPECT_EQ(Take(), block);
  printer.Update(MakeStatus(), {"worker 2 lost"}, start_);
  EXPECT_EQ(Take(), erase + "worker 2 lost\n" + block);
  printer.Say("text");
  EXPECT_EQ(Take(), erase + "text\n" + block);
  printer.Finish();
  EXPECT_EQ(Take(), erase);
  printer.Say("after");
  EXPECT_EQ(Take(), "after\n");
}

TEST_F(ProgressPrinterTest, ABlockThatTheTerminalWrappedIsErasedWhole) {
  ProgressPrinter printer = Make(true);
  printer.Update(MakeStatus(), {}, start_);
  Take();
  width_ = 30;  // the two lines now take three and two rows
  printer.Finish();
  std::string erase = "\r\x1b[2K";
  for (int row = 0; row < 5; ++row) {
    erase += "\x1b[1A\x1b[2K";
  }
  EXPECT_EQ(Take(), erase);
}

}  // namespace
}  // namespace ps::run
