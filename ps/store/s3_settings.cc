#include "ps/store/s3_settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace ps::store {
namespace {

constexpr std::string_view kScheme = "s3://";

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (size_t end = text.find(separator); end != std::string_view::npos;
       end = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

bool IsBucketName(std::string_view name) {
  const auto is_alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  };
  return name.size() >= 3 && name.size() <= 63 && is_alphanumeric(name.front()) &&
         is_alphanumeric(name.back()) && std::all_of(name.begin(), name.end(), [&](char c) {
           return is_alphanumeric(c) || c == '-' || c == '.';
         });
}

/// The prefix with its parts "." and ".." resolved, if it has any; else as it is.
std::string WithoutDots(const std::string& prefix) {
  const std::vector<std::string_view> parts = Split(prefix, '/');
  const bool has_dots = std::any_of(parts.begin(), parts.end(), [](std::string_view part) {
    return part == "." || part == "..";
  });
  if (!has_dots) {
    return prefix;
  }
  std::string plain = std::filesystem::path("/" + prefix).lexically_normal().string().substr(1);
  while (plain.ends_with('/')) {
    plain.pop_back();
  }
  return plain;
}

Status ReadOption(std::string_view option, S3Location* location, std::string* style) {
  const size_t equals = std::min(option.find('='), option.size());
  const std::string_view name = option.substr(0, equals);
  const std::string value(option.substr(std::min(equals + 1, option.size())));
  if (name == "endpoint" && !value.empty()) {
    location->endpoint = value;
    return aws::CheckEndpoint(&location->endpoint);
  }
  if (name == "region" && !value.empty()) {
    location->region = value;
    return Status::Ok();
  }
  if (name == "style" && (value == "path" || value == "virtual")) {
    *style = value;
    return Status::Ok();
  }
  return Status::InvalidArgument(fmt::format(
      "unknown option \"{}\"; allowed: endpoint=URL, region=NAME, style=path, style=virtual",
      option));
}

}  // namespace

bool IsS3(const std::string& text) {
  return text.starts_with(kScheme);
}

Result<S3Location> ParseS3Location(const std::string& text) {
  const auto fail = [&](const std::string& why) {
    return Status::InvalidArgument(
        fmt::format("{}: {}; a place in an object store is s3://BUCKET/PREFIX", text, why));
  };
  if (!IsS3(text)) {
    return fail("it does not begin with s3://");
  }
  const std::vector<std::string_view> halves =
      Split(std::string_view(text).substr(kScheme.size()), '?');
  const std::string_view path = halves.front();
  const size_t slash = std::min(path.find('/'), path.size());
  S3Location location;
  location.bucket = path.substr(0, slash);
  std::string_view prefix = path.substr(slash);
  while (prefix.starts_with('/')) {
    prefix.remove_prefix(1);
  }
  while (prefix.ends_with('/')) {
    prefix.remove_suffix(1);
  }
  location.prefix = prefix;
  if (!IsBucketName(location.bucket)) {
    return fail(fmt::format("\"{}\" is no name of a bucket", location.bucket));
  }
  if (prefix.size() > 512 || std::any_of(prefix.begin(), prefix.end(), [](unsigned char c) {
        return c <= ' ' || c >= 127;
      })) {
    return fail("the prefix has more than 512 characters, or some that are not printable ASCII");
  }
  if (const std::string plain = WithoutDots(location.prefix); plain != location.prefix) {
    return fail(fmt::format(
        "programs on the way take the parts \".\" and \"..\" of the prefix for steps between "
        "folders, and what is written is not what is listed; write s3://{}{}{}",
        location.bucket,
        plain.empty() ? "" : "/",
        plain));
  }
  std::string style;
  for (size_t i = 1; i < halves.size(); ++i) {
    for (const std::string_view option : Split(halves[i], '&')) {
      if (Status read = ReadOption(option, &location, &style); !read.ok()) {
        return fail(std::string(read.message()));
      }
    }
  }
  // The certificate of AWS covers one label before the region's name, and others have none at all.
  const bool has_own_host = location.bucket.find('.') == std::string::npos;
  location.is_path_style =
      style.empty() ? !location.endpoint.empty() || !has_own_host : style == "path";
  return location;
}

Result<aws::Credentials> FindS3Credentials(
    const Environment& environment, HttpClient* http, S3Location* location) {
  aws::Service service = {.name = "s3", .region = location->region, .endpoint = location->endpoint};
  const bool has_endpoint = !location->endpoint.empty();
  PS_ASSIGN(
      aws::Credentials found,
      aws::FindCredentials(environment, http, "s3://" + location->bucket, &service));
  location->region = service.region;
  location->endpoint = service.endpoint;
  location->is_path_style =
      location->is_path_style || (!has_endpoint && !location->endpoint.empty());
  return found;
}

Result<S3Access> FindS3Access(const std::string& place, const Environment& environment) {
  S3Access access;
  PS_ASSIGN(access.location, ParseS3Location(place));
  const std::shared_ptr<HttpClient> services = MakeHttpClient(
      {.connect = std::chrono::seconds(1), .total = std::chrono::seconds(5)}, nullptr);
  PS_ASSIGN(access.credentials, FindS3Credentials(environment, services.get(), &access.location));
  const auto one_at_a_time = std::make_shared<std::mutex>();
  access.find_again = [environment, services, one_at_a_time, location = access.location] {
    const std::lock_guard lock(*one_at_a_time);
    S3Location unchanged = location;
    return FindS3Credentials(environment, services.get(), &unchanged);
  };
  return access;
}

}  // namespace ps::store
