#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "ps/store/object_store.h"

namespace ps::store {

// What S3 answers, read from XML. Takes any bytes.

/// Error: its code ("NoSuchKey"), and a text for people. Both empty when it is something else.
struct S3Error {
  std::string code;
  std::string message;
};

S3Error ParseS3Error(std::span<const std::byte> body);

/// One page of ListObjectsV2 with encoding-type=url.
struct S3Page {
  std::vector<ObjectInfo> objects;  // whole keys as the list has them; KeyBehind reads them
  std::string next;                 // continuation token; empty: the last page
};

/// What follows `prefix` in a key as a list has it: percent-encoded, as encoding-type=url asks for,
/// with or without a plus for a blank, or as it is, since not every server does as it is asked. The
/// rest has to be one of our keys, which no encoding changes. Nothing: it is another object's.
/// Requires: `prefix` is empty or ends with a slash; then only one of these readings fits.
std::optional<std::string> KeyBehind(std::string_view prefix, std::string_view listed);

/// Errors: kCorruption.
Result<S3Page> ParseS3Page(std::span<const std::byte> body);

}  // namespace ps::store
