#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/row_store.h"
#include "ps/base/logger.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/coordinator/state/touched_rows.h"
#include "ps/proto/state/job_state.h"
#include "ps/proto/state/launch_journal.h"

namespace ps::coordinator {

/// What a coordinator goes on from after the end of its predecessor.
struct RecoveredJob {
  proto::JobState state;
  uint32_t port = 0;                          // at which the predecessor listened
  std::vector<proto::LaunchRecord> launches;  // processes whose end it had not seen
};

/// The coordinator's journal: its durable state as rows in a database of its own, and the processes
/// that its fleet has started. What was written survives a SIGKILL of this process. It does not
/// survive the machine: a journal of another boot is refused, and the run goes on from its newest
/// checkpoint. So is one that fell behind, since the disk took no more rows, and one that has lost
/// rows: the mark beside the rows says how many writes they must have, or that they are not all.
/// Thread: any one at a time.
class JobJournal final : public proto::LaunchJournal {
 public:
  /// Creates what is missing. `boot_id` is that of this machine (ReadBootId). `log` outlives the
  /// journal. Errors: kUnavailable (another process has it open), kInvalidArgument (it is of
  /// another boot or fell behind, with the remedy), kUnsupported (of another version), kCorruption
  /// (damaged, or rows are lost), kIo.
  static Result<std::unique_ptr<JobJournal>> Open(
      checkpoint::Storage& storage,
      const std::string& directory,
      const std::string& boot_id,
      const Logger* log);

  /// Processes that the journal names, whatever else is wrong with it: those that are to be ended
  /// before the run goes on without it. Nothing when they are of another boot.
  static std::vector<proto::LaunchRecord> ReadLaunches(
      checkpoint::Storage& storage, const std::string& directory, const std::string& boot_id);

  /// What the predecessor has left; nothing when no job was begun here. Errors: kCorruption naming
  /// the row, kIo.
  Result<std::optional<RecoveredJob>> Recover();

  /// The next Write is to have all rows: it is the first one, or the last one failed a while ago.
  bool WantsAll(TimePoint now) const;
  /// What the core's last event has changed. It survives a SIGKILL from then on, unless the disk
  /// refuses it: that is told once, counted, and tried again with all rows. Until these are
  /// written, the mark says that the journal is behind, before anybody is told of the event.
  void Write(const RowChanges& rows, TimePoint now);

  /// Memory of a process that outlives this one, set while the disk lacks rows that others were
  /// told of: it may refuse the mark, too. Outlives the journal.
  void TellOf(std::atomic<bool>* is_behind);

  /// How a journal is refused whose disk lacks rows.
  static Status FellBehind();

  /// The coordinator listens at this port: its successor will, too.
  void NotePort(uint32_t port);

  // proto::LaunchJournal.
  void NoteStarted(const proto::LaunchRecord& launch) override;
  void NoteEnded(const proto::LaunchRecord& launch) override;

  /// Events of the core whose rows were not written.
  uint64_t failures() const { return failures_; }

  /// Why the newest write failed; empty when it did not.
  const std::string& trouble() const { return trouble_; }

 private:
  class Batch;

  JobJournal(
      std::unique_ptr<checkpoint::RowStore> rows,
      std::unique_ptr<checkpoint::Mark> mark,
      const Logger* log)
      : rows_(std::move(rows)), mark_(std::move(mark)), log_(log) {}

  Status CheckAbout(const std::string& boot_id);
  Status CheckMark(bool is_new);
  Status ReadAll(RecoveredJob* job, bool* is_begun);
  void Write(Batch* batch);
  void Note(Batch* batch);
  void SetMark(const std::string& text);

  const std::unique_ptr<checkpoint::RowStore> rows_;
  const std::unique_ptr<checkpoint::Mark> mark_;
  const Logger* const log_;
  uint64_t writes_ = 0;            // over the life of the journal, that the rows have
  bool is_marked_behind_ = false;  // for the next one who opens it
  bool is_new_ = true;             // nothing was written by this process
  bool is_behind_ = true;          // the rows on the disk are not all of them
  std::atomic<bool>* told_ = nullptr;
  TimePoint try_again_at_{};
  uint32_t port_ = 0;
  std::set<proto::LaunchRecord> launches_;
  uint64_t failures_ = 0;
  std::string trouble_;
};

/// The boot of the kernel that runs. Errors: kIo.
Result<std::string> ReadBootId();

}  // namespace ps::coordinator
