#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <variant>

#include "checkpoint/job_store.h"
#include "ps/base/request_thread.h"
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

  void NoteOpened(uint64_t checkpoint) override { thread_.Add(checkpoint); }

  void Commit(ManifestWrite write) override { thread_.Add(std::move(write)); }

 private:
  using Request = std::variant<uint64_t, ManifestWrite>;

  void Do(Request request);
  void WriteNext(uint64_t checkpoint);
  Status Write(ManifestWrite* write);

  checkpoint::JobStore* const store_;
  const Answer answer_;
  RequestThread<Request> thread_;  // one checkpoint is under way at a time
};

}  // namespace ps::coordinator
