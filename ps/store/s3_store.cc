#include "ps/store/s3_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ps/store/s3_reply.h"

namespace ps::store {
namespace {

class S3Store final : public ObjectStore {
 public:
  explicit S3Store(S3Client client) : client_(std::move(client)) {}

  std::string name() const override { return client_.name(); }

  Status Put(std::string_view key, std::span<const std::byte> bytes) override {
    PS_TRY(CheckObjectKey(key));
    return client_
        .Do(
            {.what = fmt::format("writing {}", key),
             .method = "PUT",
             .key = client_.FullKey(key),
             .query = {},
             .body = bytes})
        .status();
  }

  Result<std::vector<std::byte>> Get(std::string_view key, size_t bytes_max) override {
    PS_TRY(CheckObjectKey(key));
    PS_ASSIGN(
        HttpReply reply,
        client_.Do(
            {.what = fmt::format("reading {}", key),
             .method = "GET",
             .key = client_.FullKey(key),
             .query = {},
             .body = {},
             .reply_bytes_max = bytes_max}));
    return std::move(reply.body);
  }

  Result<std::vector<ObjectInfo>> List(std::string_view prefix) override {
    const std::string own = client_.FullKey("");
    std::vector<ObjectInfo> objects;
    const std::string what = fmt::format("listing {}", prefix.empty() ? "all" : prefix);
    PS_TRY(client_.List(client_.FullKey(prefix), what, [&](const S3Page& page) {
      for (const S3Object& object : page.objects) {
        const std::optional<std::string> key = KeyBehind(own, object.key);
        if (key && CheckObjectKey(*key).ok()) {
          objects.push_back({.key = *key, .bytes = object.bytes});
        }
      }
      return Status::Ok();
    }));
    // The service sorts by bytes; others that speak its protocol may not.
    std::sort(objects.begin(), objects.end(), [](const ObjectInfo& a, const ObjectInfo& b) {
      return a.key < b.key;
    });
    return objects;
  }

  Status Delete(std::string_view key) override {
    PS_TRY(CheckObjectKey(key));
    Status deleted = client_
                         .Do(
                             {.what = fmt::format("deleting {}", key),
                              .method = "DELETE",
                              .key = client_.FullKey(key),
                              .query = {},
                              .body = {}})
                         .status();
    return deleted.code() == StatusCode::kNotFound ? Status::Ok() : std::move(deleted);
  }

 private:
  S3Client client_;
};

}  // namespace

std::unique_ptr<ObjectStore> MakeS3Store(
    S3Location location,
    aws::Credentials credentials,
    std::unique_ptr<HttpClient> http,
    S3Options options) {
  return std::make_unique<S3Store>(
      S3Client(std::move(location), std::move(credentials), std::move(http), std::move(options)));
}

}  // namespace ps::store
