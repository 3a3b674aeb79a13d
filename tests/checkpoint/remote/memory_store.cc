#include "tests/checkpoint/remote/memory_store.h"

#include <utility>

namespace ps::checkpoint {

Status MemoryStore::Call(std::string_view key) {
  ++calls_;
  if (calls_left_ == 0) {
    return Status::Unavailable("memory: " + std::string(key) + ": as the test wants it");
  }
  calls_left_ -= calls_left_ > 0 ? 1 : 0;
  return Status::Ok();
}

Status MemoryStore::Put(std::string_view key, std::span<const std::byte> bytes) {
  PS_TRY(store::CheckObjectKey(key));
  ++puts_;
  if (on_change_ != nullptr) {
    on_change_(key);
  }
  const Status called = Call(key);
  if (called.ok() || calls_ % 2 == 0) {
    objects_[std::string(key)].assign(bytes.begin(), bytes.end());
  }
  return called;
}

Result<std::vector<std::byte>> MemoryStore::Get(std::string_view key, size_t bytes_max) {
  PS_TRY(store::CheckObjectKey(key));
  PS_TRY(Call(key));
  const auto it = objects_.find(std::string(key));
  if (it == objects_.end()) {
    return Status::NotFound("memory: " + std::string(key) + " is not there");
  }
  if (it->second.size() > bytes_max) {
    return Status::Corruption("memory: " + std::string(key) + " is too large");
  }
  return it->second;
}

Result<std::vector<store::ObjectInfo>> MemoryStore::List(std::string_view prefix) {
  PS_TRY(Call(prefix));
  std::vector<store::ObjectInfo> found;
  for (const auto& [key, bytes] : objects_) {
    if (key.starts_with(prefix)) {
      found.push_back({.key = key, .bytes = bytes.size()});
    }
  }
  return found;
}

Status MemoryStore::Delete(std::string_view key) {
  PS_TRY(store::CheckObjectKey(key));
  if (on_change_ != nullptr) {
    on_change_(key);
  }
  PS_TRY(Call(key));
  objects_.erase(std::string(key));
  return Status::Ok();
}

}  // namespace ps::checkpoint
