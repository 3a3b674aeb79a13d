// Rows of the journal:
//
//   about/version          format of the rows, in decimal
//   about/boot             boot id of the machine that wrote them
//   about/port             where the coordinator listens, in decimal
//   job/ROW                a row of the job's state: ps/proto/job_rows.h
//   fleet/KIND/INDEX/LAUNCH
//                          "PID START_TICKS" of a process that is not known to be over

#include "ps/coordinator/job_journal.h"

#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <deque>
#include <utility>

#include "ps/base/file.h"
#include "ps/proto/job_rows.h"

namespace ps::coordinator {
namespace {

using checkpoint::ChangeKind;
using checkpoint::Row;
using checkpoint::RowChange;
using proto::LaunchRecord;
using proto::ProcessKind;

constexpr std::string_view kVersionRow = "about/version";
constexpr std::string_view kBootRow = "about/boot";
constexpr std::string_view kPortRow = "about/port";
constexpr std::string_view kFleetRows = "fleet/";
constexpr std::string_view kJobRows = "job/";
constexpr std::string_view kVersion = "3";
/// A disk that refused the rows is asked again after this long.
constexpr Duration kTryAgain = std::chrono::seconds(1);
constexpr const char* kBootIdPath = "/proc/sys/kernel/random/boot_id";
constexpr size_t kBootIdBytesMax = 256;

std::string_view TextOf(const Row& row) {
  return {reinterpret_cast<const char*>(row.value.data()), row.value.size()};
}

/// Takes a number and `end`, if there is one, off the front. False when it is not there.
template <typename T>
bool TakeNumber(std::string_view* text, char end, T* number) {
  const auto [rest, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc()) {
    return false;
  }
  text->remove_prefix(static_cast<size_t>(rest - text->data()));
  if (end != 0 && (text->empty() || text->front() != end)) {
    return false;
  }
  text->remove_prefix(end == 0 ? 0 : 1);
  return true;
}

std::string KeyOf(const LaunchRecord& launch) {
  return fmt::format(
      "{}{}/{:08}/{}",
      kFleetRows,
      proto::ProcessKindName(launch.kind),
      launch.index,
      launch.launch.value);
}

std::string ValueOf(const LaunchRecord& launch) {
  return fmt::format("{} {}", launch.pid, launch.start_ticks);
}

Status MakesNoSense(const Row& row) {
  return Status::Corruption(fmt::format("row {} of the journal makes no sense", row.key));
}

Result<LaunchRecord> LaunchOf(const Row& row) {
  LaunchRecord launch;
  std::string_view key = row.key;
  key.remove_prefix(kFleetRows.size());
  const size_t slash = key.find('/');
  const std::string_view kind = key.substr(0, slash);
  launch.kind = kind == proto::ProcessKindName(ProcessKind::kServer) ? ProcessKind::kServer
                                                                     : ProcessKind::kWorker;
  key.remove_prefix(slash == std::string_view::npos ? key.size() : slash + 1);
  std::string_view value = TextOf(row);
  const bool is_whole = TakeNumber(&key, '/', &launch.index) &&
                        TakeNumber(&key, 0, &launch.launch.value) && key.empty() &&
                        TakeNumber(&value, ' ', &launch.pid) &&
                        TakeNumber(&value, 0, &launch.start_ticks) && value.empty();
  if (!is_whole || launch.launch == LaunchId() || launch.pid <= 0 ||
      kind != proto::ProcessKindName(launch.kind)) {
    return MakesNoSense(row);
  }
  return launch;
}

}  // namespace

/// Changes of rows, with what they refer to.
class JobJournal::Batch {
 public:
  void Put(std::string_view key, std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    Change(std::string(key), std::vector<std::byte>(bytes.begin(), bytes.end()));
  }

  /// Nothing: the row is gone.
  void Change(std::string key, std::optional<std::vector<std::byte>> value) {
    const ChangeKind kind = value ? ChangeKind::kPut : ChangeKind::kErase;
    keys_.push_back(std::move(key));
    values_.push_back(std::move(value).value_or(std::vector<std::byte>()));
    changes_.push_back({kind, keys_.back(), values_.back()});
  }

  void ErasePrefix(std::string_view prefix) {
    changes_.push_back({ChangeKind::kErasePrefix, prefix, {}});
  }

  std::span<const RowChange> changes() const { return changes_; }

