#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"

namespace ps::store {

// What S3 answers, read from XML. Takes any bytes.

/// Error: its code ("NoSuchKey"), and a text for people. Both empty when it is something else.
struct S3Error {
  std::string code;
  std::string message;
};

S3Error ParseS3Error(std::span<const std::byte> body);

/// An object as a list has it.
struct S3Object {
  std::string key;  // all of it, as the list writes it: KeyBehind and DecodedKey read it
  uint64_t bytes = 0;
  std::string etag = {};      // with its quotes; changes when the object does. Empty: not told
  std::string modified = {};  // a time as the server writes it; empty: not told

  friend bool operator==(const S3Object&, const S3Object&) = default;
};

/// One page of ListObjectsV2 with encoding-type=url.
struct S3Page {
  std::vector<S3Object> objects;
  bool is_url_encoded = false;  // the server says that keys are
  std::string next;             // continuation token; empty: the last page
};

/// What follows `prefix` in a key as a list has it: percent-encoded, as encoding-type=url asks for,
/// with or without a plus for a blank, or as it is, since not every server does as it is asked. The
/// rest has to be one of our keys, which no encoding changes. Nothing: it is another object's.
/// Requires: `prefix` is empty or ends with a slash; then only one of these readings fits.
std::optional<std::string> KeyBehind(std::string_view prefix, std::string_view listed);

/// Any key, whether ours or not, as the page says that it is written.
std::string DecodedKey(const S3Page& page, std::string_view listed);

/// Errors: kCorruption.
Result<S3Page> ParseS3Page(std::span<const std::byte> body);

}  // namespace ps::store
