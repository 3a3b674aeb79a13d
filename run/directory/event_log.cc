#include "run/directory/event_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "ps/base/text.h"
#include "ps/json/json_value.h"
#include "ps/json/json_writer.h"

namespace ps::run {
namespace {

constexpr uint64_t kReadBytesMax = uint64_t{32} << 20;  // more than a log is long

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
  const std::optional<proto::EventCode> code = proto::FindEventCode(line.event);
  if (!code) {
    return std::nullopt;
  }
  std::vector<LogField> fields;
  for (const auto& [key, value] : line.fields) {
    fields.emplace_back(key, value);
  }
  proto::EventRow event = proto::MakeEvent(*code, fields);
  event.unix_s = line.unix_s;
  return event.text.empty() ? std::nullopt : std::optional(std::move(event));
}

std::string RenderEvent(const proto::EventRow& event) {
  constexpr double kLast = 253'402'300'799;                         // of the year 9999
  const bool is_time = event.unix_s >= 0 && event.unix_s <= kLast;  // a file may say anything
  const auto seconds = is_time ? static_cast<std::time_t>(event.unix_s) : std::time_t{0};
  std::tm time{};
  ::gmtime_r(&seconds, &time);
  return fmt::format(
      "{:02}:{:02}:{:02}Z  {:<10}  {}",
      time.tm_hour,
      time.tm_min,
      time.tm_sec,
      proto::EventKindName(event.kind),
      Printable(event.text));
}

std::string EventToJson(const proto::EventRow& event) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  json.Field("unix_s", event.unix_s);
  json.Field("kind", proto::EventKindName(event.kind));
  json.Field("text", event.text);
  json.Field("number", event.number);
  json.Field("code", proto::EventCodeName(event.code));
  json.Field("by", event.by);
  json.Field("why", event.why);
  json.Field("others", event.others);
  json.EndObject();
  return std::move(json).Take() + "\n";
}

std::optional<proto::EventRow> EventFromJson(std::string_view line) {
  const Result<JsonValue> root = ParseJson(line, "");
  if (!root.ok() || root->kind != JsonValue::Kind::kObject) {
    return std::nullopt;
  }
  const auto text_of = [&](std::string_view key) {
    const JsonValue* const value = root->Find(key);
    return value == nullptr || value->kind != JsonValue::Kind::kText ? "" : value->text;
  };
  const auto read = [&]<typename T>(std::string_view key, T* number) {
    const JsonValue* const value = root->Find(key);
    const bool is_number = value != nullptr && value->kind == JsonValue::Kind::kNumber;
    const std::string_view text = is_number ? std::string_view(value->text) : "";
    return std::from_chars(text.data(), text.data() + text.size(), *number).ec == std::errc();
  };
  proto::EventRow event;
  event.text = text_of("text");
  if (event.text.empty() || !read("unix_s", &event.unix_s) || !read("number", &event.number)) {
    return std::nullopt;
  }
  // The code of a newer program is not known here, and its kind may not be either.
  event.code = proto::FindEventCode(text_of("code")).value_or(proto::EventCode());
  event.kind = proto::KindOf(event.code);
  event.by = text_of("by");
  event.why = text_of("why");
  event.others = text_of("others");
  return event;
}

Result<EventFile> EventFile::Open(const RunPaths& run) {
  proto::EventRow newest;
  std::error_code error;
  if (std::filesystem::exists(run.events(), error)) {
    PS_ASSIGN(const std::vector<proto::EventRow> known, EventReader(run).ReadNew());
    newest = known.empty() ? newest : known.back();
  }
  PS_ASSIGN(std::unique_ptr<LogSink> sink, MakeFileSink(run.events(), LogLevel::kInfo));
  EventFile file(std::move(sink));
  file.newest_ = newest.number;
  file.newest_unix_s_ = newest.unix_s;
  return file;
}

void EventFile::Add(const proto::EventRow& event) {
  if (event.number > newest_ || event.unix_s > newest_unix_s_) {
    newest_ = event.number;
    newest_unix_s_ = event.unix_s;
    sink_->Write(LogLevel::kInfo, EventToJson(event));
  }
}

Status EventReader::Append(
    const std::string& path, uint64_t from, std::vector<proto::EventRow>* events) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Status::Io(fmt::format("cannot read {}", path));
  }
  const bool is_log = path_ == run_.coordinator_log();
  file.seekg(static_cast<std::streamoff>(from));
  std::string line;
  offset_ = from;
  while (offset_ - from < kReadBytesMax && std::getline(file, line)) {
    if (file.eof()) {
      break;  // it is being written: the next call has it
    }
    offset_ += line.size() + 1;
    const std::optional<LogLine> parsed = is_log ? ParseLogLine(line) : std::nullopt;
    std::optional<proto::EventRow> event = parsed ? EventOf(*parsed) : std::nullopt;
    if (event || (!is_log && (event = EventFromJson(line)))) {
      events->push_back(std::move(*event));
    }
  }
  return Status::Ok();
}

Result<std::vector<proto::EventRow>> EventReader::ReadNew() {
  std::vector<proto::EventRow> events;
  const bool is_begun = !path_.empty();
  std::error_code error;
  if (!is_begun) {
    path_ = std::filesystem::exists(run_.events(), error) ? run_.events() : run_.coordinator_log();
  }
  const std::string before = path_ + ".1";
  const uint64_t size = std::filesystem::file_size(path_, error);
  if (error) {
    const std::string path = is_begun ? path_ : std::exchange(path_, "");
    return Status::Io(fmt::format("cannot read {}: {}", path, error.message()));
  }
  const bool is_rotated = is_begun && size < offset_;
  if ((!is_begun || is_rotated) && std::filesystem::exists(before, error)) {
    PS_TRY(Append(before, is_rotated ? offset_ : 0, &events));
  }
  PS_TRY(Append(path_, is_begun && !is_rotated ? offset_ : 0, &events));
  return events;
}

}  // namespace ps::run
