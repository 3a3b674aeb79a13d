#include "run/directory/event_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "ps/base/text.h"
#include "ps/json/json_writer.h"

namespace ps::run {
namespace {

constexpr uint64_t kReadBytesMax = uint64_t{32} << 20;  // more than a log is long

/// What is said of an event. "{key}" stands for the value of that field; a part in [] is left out
/// when a field in it is missing.
struct Telling {
  std::string_view event;
  std::string_view kind;
  std::string_view text;
};

constexpr std::array kTellings = {
    Telling{"job_started", "run", "the run begins: {workers} workers wanted, {shards} shards"},
    Telling{"job_resumed", "recovery", "another coordinator goes on: {workers} workers known"},
    Telling{"training_begins", "run", "training begins with {workers} workers, after {after_s} s"},
    Telling{
        "workers_missing", "wait", "training begins without some that have not come: {missing}"},
    Telling{
        "scaled", "scale", "{workers} workers wanted, {workers_before} before[; asked by {by}]"},
    Telling{
        "fleet_start",
        "replace",
        "worker {worker} is started[ on {type}][ in zone {zone}][: {reason}]"},
    Telling{
        "fleet_waits",
        "wait",
        "{missing} workers of type {type} can't be started yet, the next in {seconds} s: {why}"},
    Telling{
        "type_left_out",
        "wait",
        "{type} is left out for {seconds} s: {failures} starts came to nothing, the last one: "
        "{why}"},
    Telling{"no_host", "wait", "worker {worker} was not started: {why}"},
    Telling{
        "process_not_started",
        "give-up",
        "[worker {worker}][server {server}] was not started: {why}"},
    Telling{"fleet_cancel", "scale", "worker {worker} is not waited for: fewer are wanted"},
    Telling{"fleet_release", "scale", "worker {worker} is let go: fewer are wanted"},
    Telling{
        "servers_scaled",
        "scale",
        "{servers} servers wanted, {servers_before} before[; asked by {by}]"},
    Telling{
        "chunks_pinned", "scale", "{chunks} chunks have a server that was chosen[; asked by {by}]"},
    Telling{
        "servers_move", "scale", "chunks move, for {servers} servers in the end[; asked by {by}]"},
    Telling{"servers_moved", "scale", "{servers} servers have all chunks, placement {placement}"},
    Telling{
        "chunks_moved",
        "scale",
        "chunks moved from shard {from} to shard {to}: {chunks}, placement {placement}"},
    Telling{"chunks_wait", "scale", "chunks don't move yet: {why}"},
    Telling{"shards_changed", "scale", "{servers} servers with {shards} shards take part"},
    Telling{"servers_not_scaled", "give-up", "there will be no {servers} servers: {why}"},
    Telling{"no_seat_left", "give-up", "{missing} workers can't be started: no seat is left"},
    Telling{
        "worker_never_joined",
        "give-up",
        "worker {worker} never joined[: {reason}][, waited {waited_s} s]"},
    Telling{
        "worker_lost_again",
        "give-up",
        "worker {worker} has failed, though it ended with no error: {why}"},
    Telling{
        "no_room_for_worker",
        "give-up",
        "one more worker is refused: the servers have room for the gradients of {members}"},
    Telling{"worker_joins", "join", "worker {worker} joined from {host}"},
    Telling{"worker_reconnected", "recovery", "worker {worker} is connected again"},
    Telling{"worker_lost", "revocation", "worker {worker} lost after {steps} steps: {reason}"},
    Telling{"worker_left", "leave", "worker {worker} left after {steps} steps: {reason}"},
    Telling{"worker_failed", "give-up", "worker {worker} failed: {reason}"},
    Telling{"notice_given", "notice", "worker {worker} has to be gone in {grace_s} s"},
    Telling{"release_asked", "notice", "worker {worker} is to leave for good in {grace_s} s"},
    Telling{"fault_notice", "notice", "planned: worker {worker} has to be gone in {grace_s} s"},
    Telling{"fault_kill", "revocation", "planned: worker {worker} is killed"},
    Telling{"fault_add", "scale", "planned: worker {worker} is added"},
    Telling{
        "server_notice",
        "notice",
        "server {server} has to be gone in {grace_s} s: a checkpoint first"},
    Telling{"successor_started", "notice", "server {server}: another process is started for it"},
    Telling{"successor_ended", "give-up", "server {server}: its next process {how}"},
    Telling{
        "handover_in_haste",
        "notice",
        "server {server} leaves before all steps have ended: what comes after the checkpoint is "
        "lost"},
    Telling{"prewarm", "replace", "a machine[ of {type}] may go: one worker more for a while"},
    Telling{
        "server_lost",
        "recovery",
        "server {server} lost: {why}; back from checkpoint {checkpoint}, {steps_undone} steps "
        "of {samples_undone} samples undone"},
    Telling{
        "server_start_failed",
        "replace",
        "server {server} did not start: {why}; it is started again"},
    Telling{"shard_is_back", "recovery", "shard {shard} is back"},
    Telling{
        "servers_parked",
        "pause",
        "{servers} servers end, {why}: checkpoint {checkpoint} has all that was done"},
    Telling{
        "servers_woken",
        "pause",
        "{servers} servers are started again, from checkpoint {checkpoint}: {why}"},
    Telling{
        "went_back",
        "recovery",
        "all went back to checkpoint {checkpoint}: {steps_undone} steps of {samples_undone} "
        "samples undone"},
    Telling{
        "steps_undone",
        "recovery",
        "{steps_undone} steps of {samples_undone} samples of worker {worker} undone: a server that "
        "was lost had them"},
    Telling{"checkpoint", "checkpoint", "checkpoint {checkpoint} written in {seconds} s"},
    Telling{
        "checkpoint_skipped",
        "checkpoint",
        "skipped: checkpoint {checkpoint} is under way since {under_way_s} s"},
    Telling{"checkpoint_failed", "checkpoint", "checkpoint {checkpoint} failed: {why}"},
    Telling{"copy_failed", "checkpoint", "a copy failed: {why}"},
    Telling{"checkpoint_damaged", "checkpoint", "checkpoint {checkpoint} was given up: {why}"},
    Telling{"no_last_checkpoint", "give-up", "no last checkpoint: {why}"},
    Telling{
        "end_without_answer",
        "give-up",
        "{of} has given no answer for {waited_s} s; the process ends without it"},
    Telling{"paused", "pause", "no new work is handed out, on request"},
    Telling{"continued", "pause", "work is handed out again, on request"},
    Telling{"mode_wanted", "mode", "{mode} is wanted, {mode_before} is in force: {by}"},
    Telling{"mode_switched", "mode", "{mode} from now on, {mode_before} before: {by}"},
    Telling{
        "worker_sits_out",
        "straggler",
        "worker {worker} sits out of the rounds, which would take {slowdown} times as long with "
        "it; it is tried again in {seconds} s"},
    Telling{"worker_back_in_rounds", "straggler", "worker {worker} is in the rounds again: {why}"},
    Telling{"replan", "plan", "{why}"},
    Telling{"replan_failed", "plan", "no plan was found: {why}"},  // of older programs
    Telling{"replan_refused", "plan", "the planned fleet was refused: {why}"},
    Telling{"policy", "policy", "{why}"},
    Telling{"policy_refused", "policy", "the policy's fleet was refused: {why}"},
    Telling{"training_diverged", "run", "training has diverged: {why}"},
    Telling{"epoch_complete", "run", "epoch {epoch} is complete"},
    Telling{"coordinator_stalled", "run", "the coordinator did not run for {seconds} s"},
    Telling{"stop_requested", "run", "the run is to end: {reason}"},
    Telling{"job_failed", "give-up", "the job failed: {reason}"},
    Telling{"journal_failed", "give-up", "the journal failed: {why}; {meaning}"},
    Telling{"model_saved", "run", "the model is in {path}"},
    Telling{"model_not_saved", "give-up", "the model was not saved: {reason}"},
    Telling{"finished", "run", "the run is over: {outcome}"},
};

/// As many digits of a value in seconds as people read: "0.184" of "0.183978".
std::string ShortSeconds(std::string_view value) {
  double seconds = 0;
  const char* const end = value.data() + value.size();
  const auto [stopped, error] = std::from_chars(value.data(), end, seconds);
  if (error != std::errc() || stopped != end || value.find('.') == std::string_view::npos) {
    return Printable(value);
  }
  return std::abs(seconds) < 1000 ? fmt::format("{:.3g}", seconds) : fmt::format("{:.0f}", seconds);
}

/// Fills the fields of `text`. Returns nothing when one is missing that is not in [].
std::optional<std::string> Fill(std::string_view text, const LogLine& line) {
  std::string out;
  while (!text.empty()) {
    if (text.front() == '[') {
      const size_t end = text.find(']');
      out += Fill(text.substr(1, end - 1), line).value_or("");
      text.remove_prefix(end + 1);
    } else if (text.front() == '{') {
      const size_t end = text.find('}');
      const std::string_view key = text.substr(1, end - 1);
      const std::string_view value = line.Get(key);
      if (value.empty()) {
        return std::nullopt;
      }
      out += key == "seconds" || key.ends_with("_s") ? ShortSeconds(value) : Printable(value);
      text.remove_prefix(end + 1);
    } else {
      const size_t end = std::min(text.find_first_of("[{"), text.size());
      out += text.substr(0, end);
      text.remove_prefix(end);
    }
  }
  return out;
}

/// Takes a value off the front of `rest`: up to a blank, or in quotes with backslashes.
std::optional<std::string> TakeValue(std::string_view* rest) {
  std::string value;
  if (!rest->starts_with('"')) {
    const size_t end = std::min(rest->find(' '), rest->size());
    value = rest->substr(0, end);
    rest->remove_prefix(end);
    return value;
  }
  for (size_t i = 1; i < rest->size(); ++i) {
    const char c = (*rest)[i];
    if (c == '"') {
      rest->remove_prefix(i + 1);
      return value;
    }
    if (c == '\\' && i + 1 < rest->size()) {
      const char next = (*rest)[++i];
      value += next == 'n' ? '\n' : next == 't' ? '\t' : next;
    } else {
      value += c;
    }
  }
  return std::nullopt;  // the quote is not closed
}

/// Reads a time like "2026-11-22T21:03:17.264Z".
std::optional<double> UnixSecondsOf(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00.000Z";
  if (text.size() != kForm.size()) {
    return std::nullopt;
  }
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (is_digit != (kForm[i] == '0') || (!is_digit && text[i] != kForm[i])) {
      return std::nullopt;
    }
    digits += is_digit ? text.substr(i, 1) : "";
  }
  const auto number = [&](size_t begin, size_t count) {
    return std::stoi(digits.substr(begin, count));
  };
  const std::chrono::year_month_day day(
      std::chrono::year(number(0, 4)),
      std::chrono::month(static_cast<unsigned>(number(4, 2))),
      std::chrono::day(static_cast<unsigned>(number(6, 2))));
  if (!day.ok()) {
    return std::nullopt;
  }
  const auto days = std::chrono::sys_days(day).time_since_epoch().count();
  return static_cast<double>(days) * 86400 + number(8, 2) * 3600 + number(10, 2) * 60 +
         number(12, 2) + number(14, 3) / 1000.0;
}

}  // namespace

