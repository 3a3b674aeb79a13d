#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/http/http.h"
#include "ps/store/object_reader.h"
#include "worker/data/load_progress.h"

namespace ps::worker {

struct FetchOptions {
  size_t range_bytes = size_t{8} << 20;  // of a request; each connection has memory for one
  int connections = 8;
  // Two minutes of trouble with one request are waited for.
  int attempts_max = 12;
  Duration first_wait = std::chrono::milliseconds(250);
  Duration longest_wait = std::chrono::seconds(20);
  HttpLimits limits = {};
};

/// What of `folder` is done stands in <folder>/journal, by ranges with their checksums, until all
/// is done: what was killed goes on with another call, and what the disk has lost meanwhile is
/// fetched again. Objects become <folder>/files/<name>, synced. `state` says which objects they
/// are; what a folder has of another state is removed.
/// What came is compared with the object's size and, where its tag is one, its MD5. A tag that
/// differs from the MD5 of two transfers alike is none.
/// Errors: those of ObjectReader; kInvalidArgument, an object was changed or removed since it was
/// listed; kIo, the disk is full or broken; kCancelled.
/// Requires: CheckNames took the objects. Nobody else works in `folder`.
Status FetchObjects(
    const store::S3Access& access,
    const std::vector<store::StoredObject>& objects,
    const std::string& state,
    const std::string& folder,
    LoadProgress* progress,
    const FetchOptions& options = {});

}  // namespace ps::worker
