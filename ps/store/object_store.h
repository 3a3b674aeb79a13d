#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"

namespace ps::store {

/// Objects are at most so large: what is longer is cut into several. It bounds the memory of a
/// transfer and what a broken one repeats, and it is far below what one request of S3 may carry.
inline constexpr size_t kObjectBytesMax = size_t{32} << 20;

struct ObjectInfo {
  std::string key;
  uint64_t bytes = 0;

  friend bool operator==(const ObjectInfo&, const ObjectInfo&) = default;
};

/// Named byte strings that are read and replaced as a whole: a directory, or a bucket of a cloud.
/// All implementations pass the suite of tests/checkpoint/remote/object_store_test.cc. Keys are
/// 1 to 255 bytes of [a-z0-9/-], no empty part between slashes. Thread: any one at a time.
///
/// Errors of all: kUnavailable and kDeadlineExceeded (also after retries: try later), kIo (it is
/// full or broken), kInvalidArgument (access refused, no such bucket: what is configured has to
/// change; also a key that is none), kCancelled. Texts say which object and what to do.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  /// As the user calls it: "s3://bucket/prefix" or a path.
  virtual std::string name() const = 0;

  /// When it returns, the object is there, whole and for good; else the older one still is, or the
  /// new one. Requires: at most kObjectBytesMax.
  virtual Status Put(std::string_view key, std::span<const std::byte> bytes) = 0;

  /// Errors: kNotFound; kCorruption when it has more than `bytes_max` bytes.
  virtual Result<std::vector<std::byte>> Get(
      std::string_view key, size_t bytes_max = kObjectBytesMax) = 0;

  /// All objects whose key begins with `prefix`, by key. `prefix` is empty or ends with a slash.
  virtual Result<std::vector<ObjectInfo>> List(std::string_view prefix) = 0;

  /// Ok when there is none.
  virtual Status Delete(std::string_view key) = 0;
};

/// kInvalidArgument when it is no key.
Status CheckObjectKey(std::string_view key);

}  // namespace ps::store
