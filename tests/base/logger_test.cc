#include "ps/base/logger.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/temporary_folder.h"

namespace ps {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MemorySink final : public LogSink {
 public:
  bool Takes(LogLevel level) const override { return level >= least; }

  void Write(LogLevel level, std::string_view line) override {
    levels.push_back(level);
    lines.emplace_back(line);
  }

  LogLevel least = LogLevel::kDebug;
  std::vector<LogLevel> levels;
  std::vector<std::string> lines;
};

class FixedTime final : public TimeSource {
 public:
  TimePoint Now() const override { return TimePoint(now); }

  int64_t UnixMicros() const override { return unix_us; }

  Duration now{};
  int64_t unix_us = 0;
};

/// A file of that name, which need not exist yet.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name) : path_(folder_ / name) {}

  const std::string& path() const { return path_; }

  std::string Read() const { return ReadText(path_); }

  static std::string ReadText(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

 private:
  TemporaryFolder folder_;
  std::string path_;
};

std::string Line(std::initializer_list<LogField> fields) {
  MemorySink sink;
  FixedTime time;
  const Logger logger("n", &time, &sink);
  logger.Info("e", fields);
  return sink.lines.at(0);
}

TEST(LoggerTest, ALineIsTimeNodeLevelEventFields) {
  MemorySink sink;
  FixedTime time;
  time.now = FromSeconds(100);
  const Logger logger("w1", &time, &sink);
  time.now = FromSeconds(112.345678);
  time.unix_us = 1'769'852'496'123'456;
  logger.Info("joined", {{"worker", 3}, {"host", "a"}});
  EXPECT_EQ(
      sink.lines.at(0),
      "t=12.345678 time=2026-01-31T09:41:36.123Z node=w1 level=info event=joined worker=3 "
      "host=a\n");
}

TEST(LoggerTest, ProcessesOfARunCountFromTheSameMoment) {
  MemorySink sink;
  FixedTime early;
  early.now = FromSeconds(500);
  early.unix_us = 1'000'000'000;
  FixedTime late;  // another process: its own monotonic zero, started 7 s later
  late.now = FromSeconds(20);
  late.unix_us = 1'007'000'000;
  const Logger first("w0", &early, &sink, 1'000'000'000);
  const Logger second("w1", &late, &sink, 1'000'000'000);
  early.now += FromSeconds(8);
  late.now += FromSeconds(1);
  late.unix_us -= 3'600'000'000;  // somebody sets the clock: the seconds of a run go on
  first.Info("e");
  second.Info("e");
  EXPECT_THAT(sink.lines.at(0), StartsWith("t=8.000000 "));
  EXPECT_THAT(sink.lines.at(1), StartsWith("t=8.000000 "));
}

TEST(LoggerTest, AWarningThatRepeatsIsCountedInsteadOfWritten) {
  MemorySink sink;
  FixedTime time;
  {
    const Logger logger("n", &time, &sink);
    for (int i = 0; i < 1000; ++i) {
      logger.Warning("connection_refused", {{"port", i}});
      logger.Info("step", {{"i", i}});
    }
    logger.Warning("other");
    const auto is_refused = [](const std::string& line) {
      return line.find("event=connection_refused") != std::string::npos;
    };
    EXPECT_EQ(std::ranges::count_if(sink.lines, is_refused), LogLimiter::kLinesMax);
    EXPECT_EQ(sink.lines.size(), LogLimiter::kLinesMax + 1000 + 1);
    EXPECT_THAT(sink.lines, testing::Contains(HasSubstr("port=19 more=counted\n")));
    time.now += LogLimiter::kWindow;
    logger.Warning("connection_refused", {{"port", 5}});
    EXPECT_THAT(sink.lines.back(), EndsWith("port=5 repeated=980\n"));
    for (int i = 0; i < 30; ++i) {
      logger.Error("connection_refused");
    }
  }
  EXPECT_THAT(sink.lines.back(), EndsWith("event=connection_refused repeated=11\n"));
}

TEST(LoggerTest, EveryLevelReachesTheSinkUnderItsName) {
  MemorySink sink;
  FixedTime time;
  const Logger logger("n", &time, &sink);
  logger.Debug("e");
  logger.Info("e");
  logger.Warning("e");
  logger.Error("e");
  ASSERT_EQ(sink.lines.size(), 4U);
  EXPECT_THAT(sink.lines[0], HasSubstr(" level=debug "));
  EXPECT_THAT(sink.lines[1], HasSubstr(" level=info "));
  EXPECT_THAT(sink.lines[2], HasSubstr(" level=warning "));
  EXPECT_THAT(sink.lines[3], HasSubstr(" level=error "));
  EXPECT_EQ(sink.levels[3], LogLevel::kError);
}

TEST(LoggerTest, ALineThatTheSinkDoesNotTakeIsNotMade) {
  MemorySink sink;
  FixedTime time;
  const Logger logger("n", &time, &sink);
  sink.least = LogLevel::kWarning;
  logger.Info("e");
  EXPECT_TRUE(sink.lines.empty());
  logger.Warning("e");
  EXPECT_EQ(sink.lines.size(), 1U);
}

TEST(LogfmtTest, PlainValuesAreNotQuoted) {
  EXPECT_THAT(Line({{"path", "/tmp/a-b_c.d"}}), EndsWith(" path=/tmp/a-b_c.d\n"));
  EXPECT_THAT(Line({{"name", "Zoë"}}), EndsWith(" name=Zoë\n"));
}

TEST(LogfmtTest, ValuesThatWouldBreakALineAreQuotedAndEscaped) {
  EXPECT_THAT(Line({{"v", ""}}), EndsWith(" v=\"\"\n"));
  EXPECT_THAT(Line({{"v", "a b"}}), EndsWith(" v=\"a b\"\n"));
  EXPECT_THAT(Line({{"v", "a=b"}}), EndsWith(" v=\"a=b\"\n"));
  EXPECT_THAT(Line({{"v", "say \"hi\""}}), EndsWith(" v=\"say \\\"hi\\\"\"\n"));
  EXPECT_THAT(Line({{"v", "a\\b"}}), EndsWith(" v=\"a\\\\b\"\n"));
  EXPECT_THAT(Line({{"v", "a\nb\tc\rd"}}), EndsWith(" v=\"a\\nb\\tc\\rd\"\n"));
}

TEST(LogfmtTest, AForeignValueCannotForgeALineOrATerminalEscape) {
  const std::string line = Line({{"v", "x\nt=0 level=error event=forged \x1b[31m\x7f"}});
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
  EXPECT_THAT(line, HasSubstr("\\x1b[31m\\x7f"));
}

TEST(LogfmtTest, EveryKindOfFieldHasItsForm) {
  EXPECT_THAT(Line({{"v", true}}), EndsWith(" v=true\n"));
  EXPECT_THAT(Line({{"v", -5}}), EndsWith(" v=-5\n"));
  EXPECT_THAT(Line({{"v", UINT64_MAX}}), EndsWith(" v=18446744073709551615\n"));
  EXPECT_THAT(Line({{"v", 0.5}}), EndsWith(" v=0.5\n"));
  EXPECT_THAT(Line({{"v", 1e-7F}}), EndsWith(" v=1e-07\n"));
  EXPECT_THAT(Line({{"v", std::string("s")}}), EndsWith(" v=s\n"));
  EXPECT_THAT(Line({{"v", std::string_view("sv")}}), EndsWith(" v=sv\n"));
  EXPECT_THAT(Line({{"v", Status::Io("disk")}}), EndsWith(" v=\"i/o error: disk\"\n"));
}

TEST(FileSinkTest, LinesBelowTheLeastLevelAreDropped) {
  const TemporaryFile file("least");
  Result<std::unique_ptr<LogSink>> sink = MakeFileSink(file.path(), LogLevel::kWarning);
  ASSERT_TRUE(sink.ok()) << sink.status();
  (*sink)->Write(LogLevel::kInfo, "quiet\n");
  (*sink)->Write(LogLevel::kWarning, "loud\n");
  EXPECT_EQ(file.Read(), "loud\n");
}

TEST(FileSinkTest, AnExistingFileIsAppendedTo) {
  const TemporaryFile file("append");
  for (const char* line : {"one\n", "two\n"}) {
    Result<std::unique_ptr<LogSink>> sink = MakeFileSink(file.path(), LogLevel::kDebug);
    ASSERT_TRUE(sink.ok()) << sink.status();
    (*sink)->Write(LogLevel::kInfo, line);
  }
  EXPECT_EQ(file.Read(), "one\ntwo\n");
}

TEST(FileSinkTest, AFullFileIsKeptOnceAndBeginsAnewWithALineThatSaysSo) {
  const TemporaryFile file("full");
  const std::string before = file.path() + ".1";
  Result<std::unique_ptr<LogSink>> sink = MakeFileSink(file.path(), LogLevel::kDebug, 100);
  ASSERT_TRUE(sink.ok()) << sink.status();
  const std::string line(39, 'a');
  (*sink)->Write(LogLevel::kInfo, line + "\n");
  (*sink)->Write(LogLevel::kInfo, line + "\n");
  EXPECT_FALSE(std::filesystem::exists(before));
  (*sink)->Write(LogLevel::kInfo, "third line that does not fit\n");
  EXPECT_EQ(TemporaryFile::ReadText(before), line + "\n" + line + "\n");
  EXPECT_EQ(
      file.Read(),
      "level=info event=log_begins_anew limit_bytes=100 before=full.1\n"
      "third line that does not fit\n");
  (*sink)->Write(LogLevel::kInfo, "fourth line that does not fit\n");
  EXPECT_THAT(TemporaryFile::ReadText(before), HasSubstr("third line")) << "the older half is gone";
  EXPECT_THAT(file.Read(), EndsWith("fourth line that does not fit\n"));
}

TEST(FileSinkTest, AnImpossiblePathIsAnIoErrorThatNamesIt) {
  const Result<std::unique_ptr<LogSink>> sink =
      MakeFileSink("/nonexistent-folder/x.log", LogLevel::kDebug);
  ASSERT_FALSE(sink.ok());
  EXPECT_EQ(sink.status().code(), StatusCode::kIo);
  EXPECT_THAT(sink.status().ToString(), HasSubstr("/nonexistent-folder/x.log"));
  EXPECT_THAT(sink.status().ToString(), HasSubstr("No such file or directory"));
}

TEST(FileSinkTest, AFullDiskIsSaidOnceAndStopsNothing) {
  Result<std::unique_ptr<LogSink>> sink = MakeFileSink("/dev/full", LogLevel::kDebug);
  ASSERT_TRUE(sink.ok()) << sink.status();
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i) {
    (*sink)->Write(LogLevel::kInfo, "line\n");
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(
      said,
      "spotps: log lines are being lost: write /dev/full: No space left on device; "
      "training goes on\n");
}

/// Lets the process write files of at most `bytes`, without the signal that comes with it.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : signal_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    Set(bytes);
  }

  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

  ~FileSizeLimit() {
    Set(before_.rlim_cur);
    ::signal(SIGXFSZ, signal_);
  }

  void Set(rlim_t bytes) const {
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }

 private:
  rlimit before_{};
  sighandler_t signal_;
};

TEST(FileSinkTest, AfterALineWasCutTheNextStartsOnItsOwnLine) {
  const TemporaryFile file("cut");
  Result<std::unique_ptr<LogSink>> sink = MakeFileSink(file.path(), LogLevel::kDebug);
  ASSERT_TRUE(sink.ok()) << sink.status();
  ::testing::internal::CaptureStderr();
  {
    const FileSizeLimit limit(4);
    (*sink)->Write(LogLevel::kInfo, "first line\n");
  }
  (*sink)->Write(LogLevel::kInfo, "second line\n");
  // The limit holds for the captured stderr too, so its text is cut as well.
  EXPECT_NE(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(file.Read(), "firs\nsecond line\n");
}

TEST(FileSinkTest, LinesOfManyThreadsDoNotMix) {
  const TemporaryFile file("threads");
  constexpr int kThreads = 4;
  constexpr int kLines = 200;
  {
    Result<std::unique_ptr<LogSink>> sink = MakeFileSink(file.path(), LogLevel::kDebug);
    ASSERT_TRUE(sink.ok()) << sink.status();
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&sink, t] {
        const Logger logger("n" + std::to_string(t), &SystemTime(), sink->get());
        for (int i = 0; i < kLines; ++i) {
          logger.Info("tick", {{"i", i}, {"pad", std::string(100, 'x')}});
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  std::ifstream in(file.path());
  std::string line;
  int count = 0;
  while (std::getline(in, line)) {
    ++count;
    EXPECT_THAT(line, StartsWith("t="));
    EXPECT_THAT(line, EndsWith(" pad=" + std::string(100, 'x')));
  }
  EXPECT_EQ(count, kThreads * kLines);
}

TEST(FdSinkTest, ADescriptorIsNotClosed) {
  const TemporaryFile file("fd");
  const int fd = ::open(file.path().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  MakeFdSink(fd, LogLevel::kDebug)->Write(LogLevel::kInfo, "one\n");
  MakeFdSink(fd, LogLevel::kDebug)->Write(LogLevel::kInfo, "two\n");
  EXPECT_EQ(::close(fd), 0);
  EXPECT_EQ(file.Read(), "one\ntwo\n");
}

TEST(NullLoggerTest, SaysNothing) {
  ::testing::internal::CaptureStderr();
  NullLogger().Error("anything", {{"why", "nobody listens"}});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace ps
