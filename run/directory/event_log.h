#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
/// them.
std::optional<proto::EventRow> EventOf(const LogLine& line);

/// Names of the log's events that EventOf tells.
std::vector<std::string_view> ToldEvents();

/// "23:41:07Z  scale  8 workers wanted, 4 before": UTC, as in the logs.
std::string RenderEvent(const proto::EventRow& event);

/// The same as one line of JSON.
std::string EventToJson(const proto::EventRow& event);

/// Calls `see` for each whole line of a log from that byte on. Returns how many bytes they
/// are, of a log that is no longer than logs get. Errors: kIo with the path.
Result<uint64_t> ForEachLogLine(
    const std::string& path, uint64_t from, const std::function<void(const LogLine& line)>& see);

/// Reads what happened in a run from its coordinator's log, which ended and restarted coordinators
/// share. What the log has forgotten (it keeps 32 MiB) is forgotten here.
class EventReader {
 public:
  explicit EventReader(RunPaths run) : run_(std::move(run)) {}

  /// Everything that the log still has and that was not read before. Errors: kIo with the path.
  Result<std::vector<proto::EventRow>> ReadNew();

 private:
  Status Append(const std::string& path, uint64_t from, std::vector<proto::EventRow>* events);

  const RunPaths run_;
  bool is_begun_ = false;
  uint64_t offset_ = 0;  // of the log, up to which it was read
};

}  // namespace ps::run
