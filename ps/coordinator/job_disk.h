#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>
#include <variant>

#include "checkpoint/job_store.h"
#include "ps/base/status.h"
#include "ps/coordinator/manifest_disk.h"

namespace ps::coordinator {

/// The row of a job's store that says the number of the next checkpoint, in decimal.
inline constexpr std::string_view kNextCheckpointRow = "next_checkpoint";

/// The coordinator's disk behind a thread of its own.
class JobDisk final : public ManifestDisk {
 public:
  /// Called by the disk's thread with each answer, again and again until it takes it: it must get
  /// to the core's thread.
  using Answer = std::function<bool(uint64_t checkpoint, const Status& status)>;

  /// `store` outlives it.
  JobDisk(checkpoint::JobStore* store, Answer answer);
  /// Waits for what is being written; the rest is dropped.
  ~JobDisk() override;

  void NoteOpened(uint64_t checkpoint) override { Add(checkpoint); }

  void Commit(ManifestWrite write) override { Add(std::move(write)); }

 private:
  using Request = std::variant<uint64_t, ManifestWrite>;

  void Add(Request request);
  void Run();
  void WriteNext(uint64_t checkpoint);
  Status Write(ManifestWrite* write);

  checkpoint::JobStore* const store_;
  const Answer answer_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Request> requests_;  // under the mutex; one checkpoint is under way at a time
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace ps::coordinator
