#include "ps/server/disk_work.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace ps::server {

using checkpoint::ChunkRef;
using checkpoint::OpenMode;
using checkpoint::ShardStore;

void DiskWork::Use(std::string path, checkpoint::Codec codec) {
  if (path != path_) {
    own_.reset();
  }
  path_ = std::move(path);
  codec_ = codec;
}

Result<ShardStore*> DiskWork::Own() {
  if (own_ == nullptr) {
    PS_ASSIGN(own_, ShardStore::Open(*storage_, path_, shard_, OpenMode::kWrite));
  }
  return own_.get();
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
  return store->PutChunk(write.checkpoint, image, previous, codec_);
}

ChunkWritten DiskWork::Do(const ChunkWrite& write) {
  return {write.life, write.checkpoint, write.chunk, Put(write)};
}

PartWritten DiskWork::Do(const PartWrite& write) {
  Result<ShardStore*> store = Own();
  if (!store.ok()) {
    return {write.life, write.checkpoint, store.status(), Status::Ok()};
  }
  Result<checkpoint::PartSummary> summary = (*store)->CommitPart(write.checkpoint, write.record);
  // The part is there whatever becomes of the old ones.
  Status pruned = summary.ok() ? (*store)->Retain(write.kept) : Status::Ok();
  return {write.life, write.checkpoint, std::move(summary), std::move(pruned)};
}

Restored DiskWork::Do(const RestoreRequest& request) {
  return {request.life, request.checkpoint, Restore(request)};
}

Result<RestoredPart> DiskWork::Restore(const RestoreRequest& request) {
  RestoredPart restored;
  restored.chunks.resize(request.keys.size());
  size_t left = request.keys.size();
  // Its own part first: with the same number of shards all is there.
  for (uint32_t i = 0; i < request.shards && left > 0; ++i) {
    const ShardId from((shard_.value + i) % request.shards);
    const bool is_own = from == shard_;
    std::unique_ptr<ShardStore> other;
    ShardStore* store = nullptr;
    if (is_own) {
      PS_ASSIGN(store, Own());
    } else {
      PS_ASSIGN(other, ShardStore::Open(*storage_, path_, from, OpenMode::kRead));
      store = other.get();
    }
    PS_ASSIGN(const checkpoint::PartRecord part, store->ReadPart(request.checkpoint));
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
