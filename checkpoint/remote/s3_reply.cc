#include "checkpoint/remote/s3_reply.h"

#include <fmt/core.h>

#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

namespace ps::checkpoint {
namespace {

std::string_view TextOf(std::span<const std::byte> body) {
  return {reinterpret_cast<const char*>(body.data()), body.size()};
}

/// What is inside the first <name>...</name>.
std::optional<std::string_view> Inside(std::string_view xml, std::string_view name) {
  const std::string open = fmt::format("<{}>", name);
  const std::string close = fmt::format("</{}>", name);
  const size_t begin = xml.find(open);
  const size_t end = begin == std::string_view::npos ? begin : xml.find(close, begin);
  if (end == std::string_view::npos) {
    return std::nullopt;
  }
  return xml.substr(begin + open.size(), end - begin - open.size());
}

std::string Unescaped(std::string_view text) {
  constexpr std::pair<std::string_view, char> kEntities[] = {
      {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
  std::string out;
  while (!text.empty()) {
    char next = text.front();
    size_t length = 1;
    for (const auto& [entity, c] : kEntities) {
      if (text.starts_with(entity)) {
        next = c;
        length = entity.size();
      }
    }
    out.push_back(next);
    text.remove_prefix(length);
  }
  return out;
}

std::string PercentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      out.push_back(static_cast<char>(value));
      i += 2;
    } else {
      out.push_back(text[i] == '+' ? ' ' : text[i]);
    }
  }
  return out;
}

}  // namespace

S3Error ParseS3Error(std::span<const std::byte> body) {
  const std::optional<std::string_view> error = Inside(TextOf(body), "Error");
  if (!error) {
    return {};
  }
  return {
      .code = Unescaped(Inside(*error, "Code").value_or("")),
      .message = Unescaped(Inside(*error, "Message").value_or(""))};
}

Result<S3Page> ParseS3Page(std::span<const std::byte> body) {
  const std::string_view xml = TextOf(body);
  // A page that was cut off lacks its end.
  if (xml.find("<ListBucketResult") == std::string_view::npos ||
      xml.find("</ListBucketResult>") == std::string_view::npos) {
    return Status::Corruption("the answer is no list of objects");
  }
  S3Page page;
  std::string_view rest = xml;
  while (const std::optional<std::string_view> item = Inside(rest, "Contents")) {
    rest.remove_prefix(static_cast<size_t>(item->data() + item->size() - rest.data()));
    const auto key = Inside(*item, "Key");
    const std::string_view size = Inside(*item, "Size").value_or("");
    ObjectInfo object;
    const auto parsed = std::from_chars(size.data(), size.data() + size.size(), object.bytes);
    if (!key || parsed.ec != std::errc() || parsed.ptr != size.data() + size.size()) {
      return Status::Corruption("the list has an object without name or size");
    }
    object.key = PercentDecoded(Unescaped(*key));
    page.objects.push_back(std::move(object));
  }
  if (Inside(xml, "IsTruncated").value_or("") == "true") {
    page.next = Unescaped(Inside(xml, "NextContinuationToken").value_or(""));
    if (page.next.empty()) {
      return Status::Corruption("the list goes on, and does not say where");
    }
  }
  return page;
}

std::string PercentEncoded(std::string_view text, bool keep_slashes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~' ||
                          (c == '/' && keep_slashes);
    if (is_plain) {
      out.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out.push_back('%');
    out.push_back(kDigits[byte >> 4]);
    out.push_back(kDigits[byte & 15]);
  }
  return out;
}

}  // namespace ps::checkpoint