 private:
  std::deque<std::string> keys_;
  std::deque<std::vector<std::byte>> values_;
  std::vector<RowChange> changes_;
};

Result<std::unique_ptr<JobJournal>> JobJournal::Open(
    checkpoint::Storage& storage,
    const std::string& directory,
    const std::string& boot_id,
    const Logger* log) {
  PS_ASSIGN(
      auto rows, checkpoint::RowStore::Open(storage, directory, checkpoint::OpenMode::kWrite));
  std::unique_ptr<JobJournal> journal(new JobJournal(std::move(rows), log));
  PS_TRY(journal->CheckAbout(boot_id).Annotate("the journal in " + directory));
  return journal;
}

/// A new journal becomes this machine's.
Status JobJournal::CheckAbout(const std::string& boot_id) {
  PS_ASSIGN(const std::vector<Row> version, rows_->Read(kVersionRow));
  if (version.empty()) {
    Batch about;
    about.Put(kVersionRow, kVersion);
    about.Put(kBootRow, boot_id);
    return rows_->Write(about.changes());
  }
  if (TextOf(version[0]) != kVersion) {
    return Status::Unsupported(fmt::format(
        "its version is {}, this program knows version {}; use the program that wrote it",
        TextOf(version[0]),
        kVersion));
  }
  PS_ASSIGN(const std::vector<Row> boot, rows_->Read(kBootRow));
  if (boot.empty() || TextOf(boot[0]) != boot_id) {
    return Status::InvalidArgument(
        "it was written before this machine was started anew, and its newest rows may be lost; go "
        "on from the newest checkpoint with psctl resume");
  }
  return Status::Ok();
}

Result<std::optional<RecoveredJob>> JobJournal::Recover() {
  RecoveredJob job;
  bool is_begun = false;
  PS_TRY(ReadAll(&job, &is_begun).Annotate("the journal"));
  if (is_new_) {  // else it knows better
    port_ = job.port;
    launches_ = {job.launches.begin(), job.launches.end()};
  }
  return is_begun ? std::optional(std::move(job)) : std::nullopt;
}

Status JobJournal::ReadAll(RecoveredJob* job, bool* is_begun) {
  PS_ASSIGN(const std::vector<Row> port, rows_->Read(kPortRow));
  if (std::string_view text = port.empty() ? "0" : TextOf(port[0]);
      !TakeNumber(&text, 0, &job->port) || !text.empty()) {
    return MakesNoSense(port[0]);
  }
  PS_ASSIGN(const std::vector<Row> launches, rows_->Read(kFleetRows));
  for (const Row& row : launches) {
    PS_ASSIGN(job->launches.emplace_back(), LaunchOf(row));
  }
  PS_ASSIGN(const std::vector<Row> rows, rows_->Read(kJobRows));
  *is_begun = !rows.empty();
  if (rows.empty()) {
    return Status::Ok();
  }
  std::vector<proto::SavedRow> saved;
  saved.reserve(rows.size());
  for (const Row& row : rows) {
    saved.push_back({std::string_view(row.key).substr(kJobRows.size()), row.value});
  }
  PS_ASSIGN(job->state, proto::MergeRows(saved));
  return Status::Ok();
}

bool JobJournal::WantsAll(TimePoint now) const {
  return is_behind_ && now >= try_again_at_;
}

void JobJournal::Write(const RowChanges& rows, TimePoint now) {
  if (is_behind_ && !rows.is_all) {
    failures_ += rows.changes.empty() ? 0 : 1;
    return;
  }
  is_new_ = false;
  Batch batch;
  if (rows.is_all) {
    batch.ErasePrefix(kJobRows);
    batch.ErasePrefix(kFleetRows);
    batch.Put(kPortRow, std::to_string(port_));
    for (const LaunchRecord& launch : launches_) {
      batch.Put(KeyOf(launch), ValueOf(launch));
    }
  }
  for (const auto& [id, value] : rows.changes) {
    batch.Change(std::string(kJobRows) + proto::RowKey(id), value);
  }
  Write(batch);
  if (is_behind_) {
    try_again_at_ = now + kTryAgain;
  }
}

void JobJournal::Write(const Batch& batch) {
  if (batch.changes().empty()) {
    return;
  }
  const Status status = rows_->Write(batch.changes());
  is_behind_ = !status.ok();
  trouble_ = status.message();
  if (status.ok()) {
    return;
  }
  if (++failures_ == 1) {
    log_->Error(
        "journal_failed",
        {{"why", status},
         {"meaning", "the run goes on, but not beyond the end of its coordinator"},
         {"remedy", "make room on the disk of the run directory"}});
  }
}

void JobJournal::Note(const Batch& batch) {
  if (!is_behind_) {  // else all rows are written next
    Write(batch);
  }
}

void JobJournal::NotePort(uint32_t port) {
  port_ = port;
  Batch batch;
  batch.Put(kPortRow, std::to_string(port));
  Note(batch);
}

void JobJournal::NoteStarted(const LaunchRecord& launch) {
  launches_.insert(launch);
  Batch batch;
  batch.Put(KeyOf(launch), ValueOf(launch));
  Note(batch);
}

void JobJournal::NoteEnded(const LaunchRecord& launch) {
  launches_.erase(launch);
  Batch batch;
  batch.Change(KeyOf(launch), std::nullopt);
  Note(batch);
}

Result<std::string> ReadBootId() {
  return ReadSmallFile(kBootIdPath, kBootIdBytesMax);
}

}  // namespace ps::coordinator
