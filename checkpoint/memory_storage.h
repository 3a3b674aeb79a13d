#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/storage.h"
#include "ps/base/random.h"

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
  Result<std::vector<std::string>> List(const std::string& path) override;
  Status Remove(const std::string& directory) override;

  void SetFaultHook(FaultHook hook) { hook_ = std::move(hook); }

  /// `path`: a database or a directory of some. Requires: none of these is open.
  void LoseMachine(const std::string& path);

  /// Flips a bit of something that is synced, wherever it is. False when there is nothing.
  bool FlipBit(const std::string& directory, Random* random);

  /// The value of a key on the disk, to be damaged; null when there is none.
  std::vector<std::byte>* ValueOf(
      const std::string& directory, Column column, const std::string& key);

  struct Disk;

 private:
  std::mutex mutex_;                                    // of disks_, taken before a disk's own
  std::map<std::string, std::shared_ptr<Disk>> disks_;  // by directory
  FaultHook hook_;
};

}  // namespace ps::checkpoint
