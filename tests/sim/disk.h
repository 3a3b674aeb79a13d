#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/job_store.h"
#include "ps/base/check.h"
#include "ps/base/random.h"
#include "ps/coordinator/state/manifest_disk.h"
#include "ps/proto/state/job_state.h"
#include "ps/proto/state/shard_state.h"
#include "ps/server/checkpoints/disk_work.h"
#include "tests/checkpoint/memory_storage.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/network.h"
#include "tests/sim/scenario.h"

namespace ps::sim {

/// What is asked of a disk by one process, done one after the other, each after a random time.
/// Nothing is done any more once the process is gone.
class DiskQueue {
 public:
  /// All outlive it. A request takes up to `delay_max`.
  DiskQueue(EventQueue* queue, Network* network, int node, uint64_t seed, Duration delay_max)
      : queue_(queue),
        network_(network),
        node_(node),
        random_(seed),
        delay_max_(delay_max),
        is_open_(std::make_shared<bool>(true)) {}

  DiskQueue(const DiskQueue&) = delete;
  DiskQueue& operator=(const DiskQueue&) = delete;

  ~DiskQueue() { *is_open_ = false; }

  void Add(std::function<void()> work) {
    work_.push_back(std::move(work));
    if (work_.size() == 1) {
      DoNext();
    }
  }

  /// The process dies, and the disk may just have done what was asked of it, which nobody hears.
  void Close() {
    const bool is_idle = !*is_open_ || work_.empty() || is_working_;
    *is_open_ = false;
    if (!is_idle && random_.Chance(0.3)) {
      work_.front()();
    }
  }

  bool is_open() const { return *is_open_; }

 private:
  void DoNext() {
    const auto delay = FromSeconds(random_.Unit() * Seconds(delay_max_));
    queue_->After(delay, [this, is_open = is_open_] {
      if (*is_open) {
        network_->WhenAwake(node_, [this, is_open] { Do(*is_open); });
      }
    });
  }

  void Do(const bool& is_open) {
    if (!is_open) {
      return;
    }
    is_working_ = true;
    work_.front()();
    if (is_open) {
      is_working_ = false;
      work_.pop_front();
      if (!work_.empty()) {
        DoNext();
      }
    }
  }

  EventQueue* const queue_;
  Network* const network_;
  const int node_;
  Random random_;
  const Duration delay_max_;
  const std::shared_ptr<bool> is_open_;  // outlives this, for events on their way
  bool is_working_ = false;
  std::deque<std::function<void()>> work_;
};

/// The disk of a shard's process: the production work on it, in virtual time.
class SimDisk final : public server::ShardDisk {
 public:
  struct Answers {
    std::function<void(server::ChunkWritten)> chunk;
    std::function<void(server::PartWritten)> part;
    std::function<void(server::Restored)> restored;
    /// The shard begins to write a checkpoint of what it has now.
    std::function<void(uint64_t checkpoint)> snapshot;
    /// A part is on the disk, whether the process hears of it or not.
    std::function<void(uint64_t checkpoint)> committed;
  };

  SimDisk(
      checkpoint::Storage* storage,
      ShardId shard,
      const TimeSource* time,
      DiskQueue* queue,
      Sabotage sabotage,
      Answers answers)
      : time_(time),
        queue_(queue),
        shard_(shard),
        sabotage_(sabotage),
        answers_(std::move(answers)),
        work_(std::in_place, storage, shard) {}

  void Use(server::DiskPlace place) override { work_->Use(std::move(place)); }

  void Release(server::ReleaseRequest what) override {
    queue_->Add([this, what = std::move(what)] { work_->Do(what); });
  }

  /// All that has changed is asked for in the instant in which a checkpoint begins.
  void Write(server::ChunkWrite write) override {
    if (write.checkpoint != begun_ || time_->Now() != begun_at_) {
      Begin(write.checkpoint);
    }
    queue_->Add([this, write = std::make_shared<server::ChunkWrite>(std::move(write))] {
      server::ChunkWritten written = work_->Do(*write);
      if (queue_->is_open()) {
        answers_.chunk(std::move(written));
      }
    });
  }

  void Commit(server::PartWrite write) override {
    if (write.checkpoint != begun_) {
      Begin(write.checkpoint);
    }
    begun_ = 0;
    queue_->Add([this, write = std::make_shared<server::PartWrite>(std::move(write))] {
      const bool is_kept = sabotage_ != Sabotage::kMissingPart;
      server::PartWritten written =
          is_kept
              ? work_->Do(*write)
              : server::PartWritten{
                    write->life, write->checkpoint, checkpoint::PartSummary(), Status::Ok(), ""};
      if (is_kept && written.summary.ok()) {
        answers_.committed(write->checkpoint);
      }
      if (queue_->is_open()) {
        answers_.part(std::move(written));
      }
    });
  }

  void Restore(server::RestoreRequest what) override {
    begun_ = 0;
    const bool is_older = sabotage_ == Sabotage::kOlderCheckpoint ||
                          (sabotage_ == Sabotage::kOtherCheckpoint && shard_ == ShardId(0));
    what.checkpoint -= is_older && what.checkpoint > 1 ? 1 : 0;
    queue_->Add([this, what = std::make_shared<server::RestoreRequest>(std::move(what))] {
      server::Restored restored = work_->Do(*what);
      Tamper(&restored);
      if (queue_->is_open()) {
        answers_.restored(std::move(restored));
      }
    });
  }

  /// The process dies: what was not flushed is lost, and others may open its store.
  void Close() {
    queue_->Close();
    work_.reset();
  }

 private:
  void Begin(uint64_t checkpoint) {
    begun_ = checkpoint;
    begun_at_ = time_->Now();
    answers_.snapshot(checkpoint);
  }

