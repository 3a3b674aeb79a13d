#include "run/page/history.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ps/base/unique_fd.h"
#include "ps/json/json_value.h"
#include "ps/json/json_writer.h"
#include "run/report/run_events.h"

namespace ps::run {
namespace {

/// In a longer file so many places are looked at, evenly apart.
constexpr uint64_t kWholeFileMax = uint64_t{16} << 20;
constexpr uint64_t kLooks = 2000;
/// The rows of workers come last in a line, and are cut off: of thousands they are most of it.
constexpr size_t kLineMax = size_t{64} << 10;
constexpr std::string_view kRows = ",\"workers\":[";

struct Column {
  std::string_view name;
  double HistoryPoint::*value;
};

constexpr std::array<Column, 10> kColumns = {{
    {"time_unix_s", &HistoryPoint::unix_s},
    {"elapsed_s", &HistoryPoint::elapsed_s},
    {"epoch", &HistoryPoint::epoch},
    {"train_loss", &HistoryPoint::train_loss},
    {"train_accuracy", &HistoryPoint::train_accuracy},
    {"test_loss", &HistoryPoint::test_loss},
    {"test_accuracy", &HistoryPoint::test_accuracy},
    {"samples_per_s", &HistoryPoint::samples_per_s},
    {"workers_alive", &HistoryPoint::workers},
    {"usd_spent", &HistoryPoint::usd_spent},
}};

/// What the columns of accuracy are called where the metric is another one.
constexpr std::array<Column, 3> kOtherNames = {{
    {"train_label_accuracy", &HistoryPoint::train_accuracy},
    {"test_label_accuracy", &HistoryPoint::test_accuracy},
    {"test_r2", &HistoryPoint::test_accuracy},
}};

/// Up to `size` bytes from `offset` on; fewer at the end. Errors: kIo.
Status ReadAt(int fd, uint64_t offset, size_t size, std::string* text) {
  text->resize(size);
  size_t done = 0;
  while (done < size) {
    const ssize_t n =
        ::pread(fd, text->data() + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return Status::Io(std::strerror(errno));
    }
    if (n == 0) {
      break;
    }
    done += static_cast<size_t>(n);
  }
  text->resize(done);
  return Status::Ok();
}

void AddLine(std::string_view line, History* history) {
  HistoryPoint point;
  if (HistoryPointFromLine(line, &point)) {
    history->Add(point);
  }
}

Status ReadWhole(int fd, uint64_t size, History* history) {
  std::string text;
  PS_TRY(ReadAt(fd, 0, size, &text));
  std::string_view rest = text;
  for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    AddLine(rest.substr(0, end), history);
    rest.remove_prefix(end + 1);
  }
  return Status::Ok();
}

/// The first line that begins after each of the places, and the last one.
Status ReadSample(int fd, uint64_t size, History* history) {
  std::string text;
  const auto look = [&](uint64_t offset) -> Status {
    PS_TRY(ReadAt(fd, offset, kLineMax, &text));
    const size_t begin = offset == 0 ? 0 : text.find('\n');
    if (begin == std::string::npos) {
      return Status::Ok();  // in the rows of a line: another place will do
    }
    const std::string_view rest = std::string_view(text).substr(offset == 0 ? 0 : begin + 1);
    AddLine(rest.substr(0, rest.find('\n')), history);
    return Status::Ok();
  };
  for (uint64_t i = 0; i < kLooks; ++i) {
    PS_TRY(look(size / kLooks * i));
  }
  return Status::Ok();
}

}  // namespace

HistoryPoint HistoryPointOf(const proto::JobStatus& status, double unix_s) {
  HistoryPoint point;
  point.unix_s = unix_s;
  point.elapsed_s = status.elapsed_s;
  if (!status.ledger.empty() && status.ledger.front().samples_total > 0) {
    point.epoch = static_cast<double>(status.samples_counted) /
                  static_cast<double>(status.ledger.front().samples_total);
  }
  if (status.steps_counted > 0) {
    point.train_loss = status.train_loss;
    if (proto::IsShare(status.metric)) {
      point.train_accuracy = status.train_accuracy;
    }
    point.samples_per_s = status.samples_per_s;
  }
  if (!status.evaluations.empty()) {
    point.test_loss = status.evaluations.back().loss;
    point.test_accuracy = status.evaluations.back().accuracy;
  }
  point.workers = static_cast<double>(CountWorkers(status));
  point.usd_spent = status.usd_spent;
  return point;
}

void History::Add(const HistoryPoint& point) {
  if (!points_.empty() && !(point.unix_s > points_.back().unix_s)) {
    return;
  }
  // The newest point stands in for those that do not stay.
  const uint64_t stride = uint64_t{1} << thinned_;
  if (since_kept_ > 0) {
    points_.back() = point;
  } else {
    points_.push_back(point);
  }
  since_kept_ = (since_kept_ + 1) % stride;
  if (points_.size() > points_max_) {
    size_t kept = 0;
    for (size_t i = (points_.size() - 1) % 2; i < points_.size(); i += 2) {
      points_[kept++] = points_[i];
    }
    points_.resize(kept);
    ++thinned_;
    since_kept_ = 0;
  }
}

bool HistoryPointFromLine(std::string_view line, HistoryPoint* point) {
  std::string cut;
  if (const size_t rows = line.find(kRows); rows != std::string_view::npos) {
    cut = std::string(line.substr(0, rows)) + "}";
    line = cut;
  }
  const Result<JsonValue> object = ParseJson(line, "metrics.jsonl");
  if (!object.ok() || object->kind != JsonValue::Kind::kObject) {
    return false;
  }
  HistoryPoint read;
  const auto take = [&](const Column& column) {
    const JsonValue* const value = object->Find(column.name);
    if (value != nullptr && value->kind == JsonValue::Kind::kNumber) {
      read.*column.value = std::strtod(value->text.c_str(), nullptr);
    }
  };
  std::ranges::for_each(kColumns, take);
  std::ranges::for_each(kOtherNames, take);
  if (!(read.unix_s > 0) || !std::isfinite(read.unix_s)) {
    return false;
  }
  *point = read;
  return true;
}

Result<History> ReadHistory(const std::string& metrics_path, size_t points_max) {
  const UniqueFd fd(::open(metrics_path.c_str(), O_RDONLY | O_CLOEXEC));

  struct stat about {};

  if (!fd.is_open() || ::fstat(fd.get(), &about) != 0) {
    return Status::Io(fmt::format("cannot read {}: {}", metrics_path, std::strerror(errno)));
  }
  const auto size = static_cast<uint64_t>(std::max<off_t>(about.st_size, 0));
  History history(points_max);
  PS_TRY((size <= kWholeFileMax ? ReadWhole(fd.get(), size, &history)
                                : ReadSample(fd.get(), size, &history))
             .Annotate(metrics_path));
  return history;
}

std::string HistoryToJson(const History& history, double after_unix_s, uint32_t thinned) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  json.Field("thinned", history.thinned());
  json.BeginList("columns");
  for (const Column& column : kColumns) {
    json.Value(column.name);
  }
  json.EndList();
  json.BeginList("rows");
  for (const HistoryPoint& point : history.points()) {
    if (thinned == history.thinned() && point.unix_s <= after_unix_s) {
      continue;
    }
    json.BeginList();
    for (const Column& column : kColumns) {
      json.Value(point.*column.value);
    }
    json.EndList();
  }
  json.EndList();
  json.EndObject();
  return std::move(json).Take();
}

}  // namespace ps::run
