#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "ps/base/log_limiter.h"
#include "ps/base/status.h"
#include "ps/base/time.h"

namespace ps {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// One key=value of a log line.
struct LogField {
  std::string_view key;
  std::string value;

  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}

  LogField(std::string_view k, const char* v) : key(k), value(v) {}

  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}

  LogField(std::string_view k, const Status& v) : key(k), value(v.ToString()) {}

  LogField(std::string_view k, bool v) : key(k), value(v ? "true" : "false") {}

  template <std::integral T>
  LogField(std::string_view k, T v) : key(k), value(std::to_string(v)) {}

  /// Six significant digits, so that a learning rate of 1e-7 is not printed as 0.
  template <std::floating_point T>
  LogField(std::string_view k, T v) : key(k), value(FormatFloat(static_cast<double>(v))) {}

 private:
  static std::string FormatFloat(double v);
};

/// Where finished lines go. Thread: any; Write is called under the sink's own lock.
class LogSink {
 public:
  virtual ~LogSink() = default;

  /// Whether lines of this level go anywhere; those that do not are not made.
  virtual bool Takes(LogLevel /*level*/) const { return true; }

  /// `line` ends with a newline. A failure is never thrown and never returned: logs can't stop a
  /// run.
  virtual void Write(LogLevel level, std::string_view line) = 0;
};

/// A descriptor such as stderr (not owned). Lines below `least` are dropped. A line that can't be
/// written (full disk) is lost; that is said once on stderr, and the next line is tried again.
std::unique_ptr<LogSink> MakeFdSink(int fd, LogLevel least);

inline constexpr int64_t kLogFileBytesMax = int64_t{16} << 20;

/// Appends to a file, created with mode 0644. A file that has come to `bytes_max` is copied to
/// "<path>.1", over an older one, and begins anew with a line that says so. So a process that
/// writes its stderr to the same file goes on to do it. Errors: kIo with the path.
Result<std::unique_ptr<LogSink>> MakeFileSink(
    const std::string& path, LogLevel least, int64_t bytes_max = kLogFileBytesMax);

/// Prints events as logfmt, with the seconds since the run's start and the time in UTC:
/// `t=12.345678 time=2026-01-31T09:41:36.123Z node=w1 level=info event=joined worker=3`.
/// Event names are constants with underscores, so that they can be searched and tested. Each node
/// of a simulation has its own logger, so every line carries its node and (virtual) time. Warnings
/// and errors that repeat are limited (LogLimiter): the next line of the event, or the logger's
/// last one, says how many there were. Thread: any.
class Logger {
 public:
  /// `sink` and `time` outlive the logger. `zero_unix_us` is when t is 0, in microseconds since
  /// 1970-01-01 UTC: the run's start, the same in all of its processes; if absent, now.
  Logger(
      std::string node,
      const TimeSource* time,
      LogSink* sink,
      std::optional<int64_t> zero_unix_us = std::nullopt);
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;
  ~Logger();

  /// From now on its lines are another node's: it has learnt its name. Nobody logs meanwhile.
  void Rename(std::string node) { node_ = std::move(node); }

  void Debug(std::string_view event, std::initializer_list<LogField> fields = {}) const {
    Log(LogLevel::kDebug, event, fields);
  }

  void Info(std::string_view event, std::initializer_list<LogField> fields = {}) const {
    Log(LogLevel::kInfo, event, fields);
  }

  void Warning(std::string_view event, std::initializer_list<LogField> fields = {}) const {
    Log(LogLevel::kWarning, event, fields);
  }

  /// A human should look.
  void Error(std::string_view event, std::initializer_list<LogField> fields = {}) const {
    Log(LogLevel::kError, event, fields);
  }

 private:
  void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) const;
  LogLimiter::Verdict Admit(LogLevel level, std::string_view event, TimePoint now) const;
  std::string LineOf(TimePoint now, LogLevel level, std::string_view event) const;

  std::string node_;  // Rename alone changes it
  // Constant after construction.
  const TimeSource* const time_;
  LogSink* const sink_;
  const TimePoint zero_;
  // Guarded by mutex_.
  mutable std::mutex mutex_;
  mutable LogLimiter limiter_;
};

/// A logger that drops everything; for tests and tools without a log.
const Logger& NullLogger();

}  // namespace ps
