#include "ps/store/s3_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "ps/base/random.h"
#include "ps/base/retry.h"
#include "ps/base/text.h"
#include "ps/crypto/md5.h"
#include "ps/crypto/sha256.h"
#include "ps/http/url.h"
#include "ps/store/s3_reply.h"

namespace ps::store {
namespace {

/// A page of a list, or an error: far more than either has.
constexpr size_t kXmlBytesMax = size_t{8} << 20;

struct Operation {
  std::string what;    // "writing data/ab12", for errors
  std::string method;  // GET, PUT, DELETE
  std::string key;     // with the prefix; empty: the bucket
  std::string query;   // sorted by name, encoded
  std::span<const std::byte> body;
  size_t reply_bytes_max = kXmlBytesMax;
};

/// What came of an attempt, and whether another one may help.
struct Outcome {
  Status status;
  bool may_retry = false;
  bool is_key_refused = false;  // another key may be taken
};

class S3Store final : public ObjectStore {
 public:
  S3Store(
      S3Location location,
      aws::Credentials credentials,
      std::unique_ptr<HttpClient> http,
      S3Options options)
      : location_(std::move(location)),
        credentials_(std::move(credentials)),
        http_(std::move(http)),
        options_(std::move(options)),
        random_(options_.seed) {}

  std::string name() const override {
    return "s3://" + location_.bucket + (location_.prefix.empty() ? "" : "/" + location_.prefix);
  }

  Status Put(std::string_view key, std::span<const std::byte> bytes) override {
    PS_TRY(CheckObjectKey(key));
    return Do({.what = fmt::format("writing {}", key),
               .method = "PUT",
               .key = FullKey(key),
               .query = {},
               .body = bytes})
        .status();
  }

  Result<std::vector<std::byte>> Get(std::string_view key, size_t bytes_max) override {
    PS_TRY(CheckObjectKey(key));
    PS_ASSIGN(
        HttpReply reply,
        Do({.what = fmt::format("reading {}", key),
            .method = "GET",
            .key = FullKey(key),
            .query = {},
            .body = {},
            .reply_bytes_max = bytes_max}));
    return std::move(reply.body);
  }

  Result<std::vector<ObjectInfo>> List(std::string_view prefix) override {
    const std::string own = FullKey("");
    const std::string full = FullKey(prefix);
    std::vector<ObjectInfo> objects;
    std::string token;
    do {
      std::string query;
      if (!token.empty()) {
        query = "continuation-token=" + PercentEncoded(token, false) + "&";
      }
      query += "encoding-type=url&list-type=2&prefix=" + PercentEncoded(full, false);
      const std::string what = fmt::format("listing {}", prefix.empty() ? "all" : prefix);
      PS_ASSIGN(
          const HttpReply reply,
          Do({.what = what, .method = "GET", .key = {}, .query = query, .body = {}}));
      PS_ASSIGN(S3Page page, ParseS3Page(reply.body).Annotate(name() + ": " + what));
      for (const ObjectInfo& object : page.objects) {
        const std::optional<std::string> key = KeyBehind(own, object.key);
        if (key && CheckObjectKey(*key).ok()) {
          objects.push_back({.key = *key, .bytes = object.bytes});
        }
      }
      token = std::move(page.next);
    } while (!token.empty());
    // The service sorts by bytes; others that speak its protocol may not.
    std::sort(objects.begin(), objects.end(), [](const ObjectInfo& a, const ObjectInfo& b) {
      return a.key < b.key;
    });
    return objects;
  }

  Status Delete(std::string_view key) override {
    PS_TRY(CheckObjectKey(key));
    Status deleted = Do({.what = fmt::format("deleting {}", key),
                         .method = "DELETE",
                         .key = FullKey(key),
                         .query = {},
                         .body = {}})
                         .status();
    return deleted.code() == StatusCode::kNotFound ? Status::Ok() : std::move(deleted);
  }

