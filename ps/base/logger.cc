#include "ps/base/logger.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <system_error>

namespace ps {
namespace {

class FdSink final : public LogSink {
 public:
  /// A descriptor of somebody else.
  FdSink(int fd, LogLevel least)
      : fd_(fd), name_(fmt::format("descriptor {}", fd)), least_(least), bytes_max_(INT64_MAX) {}

  /// A file, whose descriptor it owns.
  FdSink(int fd, std::string path, LogLevel least, int64_t bytes_max)
      : fd_(fd), is_owned_(true), name_(std::move(path)), least_(least), bytes_max_(bytes_max) {}

  FdSink(const FdSink&) = delete;
  FdSink& operator=(const FdSink&) = delete;

  ~FdSink() override {
    if (is_owned_) {
      ::close(fd_);
    }
  }

  bool Takes(LogLevel level) const override { return level >= least_; }

  void Write(LogLevel level, std::string_view line) override {
    if (!Takes(level)) {
      return;
    }
    const std::lock_guard lock(mutex_);
    MakeRoomFor(line.size());
    // A line that was cut off ends here, so that the next one does not continue it.
    if (is_mid_line_ && !WriteAll("\n")) {
      return;
    }
    is_mid_line_ = false;
    WriteAll(line);
  }

 private:
  /// Begins the file anew when the next line would make it too long.
  void MakeRoomFor(size_t bytes) {
    struct stat state {};

    const bool is_full = is_owned_ && ::fstat(fd_, &state) == 0 && S_ISREG(state.st_mode) &&
                         state.st_size > 0 &&
                         state.st_size + static_cast<int64_t>(bytes) > bytes_max_;
    if (!is_full) {
      return;
    }
    const std::string before = name_ + ".1";
    std::error_code error;
    std::filesystem::copy_file(
        name_, before, std::filesystem::copy_options::overwrite_existing, error);
    if (::ftruncate(fd_, 0) != 0) {
      return;  // it stays as long as it is, which is better than no log
    }
    is_mid_line_ = false;
    WriteAll(fmt::format(
        "level=info event=log_begins_anew limit_bytes={}{}\n",
        bytes_max_,
        error ? " before=lost" : " before=" + std::filesystem::path(before).filename().string()));
  }

  bool WriteAll(std::string_view rest) {
    while (!rest.empty()) {
      const ssize_t n = ::write(fd_, rest.data(), rest.size());
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n <= 0) {
        SayOnce(errno);
        return false;
      }
      rest.remove_prefix(static_cast<size_t>(n));
      is_mid_line_ = !rest.empty();
    }
    return true;
  }

  void SayOnce(int error) {
    if (!has_failed_) {
      has_failed_ = true;
      std::fprintf(
          stderr,
          "spotps: log lines are being lost: write %s: %s; training goes on\n",
          name_.c_str(),
          std::strerror(error));
    }
  }

  // Constant after construction.
  const int fd_;
  const bool is_owned_ = false;
  const std::string name_;
  const LogLevel least_;
  const int64_t bytes_max_;  // of a file that it owns
  // Guarded by mutex_.
  std::mutex mutex_;
  bool has_failed_ = false;
  bool is_mid_line_ = false;
};

class NullSink final : public LogSink {
 public:
  bool Takes(LogLevel /*level*/) const override { return false; }

  void Write(LogLevel /*level*/, std::string_view /*line*/) override {}
};

bool IsControl(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

bool NeedsQuotes(std::string_view value) {
  return value.empty() || std::any_of(value.begin(), value.end(), [](char c) {
           return IsControl(c) || c == ' ' || c == '"' || c == '=' || c == '\\';
         });
}

void AppendEscaped(std::string* line, char c) {
  switch (c) {
    case '\n':
      *line += "\\n";
      return;
    case '\t':
      *line += "\\t";
      return;
    case '\r':
      *line += "\\r";
      return;
    case '"':
    case '\\':
      *line += '\\';
      *line += c;
      return;
    default:
      break;
  }
  if (!IsControl(c)) {
    *line += c;
    return;
  }
  // Text from a peer must not control the terminal of a person who reads the log.
  char hex[5];
  std::snprintf(hex, sizeof(hex), "\\x%02x", static_cast<unsigned>(c));
  *line += hex;
}

void AppendValue(std::string* line, std::string_view value) {
  if (!NeedsQuotes(value)) {
    *line += value;
    return;
  }
  *line += '"';
  for (const char c : value) {
    AppendEscaped(line, c);
  }
  *line += '"';
}

std::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "unknown";
}

}  // namespace

std::string LogField::FormatFloat(double v) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", v);
  return text;
}

std::unique_ptr<LogSink> MakeFdSink(int fd, LogLevel least) {
  return std::make_unique<FdSink>(fd, least);
}

Result<std::unique_ptr<LogSink>> MakeFileSink(
    const std::string& path, LogLevel least, int64_t bytes_max) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) {
    return Status::Io(fmt::format("cannot open log file {}: {}", path, std::strerror(errno)));
  }
  return std::unique_ptr<LogSink>(std::make_unique<FdSink>(fd, path, least, bytes_max));
}

Logger::Logger(
    std::string node, const TimeSource* time, LogSink* sink, std::optional<int64_t> zero_unix_us)
    : node_(std::move(node)),
      time_(time),
      sink_(sink),
      zero_(
          time->Now() -
          std::chrono::microseconds(zero_unix_us ? time->UnixMicros() - *zero_unix_us : 0)) {}

/// What was left out and is told by no later line is told now.
Logger::~Logger() {
  const std::lock_guard lock(mutex_);
  for (const auto& [event, count] : limiter_.TakeLeftOut()) {
    std::string line = LineOf(time_->Now(), LogLevel::kWarning, event);
    line += fmt::format(" repeated={}\n", count);
    sink_->Write(LogLevel::kWarning, line);
  }
}

LogLimiter::Verdict Logger::Admit(LogLevel level, std::string_view event, TimePoint now) const {
  if (level < LogLevel::kWarning) {
    return {.passes = true};
  }
  const std::lock_guard lock(mutex_);
  return limiter_.Admit(event, now);
}

std::string Logger::LineOf(TimePoint now, LogLevel level, std::string_view event) const {
  const int64_t unix_us = time_->UnixMicros();
  const time_t unix_s = unix_us / 1'000'000;
  tm utc{};
  ::gmtime_r(&unix_s, &utc);
  char date[32];
  std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
  char times[96];
  std::snprintf(
      times,
      sizeof(times),
      "t=%.6f time=%s.%03dZ",
      Seconds(now - zero_),
      date,
      static_cast<int>(unix_us % 1'000'000 / 1000));
  std::string line = times;
  line += " node=";
  line += node_;
  line += " level=";
  line += LevelName(level);
  line += " event=";
  line += event;
  return line;
}

void Logger::Log(
    LogLevel level, std::string_view event, std::initializer_list<LogField> fields) const {
  if (!sink_->Takes(level)) {
    return;
  }
  const TimePoint now = time_->Now();
  const LogLimiter::Verdict verdict = Admit(level, event, now);
  if (!verdict.passes) {
    return;
  }
  std::string line = LineOf(now, level, event);
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    AppendValue(&line, field.value);
  }
  if (verdict.repeated > 0) {
    line += fmt::format(" repeated={}", verdict.repeated);
  }
  if (verdict.is_last) {
    line += " more=counted";
  }
  line += '\n';
  sink_->Write(level, line);
}

const Logger& NullLogger() {
  static NullSink sink;
  static const Logger logger("null", &SystemTime(), &sink);
  return logger;
}

}  // namespace ps
