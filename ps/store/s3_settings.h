#pragma once

#include <string>

#include "ps/aws/credentials.h"
#include "ps/base/status.h"
#include "ps/http/http.h"
#include "ps/process/environment.h"

namespace ps::store {

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

/// The keys for it. What `location` lacks, region and endpoint, is filled in; one of the
/// environment is reached by path. Errors: those of aws::FindCredentials.
Result<aws::Credentials> FindS3Credentials(
    const Environment& environment, HttpClient* http, S3Location* location);

/// All that requests to a place need.
struct S3Access {
  S3Location location;
  aws::Credentials credentials;
  aws::CredentialsSource find_again;  // looks for the keys anew, as at first; any thread
};

/// What `place` means, and the keys for it, which services of the machine may be asked for. Errors:
/// those of ParseS3Location and FindS3Credentials.
Result<S3Access> FindS3Access(const std::string& place, const Environment& environment);

}  // namespace ps::store
