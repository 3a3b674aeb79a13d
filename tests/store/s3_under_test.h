#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ps/store/s3_client.h"
#include "ps/store/s3_store.h"
#include "tests/http/server_process.h"

namespace ps::store {

/// What a test may want other than usual of its store.
struct S3Variation {
  std::string id;             // empty: the server's
  std::string secret;         // likewise
  std::string region;         // likewise
  std::string session_token;  // empty: none
  aws::CredentialsSource find_again;
  bool is_path_style = true;  // else by the name of the host: bucket.localhost
  int attempts_max = 4;
  HttpLimits limits;
  Pause pause;  // null: no time passes
  IsCancelled is_cancelled;
};

/// An object store that listens on this machine.
class S3Server {
 public:
  S3Server(const std::vector<std::string>& command, SigningKey key)
      : process_(command), key_(std::move(key)) {}

  const SigningKey& key() const { return key_; }

  /// 0: it could not be started.
  int port() const { return process_.port(); }

  const std::string& why() const { return process_.why(); }

  std::unique_ptr<ObjectStore> Open(
      const std::string& bucket, const std::string& prefix, S3Variation variation = {}) const;

  /// For requests that no ObjectStore makes.
  S3Client OpenClient(
      const std::string& bucket, const std::string& prefix, S3Variation variation = {}) const;

  /// Puts an object under any name.
  Status Put(const std::string& bucket, const std::string& key, std::string_view bytes) const;

  /// "s3://BUCKET/PREFIX?endpoint=..." of this server, and what a process has to have in its
  /// environment to read there.
  std::string PlaceOf(const std::string& bucket, const std::string& prefix) const;
  std::vector<std::pair<std::string, std::string>> KeyVariables() const;

  /// How often requests came whose method, path and range have `text` in them: of object_server.py.
  int RequestsWith(std::string_view text) const;

 private:
  ServerProcess process_;
  SigningKey key_;
};

/// That of these tests (object_server.py): its buckets have all kinds of trouble.
const S3Server& TestServer();

/// moto's, with one bucket, "bucket". It checks no signature.
const S3Server& MotoServer();

}  // namespace ps::store
