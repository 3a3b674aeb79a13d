// Rows of the journal:
//
//   about/version          format of the rows, in decimal
//   about/boot             boot id of the machine that wrote them
//   about/port             where the coordinator listens, in decimal
//   fleet/KIND/INDEX/PID   START_TICKS of a process that is not known to be over

#include "ps/coordinator/job_journal.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <utility>

#include "ps/base/file.h"

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
constexpr std::string_view kVersion = "1";
constexpr const char* kBootIdPath = "/proc/sys/kernel/random/boot_id";
constexpr size_t kBootIdBytesMax = 256;

std::string_view TextOf(const Row& row) {
  return {reinterpret_cast<const char*>(row.value.data()), row.value.size()};
}

RowChange Put(std::string_view key, std::string_view text) {
  return {ChangeKind::kPut, key, std::as_bytes(std::span(text))};
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
      "{}{}/{:08}/{}", kFleetRows, proto::ProcessKindName(launch.kind), launch.index, launch.pid);
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
  const bool is_whole = TakeNumber(&key, '/', &launch.index) && TakeNumber(&key, 0, &launch.pid) &&
                        key.empty() && TakeNumber(&value, 0, &launch.start_ticks) && value.empty();
  if (!is_whole || launch.pid <= 0 || kind != proto::ProcessKindName(launch.kind)) {
    return MakesNoSense(row);
  }
  return launch;
}

}  // namespace

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
    const std::array about = {Put(kVersionRow, kVersion), Put(kBootRow, boot_id)};
    return rows_->Write(about);
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
  return std::optional<RecoveredJob>();
}

Result<std::vector<LaunchRecord>> JobJournal::ReadLaunches() {
  PS_ASSIGN(const std::vector<Row> rows, rows_->Read(kFleetRows));
  std::vector<LaunchRecord> launches;
  for (const Row& row : rows) {
    PS_ASSIGN(launches.emplace_back(), LaunchOf(row));
  }
  return launches;
}

void JobJournal::Write(std::span<const RowChange> changes) {
  const Status status = rows_->Write(changes);
  trouble_ = status.message();
  if (status.ok()) {
    return;
  }
  if (++failures_ == 1) {
    log_->Error(
        "journal_failed",
        {{"why", status},
         {"meaning", "the run goes on, and can't when its coordinator is killed"},
         {"remedy", "make room on the disk of the run directory"}});
  }
}

void JobJournal::NotePort(uint32_t port) {
  const std::string text = std::to_string(port);
  const RowChange change = Put(kPortRow, text);
  Write({&change, 1});
}

void JobJournal::NoteStarted(const LaunchRecord& launch) {
  const std::string key = KeyOf(launch);
  const std::string value = std::to_string(launch.start_ticks);
  const RowChange change = Put(key, value);
  Write({&change, 1});
}

void JobJournal::NoteEnded(const LaunchRecord& launch) {
  const std::string key = KeyOf(launch);
  const RowChange change = {ChangeKind::kErase, key, {}};
  Write({&change, 1});
}

Result<std::string> ReadBootId() {
  return ReadSmallFile(kBootIdPath, kBootIdBytesMax);
}

}  // namespace ps::coordinator
