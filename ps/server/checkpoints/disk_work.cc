#include "ps/server/checkpoints/disk_work.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "checkpoint/job_store.h"
#include "checkpoint/storage/failure.h"

namespace ps::server {

using checkpoint::CheckpointId;
using checkpoint::ChunkRef;
using checkpoint::OpenMode;
using checkpoint::ShardStore;

namespace {

/// Directories that a shard may have: each time its store is damaged it begins another one.
constexpr uint32_t kDirectoriesMax = 9;

/// Chooses between two reasons why a part was not found: a passing failure before damage, damage
/// before absence.
/// A directory that can't be read now may be the one that has it.
Status Graver(Status a, Status b) {
  const auto rank = [](const Status& status) {
    return !IsDamage(status) ? 2 : status.code() == StatusCode::kNotFound ? 0 : 1;
  };
  return rank(a) >= rank(b) ? a : b;
}

/// "shard-3", "shard-3.2", "shard-3.3", ...
std::string DirectoryOf(ShardId shard, uint32_t n) {
  const std::string name = checkpoint::ShardDirectory(shard);
  return n == 1 ? name : fmt::format("{}.{}", name, n);
}

}  // namespace

void DiskWork::Use(DiskPlace place) {
  if (place.path != place_.path) {
    own_.reset();
  }
  place_ = std::move(place);
}

Result<ShardStore*> DiskWork::Own() {
  Status damage;
  for (uint32_t n = 1; own_ == nullptr && n <= kDirectoriesMax; ++n) {
    const std::string directory = DirectoryOf(shard_, n);
    Result<std::unique_ptr<ShardStore>> store =
        ShardStore::Open(*storage_, place_.path, directory, OpenMode::kWrite);
    if (store.ok()) {
      own_ = std::move(store).value();
      own_->LimitWrites(place_.bytes_per_s);
      directory_ = directory;
    } else if (checkpoint::IsUnusable(store.status())) {
      damage = store.status();
    } else {
      return store.status();
    }
  }
  if (own_ == nullptr) {
    return damage;
  }
  return own_.get();
}

/// A shard that has written a checkpoint has a database. Where there is none at all, its folder is
/// not there for now, and one made anew in its mount point would look like a lost part.
Status DiskWork::CheckStored(ShardId shard, CheckpointId checkpoint) const {
  for (uint32_t n = 1; n <= kDirectoriesMax; ++n) {
    const auto store =
        ShardStore::Open(*storage_, place_.path, DirectoryOf(shard, n), OpenMode::kRead);
    if (store.status().code() != StatusCode::kNotFound) {
      return Status::Ok();
    }
  }
  return Status::Unavailable(fmt::format(
      "{}/{} on this host has no database, and checkpoint {} was written there: mount what it was "
      "written to; the server tries again by itself",
      place_.path,
      DirectoryOf(shard, 1),
      checkpoint));
}

/// The newest directory of the shard that has the checkpoint.
Result<DiskWork::FoundPart> DiskWork::FindPart(ShardId from, CheckpointId checkpoint) {
  PS_ASSIGN(const std::vector<std::string> names, storage_->List(place_.path));
  Status why = Status::NotFound(fmt::format(
      "no part of checkpoint {} in {}/{}", checkpoint, place_.path, DirectoryOf(from, 1)));
  for (uint32_t n = kDirectoriesMax; n > 0; --n) {
    const std::string directory = DirectoryOf(from, n);
    if (std::find(names.begin(), names.end(), directory) == names.end()) {
      continue;
    }
    FoundPart found;
    ShardStore* store = own_.get();
    if (from != shard_ || directory != directory_) {
      auto other = ShardStore::Open(*storage_, place_.path, directory, OpenMode::kRead);
      if (!other.ok()) {
        why = Graver(std::move(why), other.status());
        continue;
      }
      found.other = std::move(other).value();
      store = found.other.get();
    }
    Result<checkpoint::PartRecord> part = store->ReadPart(checkpoint);
    if (part.ok()) {
      found.part = std::move(part).value();
      return found;
    }
    why = Graver(std::move(why), part.status());
  }
  if (why.code() == StatusCode::kNotFound) {
    PS_TRY(CheckStored(from, checkpoint));
  }
  return why;
}

Result<ChunkRef> DiskWork::Put(const ChunkWrite& write) {
  PS_ASSIGN(ShardStore* const store, Own());
  checkpoint::ChunkImage image;
  image.key = write.key;
  image.version = write.image->version;
  image.value = write.image->value.floats();
  for (size_t slot = 0; slot < image.slots.size(); ++slot) {
    image.slots[slot] = write.image->slots[slot].floats();
  }
  const ChunkRef* const previous = write.previous ? &*write.previous : nullptr;
  return store->PutChunk(write.checkpoint, image, previous, place_.format);
}

void DiskWork::Do(const ReleaseRequest& request) {
  if (const Result<ShardStore*> store = Own(); store.ok()) {
    (*store)->Release(request.kept, request.next).Ignore("the next checkpoint says what is wrong");
  }
}

ChunkWritten DiskWork::Do(const ChunkWrite& write) {
  return {write.life, write.checkpoint, write.chunk, Put(write)};
}

PartWritten DiskWork::Do(const PartWrite& write) {
  Result<ShardStore*> store = Own();
  if (!store.ok()) {
    return {write.life, write.checkpoint, store.status(), Status::Ok(), ""};
  }
  Result<checkpoint::PartSummary> summary = (*store)->CommitPart(write.checkpoint, write.record);
  // The part is there whatever becomes of the old ones. Those between the newest kept one and this
  // one were given up by the coordinator, which has one under way at a time.
  std::vector<CheckpointId> kept = write.kept;
  kept.push_back(write.checkpoint);
  Status pruned = summary.ok() ? (*store)->Retain(kept) : Status::Ok();
  return {write.life, write.checkpoint, std::move(summary), std::move(pruned), directory_};
}

Restored DiskWork::Do(const RestoreRequest& request) {
  Status writable;
  if (shard_.value < request.shards) {
    if (own_ == nullptr) {
      writable = CheckStored(shard_, request.checkpoint);
    }
    if (writable.ok()) {
      writable = Own().status();
    }
  }
  if (!writable.ok() && writable.code() != StatusCode::kIo) {
    return {request.life, request.checkpoint, std::move(writable), Status::Ok()};
  }
  // A disk that is full or read-only can be read.
  Result<RestoredPart> restored = Restore(request);
  if (!restored.ok()) {
    restored = Explain(restored.status(), request.checkpoint);
  }
  return {request.life, request.checkpoint, std::move(restored), std::move(writable)};
}

/// A part that is absent is damage only where the checkpoints are: a host that lacks the shared
/// directory must not have every older checkpoint given up in turn.
Status DiskWork::Explain(Status why, CheckpointId checkpoint) const {
  if (why.code() != StatusCode::kNotFound) {
    return why;
  }
  const auto job = checkpoint::JobStore::Open(*storage_, place_.path, OpenMode::kRead);
  if (job.status().code() != StatusCode::kNotFound) {
    return why;
  }
  return Status::Unavailable(fmt::format(
      "{} on this host does not have checkpoint {}, which the coordinator wrote there: mount the "
      "coordinator's directory; the server tries again by itself",
      place_.path,
      checkpoint));
}

Result<RestoredPart> DiskWork::Restore(const RestoreRequest& request) {
  RestoredPart restored;
  restored.chunks.resize(request.keys.size());
  size_t left = request.keys.size();
  // Its own part first: with the same number of shards all is there.
  for (uint32_t i = 0; i < request.shards && left > 0; ++i) {
    const ShardId from((shard_.value + i) % request.shards);
    PS_ASSIGN(const FoundPart found, FindPart(from, request.checkpoint));
    const checkpoint::PartRecord& part = found.part;
    const bool is_own = found.other == nullptr;
    ShardStore* const store = is_own ? own_.get() : found.other.get();
    bool has_some = false;
    for (const ChunkRef& ref : part.chunks) {
      const auto key = std::lower_bound(request.keys.begin(), request.keys.end(), ref.key);
      if (key == request.keys.end() || *key != ref.key) {
        continue;
      }
      RestoredPart::Chunk& chunk = restored.chunks[static_cast<size_t>(key - request.keys.begin())];
      PS_ASSIGN(chunk.data, store->ReadChunk(ref));
      if (is_own) {
        chunk.ref = ref;
      }
      has_some = true;
      --left;
    }
    if (has_some && restored.state.empty()) {
      restored.state = part.state;
    }
  }
  if (left > 0) {
    return Status::Corruption(fmt::format(
        "checkpoint {} lacks {} of the {} chunks of shard {}",
        request.checkpoint,
        left,
        request.keys.size(),
        shard_.value));
  }
  return restored;
}

}  // namespace ps::server
