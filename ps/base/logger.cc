#include "ps/base/logger.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

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

  void Write(LogLevel level, std::string_view line) override {
    if (level < least_) {
      return;
    }
    const std::lock_guard lock(mutex_);
    while (!line.empty()) {
      const ssize_t n = ::write(fd_, line.data(), line.size());
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n <= 0) {
        SayOnce(errno);
        return;
      }
      line.remove_prefix(static_cast<size_t>(n));
    }
  }

 private:
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
};

class NullSink final : public LogSink {
 public:
  void Write(LogLevel /*level*/, std::string_view /*line*/) override {}
};

bool NeedsQuotes(std::string_view value) {
  return value.empty() || value.find_first_of(" \"=\n\t\\") != std::string_view::npos;
}

void AppendValue(std::string* line, std::string_view value) {
  if (!NeedsQuotes(value)) {
    *line += value;
    return;
  }
  *line += '"';
  for (const char c : value) {
    if (c == '\n') {
      *line += "\\n";
    } else if (c == '"' || c == '\\') {
      *line += '\\';
      *line += c;
    } else {
      *line += c;
    }
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
