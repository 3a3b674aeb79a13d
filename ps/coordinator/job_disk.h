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
#include "ps/coordinator/manifest_disk.h"

namespace ps::coordinator {

/// The row of a job's store that says the number of the next checkpoint, in decimal.
inline constexpr std::string_view kNextCheckpointRow = "next_checkpoint";

/// The coordinator's disk behind a thread of its own.
class JobDisk final : public ManifestDisk {
 public:
  using ManifestRead = std::shared_ptr<const Result<checkpoint::Manifest>>;

  /// Called by the disk's thread with each answer, again and again until it is taken (true): it
  /// must get to the core's thread.
  struct Answers {
    std::function<bool(uint64_t checkpoint, const Status& status)> written;
    std::function<bool(uint64_t checkpoint, const ManifestRead& manifest)> read;
  };

  /// `store` outlives it.
  JobDisk(checkpoint::JobStore* store, Answers answers);

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

  void Do(Opened opened);
  void Do(ManifestWrite write);
  void Do(Wanted wanted);
  void Do(const std::vector<checkpoint::SetAside>& set_aside);
  Status Write(ManifestWrite* write);
  void Answer(const std::function<bool()>& deliver);

  checkpoint::JobStore* const store_;
  const Answers answers_;
  RequestThread<Request> thread_;  // one checkpoint is under way at a time
};

}  // namespace ps::coordinator
