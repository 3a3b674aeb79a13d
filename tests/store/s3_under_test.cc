#include "tests/store/s3_under_test.h"

#include <filesystem>
#include <span>
#include <sstream>
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

namespace {

struct Parts {
  S3Location location;
  aws::Credentials credentials;
  std::unique_ptr<HttpClient> http;
  S3Options options;
};

Parts PartsOf(
    const S3Server& server,
    const std::string& bucket,
    const std::string& prefix,
    S3Variation variation) {
  Parts parts;
  S3Location& location = parts.location;
  location.bucket = bucket;
  location.prefix = prefix;
  location.endpoint = "http://localhost:" + std::to_string(server.port());
  location.region = variation.region.empty() ? server.key().region : variation.region;
  location.is_path_style = variation.is_path_style;
  aws::Credentials& credentials = parts.credentials;
  credentials.key.id = variation.id.empty() ? server.key().id : variation.id;
  credentials.key.secret = variation.secret.empty() ? server.key().secret : variation.secret;
  credentials.key.region = location.region;
  credentials.key.service = server.key().service;
  credentials.source = "the test";
  credentials.session_token = variation.session_token;
  S3Options& options = parts.options;
  options.attempts_max = variation.attempts_max;
  options.pause = variation.pause;
  if (options.pause == nullptr) {
    options.pause = [](Duration) { return true; };
  }
  options.find_again = variation.find_again;
  parts.http = MakeHttpClient(variation.limits, std::move(variation.is_cancelled));
  return parts;
}

}  // namespace

std::unique_ptr<ObjectStore> S3Server::Open(
    const std::string& bucket, const std::string& prefix, S3Variation variation) const {
  Parts parts = PartsOf(*this, bucket, prefix, std::move(variation));
  return MakeS3Store(parts.location, parts.credentials, std::move(parts.http), parts.options);
}

S3Client S3Server::OpenClient(
    const std::string& bucket, const std::string& prefix, S3Variation variation) const {
  Parts parts = PartsOf(*this, bucket, prefix, std::move(variation));
  return {parts.location, parts.credentials, std::move(parts.http), parts.options};
}

Status S3Server::Put(
    const std::string& bucket, const std::string& key, std::string_view bytes) const {
  return OpenClient(bucket, "")
      .Do(
          {.what = "writing " + key,
           .method = "PUT",
           .key = key,
           .query = {},
           .body = std::as_bytes(std::span(bytes))})
      .status();
}

std::string S3Server::PlaceOf(const std::string& bucket, const std::string& prefix) const {
  return "s3://" + bucket + "/" + prefix + "?endpoint=http://localhost:" + std::to_string(port()) +
         "&region=" + key_.region;
}

std::vector<std::pair<std::string, std::string>> S3Server::KeyVariables() const {
  return {{"AWS_ACCESS_KEY_ID", key_.id}, {"AWS_SECRET_ACCESS_KEY", key_.secret}};
}

int S3Server::RequestsWith(std::string_view text) const {
  HttpRequest request;
  request.method = "GET";
  request.url = "http://localhost:" + std::to_string(port()) + "/-/requests";
  request.reply_bytes_max = size_t{1} << 24;
  const auto reply = MakeHttpClient(HttpLimits(), nullptr)->Do(request);
  if (!reply.ok()) {
    return -1;
  }
  std::istringstream lines(
      std::string(reinterpret_cast<const char*>(reply->body.data()), reply->body.size()));
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t number = line.rfind(' ');
    count += line.substr(0, number).find(text) == std::string::npos
                 ? 0
                 : std::stoi(line.substr(number + 1));
  }
  return count;
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
