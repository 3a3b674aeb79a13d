#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/random.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/http/http.h"
#include "ps/store/s3_reply.h"
#include "ps/store/s3_settings.h"

namespace ps::store {

/// A page of a list, or an error: far more than either has.
inline constexpr size_t kXmlBytesMax = size_t{8} << 20;

/// Waits for so long; false, at once, when the work is to end.
using Pause = std::function<bool(Duration)>;

struct S3Options {
  Pause pause;
  int attempts_max = 6;
  Duration first_wait = std::chrono::milliseconds(250);
  Duration longest_wait = std::chrono::seconds(20);
  uint64_t seed = 1;  // of the jitter
  /// Asked when the keys are refused; null: they stay what they are.
  aws::CredentialsSource find_again;
  /// Told of each failure that is tried again. May be null.
  std::function<void(const Status&)> on_trouble;
  /// What a key needs, for who is refused.
  std::string permissions = "s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject";
};

struct S3Request {
  std::string what;    // "writing data/ab12", for errors
  std::string method;  // GET, PUT, DELETE
  std::string key;     // with the prefix; empty: the bucket
  std::string query;   // sorted by name, encoded
  std::span<const std::byte> body;
  size_t reply_bytes_max = kXmlBytesMax;
  std::vector<std::string> headers = {};  // "name: value", beside those that every request has
};

/// Requests to a bucket: signed, and tried again where that may help. Time-outs, broken
/// connections, replies 5xx and SlowDown are tried again with growing waits; what is refused or
/// missing is not. Keys that are refused are looked for again: who rotates them changes a file, and
/// roles' keys expire. So nobody has to know when, and no clock is compared.
/// Thread: any one at a time.
class S3Client {
 public:
  S3Client(
      S3Location location,
      aws::Credentials credentials,
      std::unique_ptr<HttpClient> http,
      S3Options options);

  /// "s3://bucket/prefix".
  std::string name() const;

  /// The key of an object that is `key` behind the prefix.
  std::string FullKey(std::string_view key) const;

  /// A reply of 2xx. Errors, with name() and `what` in front: those of ObjectStore; kNotFound
  /// (404); kStale (412: it is another one than the headers ask for).
  Result<HttpReply> Do(const S3Request& request);

  /// Hands over the list of all objects whose key begins with `full_prefix`, page by page. Errors:
  /// also kCorruption, and those of `take`.
  Status List(
      const std::string& full_prefix,
      const std::string& what,
      const std::function<Status(S3Page)>& take);

 private:
  /// What came of an attempt, and whether another one may help.
  struct Outcome {
    Status status;
    bool may_retry = false;
    bool is_key_refused = false;  // another key may be taken
  };

  std::string UrlOf(const S3Request& request) const;
  HttpRequest RequestOf(const S3Request& request) const;
  Result<bool> FindKeysAgain(const Status& refusal);
  Outcome Judge(const Result<HttpReply>& reply, const S3Request& request) const;
  Outcome JudgeError(const HttpReply& reply) const;
  std::string Refusal(const std::string& code, const std::string& said) const;

  S3Location location_;
  aws::Credentials credentials_;
  std::unique_ptr<HttpClient> http_;
  S3Options options_;
  Random random_;
};

}  // namespace ps::store