 private:
  std::string FullKey(std::string_view key) const {
    return (location_.prefix.empty() ? "" : location_.prefix + "/") + std::string(key);
  }

  std::string UrlOf(const Operation& operation) const {
    const std::string endpoint = location_.endpoint.empty()
                                     ? fmt::format("https://s3.{}.amazonaws.com", location_.region)
                                     : location_.endpoint;
    const size_t host = endpoint.find("://") + 3;
    std::string url = location_.is_path_style ? endpoint + "/" + location_.bucket
                                              : endpoint.substr(0, host) + location_.bucket + "." +
                                                    endpoint.substr(host);
    url += "/" + PercentEncoded(operation.key, true);
    return operation.query.empty() ? url : url + "?" + operation.query;
  }

  HttpRequest RequestOf(const Operation& operation) const {
    HttpRequest request;
    request.method = operation.method;
    request.url = UrlOf(operation);
    request.body = operation.body;
    request.reply_bytes_max = std::max(operation.reply_bytes_max, size_t{64} << 10);
    request.headers.push_back(
        "x-amz-content-sha256: " + crypto::HexOf(crypto::Sha256Of(operation.body)));
    if (operation.method == "PUT") {
      request.headers.emplace_back("content-type: application/octet-stream");
      if (const auto digest = crypto::Md5Base64(operation.body)) {
        request.headers.push_back("content-md5: " + *digest);
      }
    }
    return request;
  }

  Result<HttpReply> Do(const Operation& operation) {
    HttpRequest request = RequestOf(operation);
    Backoff backoff(options_.first_wait, options_.longest_wait);
    bool is_found_again = false;
    for (int attempt = 1;; ++attempt) {
      aws::SignWith(credentials_, &request);
      Result<HttpReply> reply = http_->Do(request);
      Outcome outcome = Judge(reply, operation);
      if (outcome.status.ok()) {
        return reply;
      }
      Status failure = std::move(outcome.status).Annotate(name() + ": " + operation.what);
      if (outcome.is_key_refused && !is_found_again) {
        is_found_again = true;
        PS_ASSIGN(const bool is_other, FindKeysAgain(failure));
        if (is_other) {
          continue;
        }
      }
      if (!outcome.may_retry) {
        return failure;
      }
      if (attempt == options_.attempts_max) {
        return Status(
            failure.code(),
            fmt::format("{} ({} attempts)", std::string(failure.message()), attempt));
      }
      if (!options_.pause(backoff.Next(&random_))) {
        return Status::Cancelled(fmt::format("{}: {} was cancelled", name(), operation.what));
      }
    }
  }

  /// Whether there are others than those that were refused, with `refusal`.
  Result<bool> FindKeysAgain(const Status& refusal) {
    if (options_.find_again == nullptr) {
      return false;
    }
    Result<aws::Credentials> found = options_.find_again();
    if (!found.ok()) {
      return Status(
          found.status().code(),
          fmt::format(
              "{}; looking for another access key: {}",
              std::string(refusal.message()),
              std::string(found.status().message())));
    }
    const bool is_other =
        found->key != credentials_.key || found->session_token != credentials_.session_token;
    credentials_ = std::move(found).value();
    return is_other;
  }

  Outcome Judge(const Result<HttpReply>& reply, const Operation& operation) const {
    if (!reply.ok()) {
      const StatusCode code = reply.status().code();
      return {
          .status = reply.status(),
          .may_retry = code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded};
    }
    if (reply->status >= 200 && reply->status < 300) {
      if (reply->body.size() > operation.reply_bytes_max) {
        return {
            .status = Status::Corruption(fmt::format(
                "it has {} bytes, at most {} are right",
                reply->body.size(),
                operation.reply_bytes_max))};
      }
      return {};
    }
    return JudgeError(*reply);
  }

