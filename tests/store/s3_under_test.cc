#include "tests/store/s3_under_test.h"

#include <filesystem>
#include <utility>
#include <vector>

namespace ps::store {
namespace {

/// That of the build tree, with moto, where scripts/setup.sh has made one.
std::string Python() {
  const std::string own = "build/venv/bin/python3";
  return std::filesystem::exists(own) ? own : "python3";
}

std::string Script(const std::string& name) {
  return "tests/store/" + name;
}

}  // namespace

std::unique_ptr<ObjectStore> S3Server::Open(
    const std::string& bucket, const std::string& prefix, S3Variation variation) const {
  S3Location location;
  location.bucket = bucket;
  location.prefix = prefix;
  location.endpoint = "http://localhost:" + std::to_string(port());
  location.region = variation.region.empty() ? key_.region : variation.region;
  location.is_path_style = variation.is_path_style;
  aws::Credentials credentials;
  credentials.key.id = variation.id.empty() ? key_.id : variation.id;
  credentials.key.secret = variation.secret.empty() ? key_.secret : variation.secret;
  credentials.key.region = location.region;
  credentials.key.service = key_.service;
  credentials.source = "the test";
  S3Options options;
  options.attempts_max = variation.attempts_max;
  options.pause = variation.pause;
  if (options.pause == nullptr) {
    options.pause = [](Duration) { return true; };
  }
  credentials.session_token = variation.session_token;
  options.find_again = variation.find_again;
  auto http = MakeHttpClient(variation.limits, std::move(variation.is_cancelled));
  return MakeS3Store(location, credentials, std::move(http), options);
}

const S3Server& TestServer() {
  static const S3Server server(
      {Python(), Script("object_server.py")},
      {.region = "eu-test-1",
       .service = "s3",
       .id = "AKIDTEST",
       .secret = "c2VjcmV0LW9mLXRoZS10ZXN0"});
  return server;
}

const S3Server& MotoServer() {
  static const S3Server server(
      {Python(), Script("moto_server.py")},
      {.region = "us-east-1", .service = "s3", .id = "id", .secret = "secret"});
  return server;
}

}  // namespace ps::store
