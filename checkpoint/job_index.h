#pragma once

#include <array>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/part.h"
#include "checkpoint/storage/storage.h"
#include "ps/base/status.h"

namespace ps::checkpoint {

inline constexpr Column kManifestColumn = 0;
inline constexpr Column kRowColumn = 1;
inline constexpr std::array<std::string_view, 2> kJobColumns = {"manifests", "rows"};

/// "P/job": the coordinator's database in checkpoint path P.
std::string JobDirectory(const std::string& path);

/// "P/job.copy": the same once more.
std::string JobCopyDirectory(const std::string& path);

/// What was wrong with P/job and its copy when they were opened. What one of them had is not lost.
struct IndexDamage {
  std::vector<CheckpointId> lost;  // committed, in the copy, and not in P/job
  // In P/job, and not in the copy, which has newer ones: they were erased, and a damaged log has
  // brought them back; or they could not be written to the copy. A single one is no damage: a crash
  // may come between two writes.
  std::vector<CheckpointId> unmatched;
  // In the copy, and neither in P/job nor are their values there: a program that knows no copy has
  // dropped them. No damage; they have gone from the copy as well.
  std::vector<CheckpointId> dropped;
  Status broken;       // why P/job is not used; ok: it is
  Status copy_broken;  // likewise of the copy
};

/// For the one who has just opened checkpoint path `path` for writing: a line of text for each
/// damage, with what was done about it. Empty: there is none.
std::string IndexDamageText(const IndexDamage& damage, const std::string& path);

/// Two databases with the same in them, so that one whose files are damaged loses no manifest: a
/// storage engine takes a wrong byte in its log for the log's end, and what was written after it is
/// gone in silence. The copy never has a manifest that P/job lacks: it is written after P/job and
/// erased before it. So whatever it has alone, P/job has lost, unless a program that knows no copy
/// has been at work: that one drops the values as well, and what has none was not lost. A log that
/// a crash has torn is no damage: manifests are synced, and only what was not may be torn. Thread:
/// any one at a time.
class JobIndex {
 public:
  /// With kWrite what P/job has lost is put back, and what the copy lacks is added. One that is
  /// damaged stays as it is, and the other one is used alone. Errors: those of Storage::Open.
  static Result<std::unique_ptr<JobIndex>> Open(
      Storage& storage, const std::string& path, OpenMode mode);

  /// As Database::Write. Requires: puts and erasures of manifests are not mixed.
  Status Write(std::span<const Change> changes, Durability durability);

  /// As those of Database. A manifest that P/job can't give is read from the copy.
  Status Read(Column column, std::string_view key, const Database::Visitor& visit);
  Status Scan(Column column, std::string_view prefix, const Database::Visitor& visit);

  const IndexDamage& damage() const { return damage_; }

 private:
  using Keys = std::set<std::string>;

  JobIndex(Storage* storage, std::string path) : storage_(storage), path_(std::move(path)) {}

  Status OpenToRead();
  Status OpenToWrite();
  Status MakeAlike();
  /// What the copy has alone, by whether its values are there.
  void SortMissed(const Keys& missed);
  bool HasLostItsValues(const std::string& key);
  Status CopyRows(Database* from, Database* to);
  void NoteUnmatched(const Keys& in_main, const Keys& in_copy);

  Storage* const storage_;
  const std::string path_;
  std::unique_ptr<Database> main_;  // null: the copy is used alone
  std::unique_ptr<Database> copy_;  // null: there is none that can be used
  Keys lost_;                       // manifests that only the copy has
  Keys dropped_;                    // likewise, but their values are gone
  IndexDamage damage_;
};

}  // namespace ps::checkpoint