  void Tamper(server::Restored* restored) const {
    if (!restored->what.ok()) {
      return;
    }
    if (sabotage_ == Sabotage::kForgottenSlots) {
      for (server::RestoredPart::Chunk& chunk : restored->what->chunks) {
        for (Buffer& slot : chunk.data.slots) {
          std::ranges::fill(slot.floats(), 0.0F);
        }
      }
    } else if (sabotage_ == Sabotage::kForgottenClock && !restored->what->state.empty()) {
      Result<proto::ShardState> state = proto::DecodeShardState(restored->what->state);
      PS_CHECK(state.ok()) << state.status();
      state->samples_done = 0;
      restored->what->state = proto::EncodeShardState(*state);
    }
  }

  const TimeSource* const time_;
  DiskQueue* const queue_;
  const ShardId shard_;
  const Sabotage sabotage_;
  const Answers answers_;
  std::optional<server::DiskWork> work_;
  uint64_t begun_ = 0;  // the checkpoint whose chunks are being asked for; 0: none
  TimePoint begun_at_{};
};

/// The coordinator's disk.
class SimManifestDisk final : public coordinator::ManifestDisk {
 public:
  struct Answers {
    std::function<void(uint64_t checkpoint, const Status& status)> written;
    std::function<void(uint64_t checkpoint, const Result<checkpoint::Manifest>& manifest)> read;
    /// A checkpoint exists, whether the process hears of it or not.
    std::function<void(const checkpoint::Manifest& manifest)> committed;
    /// A manifest is to be read: all servers go back to it.
    std::function<void()> reading;
    /// The number is used from now on.
    std::function<void(uint64_t checkpoint)> opened;
  };

  SimManifestDisk(checkpoint::Storage* storage, std::string path, DiskQueue* queue, Answers answers)
      : storage_(storage), path_(std::move(path)), queue_(queue), answers_(std::move(answers)) {}

  void NoteOpened(uint64_t checkpoint) override { answers_.opened(checkpoint); }

  void Commit(coordinator::ManifestWrite write) override {
    queue_->Add([this, write = std::make_shared<coordinator::ManifestWrite>(std::move(write))] {
      const Status status = Do(*write);
      if (queue_->is_open()) {
        answers_.written(write->checkpoint, status);
      }
    });
  }

  void Read(uint64_t checkpoint) override {
    answers_.reading();
    queue_->Add([this, checkpoint] {
      const Result<checkpoint::Manifest> manifest = DoRead(checkpoint);
      if (queue_->is_open()) {
        answers_.read(checkpoint, manifest);
      }
    });
  }

  void NoteSetAside(std::vector<checkpoint::SetAside> all) override {
    queue_->Add([this, all = std::move(all)] {
      DoNote(all).Ignore("who comes back finds out again that they can't be restored");
    });
  }

  /// Those that exist and are not used.
  std::vector<checkpoint::SetAside> SetAside() {
    PS_CHECK(Open().ok());
    const auto set_aside = store_->ReadSetAside();
    PS_CHECK(set_aside.ok()) << set_aside.status();
    return *set_aside;
  }

  /// The checkpoints that exist, oldest first. One whose manifest can't be read is found out when
  /// it is asked for.
  std::vector<proto::KeptCheckpoint> Kept() {
    constexpr int kTries = 20;
    for (int i = 0; i < kTries && !Open().ok(); ++i) {
      // Whoever starts a coordinator does so again while its disk fails.
    }
    PS_CHECK(Open().ok());
    const auto ids = store_->Manifests();
    PS_CHECK(ids.ok()) << ids.status();
    std::vector<proto::KeptCheckpoint> kept;
    const std::vector<checkpoint::SetAside> set_aside = SetAside();
    for (const checkpoint::CheckpointId id : *ids) {
      if (std::ranges::find(set_aside, id, &checkpoint::SetAside::id) != set_aside.end()) {
        continue;
      }
      const auto manifest = DoRead(id);
      const auto shards = manifest.ok() ? static_cast<uint32_t>(manifest->parts.size()) : 0;
      kept.push_back(
          {id,
           shards,
           manifest.ok() ? manifest->progress.steps : 0,
           manifest.ok() ? manifest->progress.samples : 0});
    }
    return kept;
  }

  /// The process ends.
  void Close() {
    queue_->Close();
    store_.reset();
  }

 private:
  Status Open() {
    if (store_ == nullptr) {
      PS_ASSIGN(store_, checkpoint::JobStore::Open(*storage_, path_, checkpoint::OpenMode::kWrite));
    }
    return Status::Ok();
  }

  Result<checkpoint::Manifest> DoRead(uint64_t checkpoint) {
    PS_TRY(Open());
    PS_ASSIGN(const std::vector<std::byte> bytes, store_->ReadManifest(checkpoint));
    return checkpoint::DecodeManifest(checkpoint, bytes);
  }

  Status DoNote(std::span<const checkpoint::SetAside> all) {
    PS_TRY(Open());
    return store_->NoteSetAside(all);
  }

  Status Do(const coordinator::ManifestWrite& write) {
    PS_TRY(Open());
    PS_TRY(store_->PutManifest(write.checkpoint, checkpoint::EncodeManifest(write.manifest)));
    answers_.committed(write.manifest);
    for (const uint64_t dropped : write.dropped) {
      PS_TRY(store_->DeleteManifest(dropped));
    }
    return Status::Ok();
  }

  checkpoint::Storage* const storage_;
  const std::string path_;
  DiskQueue* const queue_;
  const Answers answers_;
  std::unique_ptr<checkpoint::JobStore> store_;  // once needed
};

}  // namespace ps::sim
