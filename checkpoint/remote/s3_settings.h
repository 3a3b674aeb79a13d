#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ps/base/status.h"

namespace ps::checkpoint {

/// A place in a bucket, and how it is reached. Everything but the secrets.
struct S3Location {
  std::string bucket;
  std::string prefix;          // "" or "a/b": without slashes at its ends
  std::string endpoint;        // "https://host[:port]"; empty: that of AWS in the region
  std::string region;          // empty: from the environment
  bool is_path_style = false;  // bucket in the path, not in the name of the host
};

/// What the user typed: "s3://bucket/a/b", and after a "?" any of endpoint=URL, region=NAME,
/// style=path|virtual. A bucket of another endpoint than AWS, or with a dot in its name, is
/// reached by path unless `style` says otherwise. Errors: kInvalidArgument with the text at fault.
/// A prefix is printable ASCII without "." and ".." as its parts: curl, proxies and some servers
/// resolve these, so that an object would be written where no list looks for it. Every other
/// character is sent encoded and listed again (S3StoreTest.EveryPrefixIsFoundAgain).
Result<S3Location> ParseS3Location(const std::string& text);

/// Whether it begins with "s3://".
bool IsS3(const std::string& text);

/// The value of an environment variable; nothing when it is not set, or empty.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// kInvalidArgument unless it is http://HOST[:PORT] or https://HOST[:PORT]; slashes at its end go.
Status CheckS3Endpoint(std::string* endpoint);

}  // namespace ps::checkpoint
