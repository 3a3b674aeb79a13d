#include "ps/store/s3_client.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ps/base/retry.h"
#include "ps/base/text.h"
#include "ps/crypto/md5.h"
#include "ps/crypto/sha256.h"
#include "ps/http/url.h"

namespace ps::store {

S3Client::S3Client(
    S3Location location,
    aws::Credentials credentials,
    std::unique_ptr<HttpClient> http,
    S3Options options)
    : location_(std::move(location)),
      credentials_(std::move(credentials)),
      http_(std::move(http)),
      options_(std::move(options)),
      random_(options_.seed) {}

std::string S3Client::name() const {
  return "s3://" + location_.bucket + (location_.prefix.empty() ? "" : "/" + location_.prefix);
}

std::string S3Client::FullKey(std::string_view key) const {
  return (location_.prefix.empty() ? "" : location_.prefix + "/") + std::string(key);
}

Status S3Client::List(
    const std::string& full_prefix,
    const std::string& what,
    const std::function<Status(S3Page)>& take) {
  std::string token;
  do {
    std::string query;
    if (!token.empty()) {
      query = "continuation-token=" + PercentEncoded(token, false) + "&";
    }
    query += "encoding-type=url&list-type=2&prefix=" + PercentEncoded(full_prefix, false);
    PS_ASSIGN(
        const HttpReply reply,
        Do({.what = what, .method = "GET", .key = {}, .query = query, .body = {}}));
    PS_ASSIGN(S3Page page, ParseS3Page(reply.body).Annotate(name() + ": " + what));
    token = page.next;
    PS_TRY(take(std::move(page)));
  } while (!token.empty());
  return Status::Ok();
}

std::string S3Client::UrlOf(const S3Request& request) const {
  const std::string endpoint = location_.endpoint.empty()
                                   ? fmt::format("https://s3.{}.amazonaws.com", location_.region)
                                   : location_.endpoint;
  const size_t host = endpoint.find("://") + 3;
  std::string url = location_.is_path_style
                        ? endpoint + "/" + location_.bucket
                        : endpoint.substr(0, host) + location_.bucket + "." + endpoint.substr(host);
  url += "/" + PercentEncoded(request.key, true);
  return request.query.empty() ? url : url + "?" + request.query;
}

HttpRequest S3Client::RequestOf(const S3Request& request) const {
  HttpRequest made;
  made.method = request.method;
  made.url = UrlOf(request);
  made.body = request.body;
  made.reply_bytes_max = std::max(request.reply_bytes_max, size_t{64} << 10);
  made.headers = request.headers;
  made.headers.push_back("x-amz-content-sha256: " + crypto::HexOf(crypto::Sha256Of(request.body)));
  if (request.method == "PUT") {
    made.headers.emplace_back("content-type: application/octet-stream");
    if (const auto digest = crypto::Md5Base64(request.body)) {
      made.headers.push_back("content-md5: " + *digest);
    }
  }
  return made;
}

Result<HttpReply> S3Client::Do(const S3Request& request) {
  HttpRequest sent = RequestOf(request);
  Backoff backoff(options_.first_wait, options_.longest_wait);
  bool is_found_again = false;
  for (int attempt = 1;; ++attempt) {
    aws::SignWith(credentials_, &sent);
    Result<HttpReply> reply = http_->Do(sent);
    Outcome outcome = Judge(reply, request);
    if (outcome.status.ok()) {
      return reply;
    }
    Status failure = std::move(outcome.status).Annotate(name() + ": " + request.what);
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
          failure.code(), fmt::format("{} ({} attempts)", std::string(failure.message()), attempt));
    }
    if (options_.on_trouble != nullptr) {
      options_.on_trouble(failure);
    }
    if (!options_.pause(backoff.Next(&random_))) {
      return Status::Cancelled(fmt::format("{}: {} was cancelled", name(), request.what));
    }
  }
}

/// Whether there are others than those that were refused, with `refusal`.
Result<bool> S3Client::FindKeysAgain(const Status& refusal) {
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

S3Client::Outcome S3Client::Judge(const Result<HttpReply>& reply, const S3Request& request) const {
  if (!reply.ok()) {
    const StatusCode code = reply.status().code();
    return {
        .status = reply.status(),
        .may_retry = code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded};
  }
  if (reply->status >= 200 && reply->status < 300) {
    if (reply->body.size() > request.reply_bytes_max) {
      return {
          .status = Status::Corruption(fmt::format(
              "it has {} bytes, at most {} are right",
              reply->body.size(),
              request.reply_bytes_max))};
    }
    return {};
  }
  return JudgeError(*reply);
}

S3Client::Outcome S3Client::JudgeError(const HttpReply& reply) const {
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
  if (reply.status == 412) {
    return {.status = Status::Stale(fmt::format("it is another one now ({})", said))};
  }
  if (reply.status == 404) {
    return {.status = Status::NotFound(fmt::format("it is not there ({})", said))};
  }
  const bool is_wanted_later = reply.status >= 500 || reply.status == 429 || reply.status == 408 ||
                               error.code == "SlowDown" || error.code == "RequestTimeout";
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
std::string S3Client::Refusal(const std::string& code, const std::string& said) const {
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
        "{} may not do this; it needs {} on {}: {}", from, options_.permissions, name(), said);
  }
  return fmt::format("the object store refuses it, with {}: {}", from, said);
}

}  // namespace ps::store
