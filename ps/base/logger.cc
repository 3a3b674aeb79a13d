#include "ps/base/logger.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>

namespace ps {
namespace {

class FdSink final : public LogSink {
 public:
  FdSink(int fd, bool is_owned, std::string name, LogLevel least)
      : fd_(fd), is_owned_(is_owned), name_(std::move(name)), least_(least) {}

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
    // A line that was cut off ends here, so that the next one does not continue it.
    if (is_mid_line_ && !WriteAll("\n")) {
      return;
    }
    is_mid_line_ = false;
    WriteAll(line);
  }

 private:
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
  const bool is_owned_;
  const std::string name_;
  const LogLevel least_;
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
  return std::make_unique<FdSink>(fd, false, "descriptor " + std::to_string(fd), least);
}

Result<std::unique_ptr<LogSink>> MakeFileSink(const std::string& path, LogLevel least) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) {
    return Status::Io("cannot open log file " + path + ": " + std::strerror(errno));
  }
  return std::unique_ptr<LogSink>(std::make_unique<FdSink>(fd, true, path, least));
}

void Logger::Log(
    LogLevel level, std::string_view event, std::initializer_list<LogField> fields) const {
  if (!sink_->Takes(level)) {
    return;
  }
  char time_text[32];
  std::snprintf(time_text, sizeof(time_text), "t=%.6f", Seconds(time_->Now() - start_));
  std::string line = time_text;
  line += " node=";
  line += node_;
  line += " level=";
  line += LevelName(level);
  line += " event=";
  line += event;
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    AppendValue(&line, field.value);
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
