#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "checkpoint/remote/upload.h"
#include "ps/base/request_thread.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/http/http.h"
#include "ps/process/ending.h"
#include "ps/store/s3_store.h"

namespace ps::checkpoint {

/// What copying has come to.
struct CopyState {
  CheckpointId newest = 0;  // that is there; 0: none
  uint64_t copied = 0;
  uint64_t failed = 0;  // copies, each after its attempts
  uint64_t sent_bytes = 0;
  std::string trouble;  // why the newest copy failed; empty once one succeeded
};

/// Copies the checkpoints of a run while it trains, on a thread of its own. An attempt that fails
/// is counted and made good by the next one. Thread: any.
class Copier {
 public:
  struct Options {
    std::string path;
    std::string writer;  // names this copier among all
    size_t keep = 0;     // in the target
    /// Makes the target, at the first attempt and after failures to make it.
    std::function<Result<std::unique_ptr<store::ObjectStore>>(store::Pause, IsCancelled)> open;
    /// Before an attempt that failed for a passing reason is made again, twice: the last copy of a
    /// run has no later one that makes it good.
    Duration retry_wait = std::chrono::seconds(2);
    /// Told after each copy and each failure, on the copier's thread, until it is to end. Waits for
    /// nothing.
    std::function<void(const CopyState&)> told;
  };

  explicit Copier(Options options);

  /// Ends what is under way: the next copier goes on with it.
  ~Copier();

  /// As the destructor, which is all that may follow, but a place that gives no answer, or a disk,
  /// holds up nobody for longer than this. Returns false when it still has the thread: the process
  /// is to end without waiting for it (EndWithoutCleanup).
  bool EndWithin(Duration limit);

  /// There is something to be copied: a new checkpoint, or one that a process that is gone left
  /// uncopied. While a copy is made, several calls become one.
  void Poke();

  /// Everything that was there at the last Poke is copied, or has failed.
  bool is_idle() const { return shared_->pending == 0; }

 private:
  class Desk;

  struct Shared {
    Ending ending;
    std::atomic<int> pending = 0;  // copies to be made: one under way and one after it, at most
  };

  const std::shared_ptr<Shared> shared_;
  RequestThread<int> thread_;
};

}  // namespace ps::checkpoint
