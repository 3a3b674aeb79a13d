#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/remote/object_store.h"
#include "ps/base/status.h"

namespace ps::checkpoint {

// What S3 answers, read from XML. Takes any bytes.

/// Error: its code ("NoSuchKey"), and a text for people. Both empty when it is something else.
struct S3Error {
  std::string code;
  std::string message;
};

S3Error ParseS3Error(std::span<const std::byte> body);

/// One page of ListObjectsV2 with encoding-type=url.
struct S3Page {
  std::vector<ObjectInfo> objects;  // whole keys, with the prefix
  std::string next;                 // continuation token; empty: the last page
};

/// Errors: kCorruption.
Result<S3Page> ParseS3Page(std::span<const std::byte> body);

/// As in a path: all but letters, digits and "-._~" become %XX; slashes stay when `keep_slashes`.
std::string PercentEncoded(std::string_view text, bool keep_slashes);

}  // namespace ps::checkpoint
