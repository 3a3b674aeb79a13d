#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ps/base/logger.h"
#include "ps/base/status.h"
#include "ps/proto/messages.h"
#include "run/directory/run_directory.h"

namespace ps::run {

/// A line of a log, as Logger writes it.
struct LogLine {
  double unix_s = 0;
  std::string event;
  std::vector<std::pair<std::string, std::string>> fields;

  /// The field's value; empty: there is none.
  std::string_view Get(std::string_view key) const;
};

/// Nothing: it is no whole line of a log. Takes any bytes.
std::optional<LogLine> ParseLogLine(std::string_view line);

/// What a line of the coordinator's log says to people of the run; nothing: it is of no interest to
/// them. For runs of programs that left no events.
std::optional<proto::EventRow> EventOf(const LogLine& line);

/// "23:41:07Z  scale  8 workers wanted, 4 before": UTC, as in the logs.
std::string RenderEvent(const proto::EventRow& event);

/// The same as one line of JSON.
std::string EventToJson(const proto::EventRow& event);

/// The opposite of EventToJson. Nothing: the line is no event. Takes any bytes.
std::optional<proto::EventRow> EventFromJson(std::string_view line);

/// Keeps what happened in a run beside it: each event once, in the order of their numbers. A file
/// that has grown long begins anew, as logs do. A full disk costs events, not the run.
class EventFile {
 public:
  /// Appends to what an earlier coordinator left. Errors: kIo with the path.
  static Result<EventFile> Open(const RunPaths& run);

  /// One that is there already is left out: its number is, and it is no later than the newest. A
  /// coordinator whose journal was refused counts from 1 again.
  void Add(const proto::EventRow& event);

 private:
  explicit EventFile(std::unique_ptr<LogSink> sink) : sink_(std::move(sink)) {}

  std::unique_ptr<LogSink> sink_;
  uint64_t newest_ = 0;  // number and time of the last one
  double newest_unix_s_ = 0;
};

/// Reads what happened in a run, which ended and restarted coordinators have told: its events, or
/// the coordinator's log where a program left none. What the files have forgotten (they keep 32
/// MiB) is forgotten here.
class EventReader {
 public:
  explicit EventReader(RunPaths run) : run_(std::move(run)) {}

  /// Everything that is still there and that was not read before. Errors: kIo with the path.
  Result<std::vector<proto::EventRow>> ReadNew();

 private:
  Status Append(const std::string& path, uint64_t from, std::vector<proto::EventRow>* events);

  const RunPaths run_;
  std::string path_;     // the file that is read; empty: none was found yet
  uint64_t offset_ = 0;  // up to which it was read
};

}  // namespace ps::run
