#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/storage/storage.h"
#include "ps/base/random.h"
#include "ps/base/status.h"

namespace ps::checkpoint {

/// What is about to be asked of a database, for tests that make it fail.
enum class Operation : uint8_t { kOpen, kWrite, kFlush, kRead, kScan, kPrune };

/// Databases in memory: the disk of simulations and tests. It forgets as a disk does: a closed
/// database has lost what was written with kFlush since its last Flush, as by SIGKILL, and
/// LoseMachine takes the logged writes after the last sync, too. Must outlive its databases.
/// Thread: any; SetFaultHook before the others, and the hook is called from their threads.
class MemoryStorage final : public Storage {
 public:
  /// Asked before each operation; a failure is returned in its place and nothing is done.
  using FaultHook = std::function<Status(Operation operation, const std::string& directory)>;

  MemoryStorage();
  ~MemoryStorage() override;

  Result<std::unique_ptr<Database>> Open(
      const std::string& directory,
      std::span<const std::string_view> columns,
      OpenMode mode) override;
  /// No fault of the disk reaches a mark but RefuseMarks.
  Result<std::unique_ptr<Mark>> OpenMark(const std::string& directory) override;
  Result<std::vector<std::string>> List(const std::string& path) override;
  Status Remove(const std::string& directory) override;

  void SetFaultHook(FaultHook hook) { hook_ = std::move(hook); }

  /// `path`: a database or a directory of some. Requires: none of these is open.
  void LoseMachine(const std::string& path);

  // Faults of a disk. `path` is a database, or a directory of some; the root is "".

  /// Nothing more fits on the disk until it is told otherwise: a write or a flush gives kIo and
  /// changes nothing, and no database can be opened for writing. What is there can be read.
  void SetFull(const std::string& path, bool is_full);

  /// Marks can't be written until it is told otherwise, and keep what they say.
  void RefuseMarks(bool is_refused);

  /// The next `count` attempts to open a database for writing give `why`, those of a database that
  /// opens itself anew (FailWriters) as well. 0: no more attempts fail.
  void FailOpens(const std::string& path, uint32_t count, Status why);

  /// The disk fails for the databases that are open for writing: each loses its kFlush writes since
  /// the last Flush, counts that in losses(), and opens itself anew before its next write. Until
  /// that succeeds it can be read.
  void FailWriters(const std::string& path);

  /// Flips a bit of something that is synced, wherever it is. False when there is nothing.
  bool FlipBit(const std::string& directory, Random* random);

  /// The value of a key on the disk, to be damaged; null when there is none.
  std::vector<std::byte>* ValueOf(
      const std::string& directory, Column column, const std::string& key);

  struct Disk;

 private:
  class OpenDatabase;
  class OpenedMark;

  /// Attempts to open a database that fail.
  struct FailingOpens {
    uint32_t count = 0;
    Status why;
  };

  /// What opening `directory` for writing gives; counts the attempt.
  Status TryOpen(const std::string& directory);
  Status CheckSpace(const std::string& directory);

  std::mutex mutex_;  // of all but the hook, taken before a disk's own
  std::map<std::string, std::shared_ptr<Disk>> disks_;  // by directory
  std::map<std::string, std::string> marks_;            // by directory
  bool are_marks_refused_ = false;
  std::set<std::string> full_;                         // paths
  std::map<std::string, FailingOpens> failing_opens_;  // by path
  FaultHook hook_;
};

}  // namespace ps::checkpoint
