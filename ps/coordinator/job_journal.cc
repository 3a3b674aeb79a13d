// Rows of the journal:
//
//   about/version          format of the rows, in decimal
//   about/boot             boot id of the machine that wrote them
//   about/port             where the coordinator listens, in decimal
//   about/writes           how often rows were written, in decimal
//   job/ROW                a row of the job's state: ps/proto/state/job_rows.h
//   fleet/KIND/INDEX/LAUNCH
//                          "PID START_TICKS" of a process that is not known to be over
//
// The mark beside them:
//
//   whole N                after write N; rows that say less have lost some
//   behind                 the disk has refused rows that others were told of

#include "ps/coordinator/job_journal.h"

#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <deque>
#include <utility>

#include "ps/base/file.h"
#include "ps/proto/state/job_rows.h"

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
constexpr std::string_view kWritesRow = "about/writes";
constexpr std::string_view kFleetRows = "fleet/";
constexpr std::string_view kJobRows = "job/";
constexpr std::string_view kVersion = "3";
constexpr std::string_view kWholeMark = "whole ";
constexpr const char* kBehindMark = "behind";
constexpr const char* kRemedy = "go on from the newest checkpoint with psctl resume";
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
  PS_ASSIGN(auto mark, storage.OpenMark(directory));
  std::unique_ptr<JobJournal> journal(new JobJournal(std::move(rows), std::move(mark), log));
  PS_TRY(journal->CheckAbout(boot_id).Annotate("the journal in " + directory));
  return journal;
}

std::vector<LaunchRecord> JobJournal::ReadLaunches(
    checkpoint::Storage& storage, const std::string& directory, const std::string& boot_id) {
  std::vector<LaunchRecord> launches;
  const auto rows = checkpoint::RowStore::Open(storage, directory, checkpoint::OpenMode::kRead);
  const auto boot = rows.ok() ? (*rows)->Read(kBootRow) : rows.status();
  if (!boot.ok() || boot->empty() || TextOf(boot->front()) != boot_id) {
    return launches;
  }
  const auto fleet = (*rows)->Read(kFleetRows);
  for (const Row& row : fleet.ok() ? *fleet : std::vector<Row>()) {
    if (Result<LaunchRecord> launch = LaunchOf(row); launch.ok()) {
      launches.push_back(std::move(launch).value());
    }
  }
  return launches;
}

/// A new journal becomes this machine's.
Status JobJournal::CheckAbout(const std::string& boot_id) {
  PS_ASSIGN(const std::vector<Row> version, rows_->Read(kVersionRow));
  if (version.empty()) {
    PS_TRY(CheckMark(true));
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
    return Status::InvalidArgument(fmt::format(
        "it was written before this machine was started anew, and its newest rows may be lost; {}",
        kRemedy));
  }
  return CheckMark(false);
}

/// Nothing is lost when the rows have one write more than the mark: a kill came between the two,
/// perhaps before there was any mark. A journal that an older program wrote has neither.
Status JobJournal::CheckMark(bool is_new) {
  PS_ASSIGN(const std::vector<Row> rows, rows_->Read(kWritesRow));
  if (std::string_view text = rows.empty() ? "0" : TextOf(rows[0]);
      !TakeNumber(&text, 0, &writes_) || !text.empty()) {
    return MakesNoSense(rows[0]);
  }
  PS_ASSIGN(const std::string marked, mark_->Read());
  if (marked == kBehindMark) {
    return FellBehind();
  }
  uint64_t wanted = 0;
  std::string_view number = marked;
  const bool is_whole = number.starts_with(kWholeMark);
  number.remove_prefix(is_whole ? kWholeMark.size() : 0);
  if (marked.empty() ? writes_ > 1 : !is_whole || !TakeNumber(&number, 0, &wanted)) {
    return Status::Corruption(
        fmt::format("its mark is \"{}\", which makes no sense; {}", marked, kRemedy));
  }
  if (writes_ < wanted) {
    return Status::Corruption(fmt::format(
        "{} of its {} writes are lost{}; {}",
        wanted - writes_,
        wanted,
        is_new ? ", all rows with them" : "",
        kRemedy));
  }
  return Status::Ok();
}

Status JobJournal::FellBehind() {
  return Status::InvalidArgument(fmt::format(
      "it fell behind: the disk took no more rows, and what happened since is not in it; {}",
      kRemedy));
}

void JobJournal::TellOf(std::atomic<bool>* is_behind) {
  told_ = is_behind;
  told_->store(is_behind_ && failures_ > 0);
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
  Write(&batch);
  if (is_behind_) {
    try_again_at_ = now + kTryAgain;
  }
}

void JobJournal::Write(Batch* batch) {
  if (batch->changes().empty()) {
    return;
  }
  batch->Put(kWritesRow, std::to_string(writes_ + 1));
  const Status status = rows_->Write(batch->changes());
  is_behind_ = !status.ok();
  if (told_ != nullptr) {
    told_->store(is_behind_);
  }
  trouble_ = status.message();
  if (status.ok()) {
    ++writes_;
    SetMark(fmt::format("{}{}", kWholeMark, writes_));
    return;
  }
  if (!is_marked_behind_) {
    SetMark(kBehindMark);
  }
  if (++failures_ == 1) {
    log_->Error("journal_write_failed", {{"why", status}});  // the host tells what it means
  }
}

/// The rows come before "whole", which they are from then on, and after "behind".
void JobJournal::SetMark(const std::string& text) {
  const Status status = mark_->Write(text);
  is_marked_behind_ = text == kBehindMark && status.ok();
  if (!status.ok() && trouble_.empty()) {
    trouble_ = status.message();
  }
}

void JobJournal::Note(Batch* batch) {
  if (!is_behind_) {  // else all rows are written next
    Write(batch);
  }
}

void JobJournal::NotePort(uint32_t port) {
  port_ = port;
  Batch batch;
  batch.Put(kPortRow, std::to_string(port));
  Note(&batch);
}

void JobJournal::NoteStarted(const LaunchRecord& launch) {
  launches_.insert(launch);
  Batch batch;
  batch.Put(KeyOf(launch), ValueOf(launch));
  Note(&batch);
}

void JobJournal::NoteEnded(const LaunchRecord& launch) {
  launches_.erase(launch);
  Batch batch;
  batch.Change(KeyOf(launch), std::nullopt);
  Note(&batch);
}

Result<std::string> ReadBootId() {
  return ReadSmallFile(kBootIdPath, kBootIdBytesMax);
}

}  // namespace ps::coordinator
