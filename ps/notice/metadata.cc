#include "ps/notice/metadata.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace ps::notice {
namespace {

constexpr Duration kConnect = std::chrono::seconds(2);  // the service is on the same machine

}  // namespace

HttpLimits MetadataLimits(Duration total, const NoticeSettings& settings) {
  HttpLimits limits;
  limits.connect = kConnect;
  limits.total = std::min(total, settings.patience_max);
  limits.bytes_per_s_min = 0;
  return limits;
}

HttpRequest MetadataRequest(std::string method, std::string url, std::vector<std::string> headers) {
  HttpRequest request;
  request.method = std::move(method);
  request.url = std::move(url);
  request.headers = std::move(headers);
  request.reply_bytes_max = kMetadataBytesMax;
  request.is_direct = true;
  return request;
}

std::string_view TextOf(const HttpReply& reply) {
  return {reinterpret_cast<const char*>(reply.body.data()), reply.body.size()};
}

bool IsHeaderText(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

bool IsSameName(std::string_view a, std::string_view b) {
  constexpr auto kLower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::ranges::equal(a, b, {}, kLower, kLower);
}

std::string BaseUrl(const std::string& settings_url, const std::string& own) {
  std::string url = settings_url.empty() ? own : settings_url;
  if (url.find("://") == std::string::npos) {
    url = "http://" + url;
  }
  while (url.ends_with('/')) {
    url.pop_back();
  }
  return url;
}

Status UnexpectedReply(std::string_view service, std::string_view path, const HttpReply& reply) {
  return Status::Unavailable(
      fmt::format("{}'s metadata service answers {} to {}", service, reply.status, path));
}

Duration GraceUntil(std::optional<int64_t> when, const HttpReply& reply) {
  const auto date = reply.headers.find("date");
  const std::optional<int64_t> now =
      date == reply.headers.end() ? std::nullopt : ParseHttpDate(date->second);
  if (!when || !now || *when <= *now) {
    return kAtOnce;
  }
  constexpr int64_t kMaxS = std::chrono::duration_cast<std::chrono::seconds>(kGraceMax).count();
  return std::chrono::seconds(std::min(*when - *now, kMaxS));
}

}  // namespace ps::notice