std::string_view LogLine::Get(std::string_view key) const {
  const auto it = std::ranges::find(fields, key, &std::pair<std::string, std::string>::first);
  return it == fields.end() ? std::string_view() : std::string_view(it->second);
}

std::optional<LogLine> ParseLogLine(std::string_view line) {
  LogLine out;
  bool has_time = false;
  while (!line.empty()) {
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return std::nullopt;
    }
    std::string key(line.substr(0, equals));
    line.remove_prefix(equals + 1);
    std::optional<std::string> value = TakeValue(&line);
    if (!value || key.find(' ') != std::string::npos) {
      return std::nullopt;
    }
    line.remove_prefix(line.starts_with(' ') ? 1 : 0);
    if (key == "time" && !has_time) {
      const std::optional<double> unix_s = UnixSecondsOf(*value);
      if (!unix_s) {
        return std::nullopt;
      }
      out.unix_s = *unix_s;
      has_time = true;
    } else if (key == "event" && out.event.empty()) {
      out.event = std::move(*value);
    } else {
      out.fields.emplace_back(std::move(key), std::move(*value));
    }
  }
  return has_time && !out.event.empty() ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<proto::EventRow> EventOf(const LogLine& line) {
  const auto* const telling = std::ranges::find(kTellings, line.event, &Telling::event);
  if (telling == kTellings.end()) {
    return std::nullopt;
  }
  std::optional<std::string> text = Fill(telling->text, line);
  if (!text) {
    return std::nullopt;
  }
  return proto::EventRow{line.unix_s, std::string(telling->kind), std::move(*text)};
}

