#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ps/base/status.h"
#include "ps/http/http.h"

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
Result<S3Location> ParseS3Location(const std::string& text);

/// Whether it begins with "s3://".
bool IsS3(const std::string& text);

/// The value of an environment variable; nothing when it is not set, or empty.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// With what requests to S3 are signed.
struct S3Credentials {
  SigningKey key;
  std::string session_token;  // of temporary ones; else empty
  std::string source;         // "the environment", "profile ml of /home/a/.aws/credentials"
};

/// From AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, else from the profile
/// AWS_PROFILE ("default") in AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE. The region is that
/// of `location`, else AWS_REGION, AWS_DEFAULT_REGION, the profile's, or us-east-1. An endpoint
/// that `location` lacks comes from AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile. Secrets
/// get into no text. Errors: kInvalidArgument (there are none, or half of them), with what to set.
Result<S3Credentials> FindS3Credentials(const Environment& environment, S3Location* location);

}  // namespace ps::checkpoint
