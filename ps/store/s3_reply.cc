#include "ps/store/s3_reply.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "ps/aws/xml.h"
#include "ps/http/url.h"

namespace ps::store {
namespace {

std::string_view TextOf(std::span<const std::byte> body) {
  return {reinterpret_cast<const char*>(body.data()), body.size()};
}

}  // namespace

S3Error ParseS3Error(std::span<const std::byte> body) {
  const auto error = aws::ParseXml(TextOf(body));
  if (!error.ok() || error->name != "Error") {
    return {};
  }
  return {
      .code = std::string(error->TextAt("Code")), .message = std::string(error->TextAt("Message"))};
}

std::optional<std::string> KeyBehind(std::string_view prefix, std::string_view listed) {
  for (const std::string& key :
       {std::string(listed), PercentDecoded(listed, true), PercentDecoded(listed, false)}) {
    if (key.starts_with(prefix)) {
      return key.substr(prefix.size());
    }
  }
  return std::nullopt;
}

std::string DecodedKey(const S3Page& page, std::string_view listed) {
  // As forms are encoded: a plus in a name is %2B, and a blank a plus or %20.
  return page.is_url_encoded ? PercentDecoded(listed, true) : std::string(listed);
}

Result<S3Page> ParseS3Page(std::span<const std::byte> body) {
  PS_ASSIGN(
      const aws::XmlElement list,
      aws::ParseXml(TextOf(body)).Annotate("the answer is no list of objects"));
  if (list.name != "ListBucketResult") {
    return Status::Corruption("the answer is no list of objects");
  }
  S3Page page;
  page.is_url_encoded = list.TextAt("EncodingType") == "url";
  for (const aws::XmlElement& item : list.children) {
    if (item.name != "Contents") {
      continue;
    }
    const aws::XmlElement* const key = item.Find("Key");
    const std::string_view size = item.TextAt("Size");
    S3Object object;
    const auto parsed = std::from_chars(size.data(), size.data() + size.size(), object.bytes);
    if (key == nullptr || parsed.ec != std::errc() || parsed.ptr != size.data() + size.size()) {
      return Status::Corruption("the list has an object without name or size");
    }
    object.key = key->text;
    object.etag = item.TextAt("ETag");
    object.modified = item.TextAt("LastModified");
    page.objects.push_back(std::move(object));
  }
  if (list.TextAt("IsTruncated") == "true") {
    page.next = list.TextAt("NextContinuationToken");
    if (page.next.empty()) {
      return Status::Corruption("the list goes on, and does not say where");
    }
  }
  return page;
}

}  // namespace ps::store