std::vector<std::string_view> ToldEvents() {
  std::vector<std::string_view> names;
  for (const Telling& telling : kTellings) {
    names.push_back(telling.event);
  }
  return names;
}

std::string RenderEvent(const proto::EventRow& event) {
  const auto seconds = static_cast<std::time_t>(event.unix_s);
  std::tm time{};
  ::gmtime_r(&seconds, &time);
  return fmt::format(
      "{:02}:{:02}:{:02}Z  {:<10}  {}",
      time.tm_hour,
      time.tm_min,
      time.tm_sec,
      Printable(event.kind),
      Printable(event.text));
}

std::string EventToJson(const proto::EventRow& event) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  json.Field("unix_s", event.unix_s);
  json.Field("kind", event.kind);
  json.Field("text", event.text);
  json.EndObject();
  return std::move(json).Take() + "\n";
}

Result<uint64_t> ForEachLogLine(
    const std::string& path, uint64_t from, const std::function<void(const LogLine& line)>& see) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Status::Io(fmt::format("cannot read {}", path));
  }
  file.seekg(static_cast<std::streamoff>(from));
  std::string line;
  uint64_t read = 0;
  while (read < kReadBytesMax && std::getline(file, line)) {
    if (file.eof()) {
      break;  // it is being written: the next call has it
    }
    read += line.size() + 1;
    if (const std::optional<LogLine> parsed = ParseLogLine(line)) {
      see(*parsed);
    }
  }
  return read;
}

Status EventReader::Append(
    const std::string& path, uint64_t from, std::vector<proto::EventRow>* events) {
  PS_ASSIGN(const uint64_t read, ForEachLogLine(path, from, [&](const LogLine& line) {
              if (std::optional<proto::EventRow> event = EventOf(line)) {
                events->push_back(std::move(*event));
              }
            }));
  offset_ = from + read;
  return Status::Ok();
}

Result<std::vector<proto::EventRow>> EventReader::ReadNew() {
  std::vector<proto::EventRow> events;
  const std::string log = run_.coordinator_log();
  const std::string before = log + ".1";
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(log, error);
  if (error) {
    return Status::Io(fmt::format("cannot read {}: {}", log, error.message()));
  }
  const bool is_rotated = is_begun_ && size < offset_;
  if ((!is_begun_ || is_rotated) && std::filesystem::exists(before, error)) {
    PS_TRY(Append(before, is_rotated ? offset_ : 0, &events));
  }
  PS_TRY(Append(log, is_begun_ && !is_rotated ? offset_ : 0, &events));
  is_begun_ = true;
  return events;
}

}  // namespace ps::run
