#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "ps/http/http.h"
#include "ps/store/s3_client.h"
#include "ps/store/s3_settings.h"

namespace ps::store {

/// An object that somebody else wrote, as it was when it was listed.
struct StoredObject {
  std::string name;  // behind the prefix and its slash: any bytes
  uint64_t bytes = 0;
  std::string etag = {};      // without quotes; empty: the store tells none
  std::string modified = {};  // as the store writes it; empty: likewise

  friend bool operator==(const StoredObject&, const StoredObject&) = default;
};

/// Reads what others have put below a prefix of a bucket: any names, any sizes, whole or in parts.
/// Errors are those of S3Client, with the names of place and object.
/// Thread: any one at a time.
class ObjectReader {
 public:
  /// `options` without what `access` has.
  ObjectReader(
      const S3Access& access,
      const HttpLimits& limits,
      IsCancelled is_cancelled,
      S3Options options);

  /// "s3://bucket/prefix".
  std::string name() const { return client_.name(); }

  /// Those below the prefix whose names `is_wanted` takes, by name; marks of folders (no bytes, a
  /// slash at the end) are none. Errors: also kInvalidArgument, more than `objects_max` of them, or
  /// more than kListedMax in all.
  Result<std::vector<StoredObject>> List(
      size_t objects_max, const std::function<bool(std::string_view)>& is_wanted);

  /// Bytes [offset, offset + bytes). Requires: the object has them, and `bytes` is above 0. Errors:
  /// also kStale and kNotFound, it was changed or removed since it was listed; kUnsupported, the
  /// store gives no parts.
  Result<std::vector<std::byte>> Read(const StoredObject& object, uint64_t offset, size_t bytes);

 private:
  S3Client client_;
};

/// So many objects below a prefix are looked at, wanted or not.
inline constexpr size_t kListedMax = size_t{1} << 25;

}  // namespace ps::store
