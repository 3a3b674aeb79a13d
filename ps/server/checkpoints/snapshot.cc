#include "ps/server/checkpoints/snapshot.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ps::server {
namespace {

Buffer CopyOf(const Buffer& buffer) {
  Buffer copy(buffer.size());
  if (buffer.size() > 0) {
    std::memcpy(copy.data(), buffer.data(), buffer.size());
  }
  return copy;
}

uint64_t BytesOf(const checkpoint::ChunkData& data) {
  uint64_t bytes = data.value.size();
  for (const Buffer& slot : data.slots) {
    bytes += slot.size();
  }
  return bytes;
}

}  // namespace

Snapshot::Snapshot(const ChunkStore& store, const ChunkRefs& refs, uint64_t out_bytes_max)
    : out_bytes_max_(out_bytes_max) {
  states_.reserve(store.size());
  for (size_t i = 0; i < store.size(); ++i) {
    const bool is_written = refs[i] && refs[i]->version == store.chunks()[i].version;
    states_.push_back(is_written ? State::kShared : State::kDue);
  }
  SkipToDue();
}

void Snapshot::SkipToDue() {
  while (next_ < states_.size() && states_[next_] != State::kDue) {
    ++next_;
  }
}

Snapshot::Image Snapshot::Copy(const ChunkStore& store, size_t chunk) {
  const Chunk& from = store.chunks()[chunk];
  auto data = std::make_shared<checkpoint::ChunkData>();
  data->version = from.version;
  data->value = CopyOf(from.value);
  for (size_t slot = 0; slot < from.slots.size(); ++slot) {
    data->slots[slot] = CopyOf(from.slots[slot]);
  }
  states_[chunk] = State::kCopied;
  SkipToDue();
  copied_bytes_ += BytesOf(*data);
  copied_bytes_max_ = std::max(copied_bytes_max_, copied_bytes_);
  return {chunk, std::move(data)};
}

void Snapshot::BeforeUpdate(const ChunkStore& store, size_t chunk) {
  if (states_[chunk] == State::kDue) {
    copied_.push_back(Copy(store, chunk));
  }
}

std::optional<Snapshot::Image> Snapshot::Take(const ChunkStore& store) {
  if (out_bytes_ >= out_bytes_max_) {
    return std::nullopt;
  }
  Image image;
  if (!copied_.empty()) {
    image = std::move(copied_.front());
    copied_.pop_front();
  } else if (next_ < states_.size()) {
    image = Copy(store, next_);
  } else {
    return std::nullopt;
  }
  ++out_count_;
  out_bytes_ += BytesOf(*image.data);
  return image;
}

void Snapshot::Return(const Image& image) {
  const uint64_t bytes = BytesOf(*image.data);
  --out_count_;
  out_bytes_ -= bytes;
  copied_bytes_ -= bytes;
}

}  // namespace ps::server
