#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "ps/base/time.h"
#include "ps/http/http.h"
#include "ps/store/object_store.h"
#include "ps/store/s3_settings.h"

namespace ps::store {

/// Waits for so long; false, at once, when the work is to end.
using Pause = std::function<bool(Duration)>;

struct S3Options {
  Pause pause;
  int attempts_max = 6;
  Duration first_wait = std::chrono::milliseconds(250);
  Duration longest_wait = std::chrono::seconds(20);
  uint64_t seed = 1;  // of the jitter
  aws::CredentialsSource
      find_again;  // asked when the keys are refused; null: they stay what they are
};

/// Objects in a bucket of S3, or of what speaks its protocol. Each is sent and fetched as a whole,
/// with its SHA-256 in the signed request and, for buckets that keep versions locked, its MD5. Keys
/// that are refused are looked for again: who rotates them changes a file, and roles' keys expire.
/// So nobody has to know when, and no clock is compared. Time-outs, broken connections, replies 5xx
/// and SlowDown are tried again with growing waits; what is refused or missing is not.
std::unique_ptr<ObjectStore> MakeS3Store(
    S3Location location,
    aws::Credentials credentials,
    std::unique_ptr<HttpClient> http,
    S3Options options);

}  // namespace ps::store
