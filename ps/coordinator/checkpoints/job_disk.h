#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "checkpoint/job_store.h"
#include "ps/base/request_thread.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/coordinator/state/manifest_disk.h"
#include "ps/process/ending.h"

namespace ps::coordinator {

/// The row of a job's store that says the number of the next checkpoint, in decimal.
inline constexpr std::string_view kNextCheckpointRow = "next_checkpoint";

/// The coordinator's disk behind a thread of its own.
class JobDisk final : public ManifestDisk {
 public:
  using ManifestRead = std::shared_ptr<const Result<checkpoint::Manifest>>;

  /// Called by the disk's thread with each answer, again and again until it is taken (true): it
  /// must get to the core's thread. Not called any more once EndWithin has returned.
  struct Answers {
    std::function<bool(uint64_t checkpoint, const Status& status)> written;
    std::function<bool(uint64_t checkpoint, const ManifestRead& manifest)> read;
  };

  /// Whoever wants the store to be closed by the disk's thread, and not to wait for it longer than
  /// EndWithin does, keeps no other reference to it.
  JobDisk(std::shared_ptr<checkpoint::JobStore> store, Answers answers);

  /// Waits for what is being written for as long as it takes.
  ~JobDisk() override;

  /// As the destructor, which is all that may follow, but a disk that gives no answer holds up
  /// nobody for longer than this. Returns false when it still has the thread and the store: they
  /// go when it answers, and the process is to end without waiting for them (EndWithoutCleanup).
  bool EndWithin(Duration limit);

  void NoteOpened(uint64_t checkpoint) override { thread_.Add(Opened{checkpoint}); }

  void Commit(ManifestWrite write) override { thread_.Add(std::move(write)); }

  void Read(uint64_t checkpoint) override { thread_.Add(Wanted{checkpoint}); }

  void NoteSetAside(std::vector<checkpoint::SetAside> all) override { thread_.Add(std::move(all)); }

 private:
  struct Opened {
    uint64_t checkpoint = 0;
  };

  struct Wanted {
    uint64_t checkpoint = 0;
  };

  using Request = std::variant<Opened, ManifestWrite, Wanted, std::vector<checkpoint::SetAside>>;

  class Desk;

  const std::shared_ptr<Ending> ending_;
  RequestThread<Request> thread_;  // one checkpoint is under way at a time
};

}  // namespace ps::coordinator
