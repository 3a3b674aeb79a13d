#pragma once

#include <memory>

#include "ps/http/http.h"
#include "ps/store/object_store.h"
#include "ps/store/s3_client.h"
#include "ps/store/s3_settings.h"

namespace ps::store {

/// Objects in a bucket of S3, or of what speaks its protocol. Each is sent and fetched as a whole,
/// with its SHA-256 in the signed request and, for buckets that keep versions locked, its MD5. What
/// is tried again: S3Client.
std::unique_ptr<ObjectStore> MakeS3Store(
    S3Location location,
    aws::Credentials credentials,
    std::unique_ptr<HttpClient> http,
    S3Options options);

}  // namespace ps::store