  Outcome JudgeError(const HttpReply& reply) const {
    const S3Error error = ParseS3Error(reply.body);
    const std::string said = fmt::format(
        "HTTP {}{}{}{}{}",
        reply.status,
        error.code.empty() ? "" : " ",
        Printable(Clip(error.code, 100)),
        error.message.empty() ? "" : ": ",
        Printable(Clip(error.message, 300)));
    if (error.code == "NoSuchBucket") {
      return {
          .status = Status::InvalidArgument(fmt::format(
              "there is no bucket {} (region {}); create it, or correct the name; {}",
              location_.bucket,
              location_.region,
              said))};
    }
    if (reply.status == 404) {
      return {.status = Status::NotFound(fmt::format("it is not there ({})", said))};
    }
    const bool is_wanted_later = reply.status >= 500 || reply.status == 429 ||
                                 reply.status == 408 || error.code == "SlowDown" ||
                                 error.code == "RequestTimeout";
    if (is_wanted_later) {
      return {
          .status = Status::Unavailable(fmt::format("the object store has trouble: {}", said)),
          .may_retry = true};
    }
    // Part of the request was lost on its way: only another transfer tells.
    if (error.code == "XAmzContentSHA256Mismatch" || error.code == "IncompleteBody" ||
        error.code == "BadDigest") {
      return {
          .status = Status::Unavailable(fmt::format("it arrived damaged: {}", said)),
          .may_retry = true};
    }
    const auto region = reply.headers.find("x-amz-bucket-region");
    if (region != reply.headers.end() && region->second != location_.region) {
      return {
          .status = Status::InvalidArgument(fmt::format(
              "bucket {} is in region {}, not in {}: set AWS_REGION={}, or add ?region={} to "
              "the place",
              location_.bucket,
              Printable(region->second),
              location_.region,
              Printable(region->second),
              Printable(region->second)))};
    }
    const bool is_key_refused =
        (reply.status == 401 || reply.status == 403 || error.code == "ExpiredToken" ||
         error.code == "InvalidToken" || error.code == "TokenRefreshRequired") &&
        error.code != "RequestTimeTooSkewed";
    return {
        .status = Status::InvalidArgument(Refusal(error.code, said)),
        .is_key_refused = is_key_refused};
  }

  /// What to do about a request that will never be taken.
  std::string Refusal(const std::string& code, const std::string& said) const {
    const std::string from = aws::ShownKey(credentials_);
    if (code == "InvalidAccessKeyId") {
      return fmt::format("{} is not known there: {}", from, said);
    }
    if (code == "SignatureDoesNotMatch" || code == "AuthorizationHeaderMalformed") {
      return fmt::format(
          "the secret of {} is wrong, or the region {} is: {}", from, location_.region, said);
    }
    if (code == "ExpiredToken" || code == "InvalidToken" || code == "TokenRefreshRequired") {
      return fmt::format("{} has expired; get a new one: {}", from, said);
    }
    if (code == "RequestTimeTooSkewed") {
      return fmt::format("the clock of this machine is wrong: {}", said);
    }
    if (code == "AccessDenied" || code == "AllAccessDisabled") {
      return fmt::format(
          "{} may not do this; it needs s3:ListBucket, s3:GetObject, s3:PutObject and "
          "s3:DeleteObject on {}: {}",
          from,
          name(),
          said);
    }
    return fmt::format("the object store refuses it, with {}: {}", from, said);
  }

  const S3Location location_;
  aws::Credentials credentials_;
  const std::unique_ptr<HttpClient> http_;
  const S3Options options_;
  Random random_;
};

}  // namespace

std::unique_ptr<ObjectStore> MakeS3Store(
    S3Location location,
    aws::Credentials credentials,
    std::unique_ptr<HttpClient> http,
    S3Options options) {
  return std::make_unique<S3Store>(
      std::move(location), std::move(credentials), std::move(http), std::move(options));
}

}  // namespace ps::store
