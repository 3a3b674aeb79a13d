#include "checkpoint/remote/s3_reply.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
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

/// As UTF-8; nothing for what is no character.
std::optional<std::string> Utf8Of(uint32_t code) {
  if (code == 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
    return std::nullopt;
  }
  const auto tail = [code](int shift) {
    return static_cast<char>(0x80 | ((code >> shift) & 0x3F));
  };
  if (code < 0x80) {
    return std::string{static_cast<char>(code)};
  }
  if (code < 0x800) {
    return std::string{static_cast<char>(0xC0 | (code >> 6)), tail(0)};
  }
  if (code < 0x10000) {
    return std::string{static_cast<char>(0xE0 | (code >> 12)), tail(6), tail(0)};
  }
  return std::string{static_cast<char>(0xF0 | (code >> 18)), tail(12), tail(6), tail(0)};
}

/// What the entity between "&" and ";" stands for: "amp", "#43", "#x2F".
std::optional<std::string> Entity(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kNamed[] = {
      {"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"apos", "'"}};
  for (const auto& [entity, text] : kNamed) {
    if (name == entity) {
      return std::string(text);
    }
  }
  if (!name.starts_with('#')) {
    return std::nullopt;
  }
  const bool is_hex = name.starts_with("#x");
  const std::string_view digits = name.substr(is_hex ? 2 : 1);
  const char* const end = digits.data() + digits.size();
  uint32_t code = 0;
  const auto parsed = std::from_chars(digits.data(), end, code, is_hex ? 16 : 10);
  return parsed.ec == std::errc() && parsed.ptr == end ? Utf8Of(code) : std::nullopt;
}

std::string Unescaped(std::string_view text) {
  constexpr size_t kEntityBytesMax = 12;
  std::string out;
  while (!text.empty()) {
    const size_t end = text.front() == '&' ? text.find(';') : std::string_view::npos;
    const auto entity =
        end <= kEntityBytesMax ? Entity(text.substr(1, end - 1)) : std::optional<std::string>();
    out += entity ? *entity : std::string(1, text.front());
    text.remove_prefix(entity ? end + 1 : 1);
  }
  return out;
}

std::string PercentDecoded(std::string_view text, bool is_plus_blank) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      out.push_back(static_cast<char>(value));
      i += 2;
    } else {
      out.push_back(text[i] == '+' && is_plus_blank ? ' ' : text[i]);
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

std::optional<std::string> KeyBehind(std::string_view prefix, std::string_view listed) {
  for (const std::string& key :
       {std::string(listed), PercentDecoded(listed, true), PercentDecoded(listed, false)}) {
    if (key.starts_with(prefix)) {
      return key.substr(prefix.size());
    }
  }
  return std::nullopt;
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
    object.key = Unescaped(*key);
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
