#include "ps/store/object_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ps/base/text.h"

namespace ps::store {
namespace {

/// "abc" with its quotes, which some servers leave out, or without them.
std::string_view WithoutQuotes(std::string_view etag) {
  return etag.size() >= 2 && etag.front() == '"' && etag.back() == '"'
             ? etag.substr(1, etag.size() - 2)
             : etag;
}

std::string ShownName(std::string_view name) {
  return Printable(Clip(name, 200));
}

S3Options WithAccess(S3Options options, const S3Access& access) {
  options.find_again = access.find_again;
  options.permissions = "s3:ListBucket and s3:GetObject";
  return options;
}

}  // namespace

ObjectReader::ObjectReader(
    const S3Access& access, const HttpLimits& limits, IsCancelled is_cancelled, S3Options options)
    : client_(
          access.location,
          access.credentials,
          MakeHttpClient(limits, std::move(is_cancelled)),
          WithAccess(std::move(options), access)) {}

Result<std::vector<StoredObject>> ObjectReader::List(
    size_t objects_max, const std::function<bool(std::string_view)>& is_wanted) {
  const std::string own = client_.FullKey("");
  std::vector<StoredObject> objects;
  size_t listed = 0;
  PS_TRY(client_.List(own, "listing the objects", [&](const S3Page& page) -> Status {
    listed += page.objects.size();
    for (const S3Object& object : page.objects) {
      const std::string key = DecodedKey(page, object.key);
      if (!key.starts_with(own)) {
        return Status::Corruption(fmt::format(
            "{}: the list has {}, which is not below the prefix", name(), ShownName(object.key)));
      }
      const std::string_view behind = std::string_view(key).substr(own.size());
      const bool is_folder = behind.empty() || (behind.ends_with('/') && object.bytes == 0);
      if (!is_folder && is_wanted(behind)) {
        objects.push_back(
            {.name = std::string(behind),
             .bytes = object.bytes,
             .etag = std::string(WithoutQuotes(object.etag)),
             .modified = object.modified});
      }
    }
    if (listed > kListedMax || objects.size() > objects_max) {
      return Status::InvalidArgument(fmt::format(
          "{} has more than {} objects{}; allowed: up to so many",
          name(),
          FormatCount(listed > kListedMax ? kListedMax : objects_max),
          listed > kListedMax ? "" : " that could be data"));
    }
    return Status::Ok();
  }));
  // The service sorts by bytes; others that speak its protocol may not.
  std::sort(objects.begin(), objects.end(), [](const StoredObject& a, const StoredObject& b) {
    return a.name < b.name;
  });
  return objects;
}

Result<std::vector<std::byte>> ObjectReader::Read(
    const StoredObject& object, uint64_t offset, size_t bytes) {
  const bool is_whole = offset == 0 && bytes == object.bytes;
  S3Request request = {
      .what = fmt::format("reading {}", ShownName(object.name)),
      .method = "GET",
      .key = client_.FullKey(object.name),
      .query = {},
      .body = {},
      .reply_bytes_max = bytes};
  if (!object.etag.empty() && !object.etag.starts_with("W/")) {  // a weak one never matches
    request.headers.push_back(fmt::format("if-match: \"{}\"", object.etag));
  }
  const std::string range = fmt::format("{}-{}", offset, offset + bytes - 1);
  if (!is_whole) {
    request.headers.push_back("range: bytes=" + range);
  }
  const std::string where = name() + ": " + request.what;
  Result<HttpReply> sent = client_.Do(request);
  if (sent.status().code() == StatusCode::kCorruption) {  // more than was asked for
    return is_whole ? Status::Stale(where + ": it has more bytes, so it is another one now")
                    : Status::Unsupported(where + ": the store gives no parts of objects");
  }
  PS_ASSIGN(HttpReply reply, std::move(sent));
  const auto header = [&](const char* name_of) {
    const auto it = reply.headers.find(name_of);
    return it == reply.headers.end() ? std::string() : it->second;
  };
  const std::string etag(WithoutQuotes(header("etag")));
  if (!etag.empty() && !object.etag.empty() && etag != object.etag) {
    return Status::Stale(where + ": it is another one now");
  }
  if (!is_whole) {
    const std::string expected = fmt::format("bytes {}/{}", range, object.bytes);
    if (reply.status != 206) {
      return Status::Unsupported(fmt::format(
          "{}: the store gives no parts of objects (HTTP {} for bytes {})",
          where,
          reply.status,
          range));
    }
    if (const std::string given = header("content-range"); given != expected) {
      return Status::Stale(fmt::format(
          "{}: it is another one now (\"{}\" came for \"{}\")",
          where,
          Printable(Clip(given, 100)),
          expected));
    }
  }
  if (reply.body.size() != bytes) {
    return Status::Stale(fmt::format(
        "{}: {} bytes came instead of {}, so it is another one now",
        where,
        reply.body.size(),
        bytes));
  }
  return std::move(reply.body);
}

}  // namespace ps::store
