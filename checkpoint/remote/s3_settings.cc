#include "checkpoint/remote/s3_settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "ps/base/file.h"

namespace ps::checkpoint {
namespace {

constexpr std::string_view kScheme = "s3://";

using Values = std::map<std::string, std::string>;

std::string Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string_view::npos
             ? std::string()
             : std::string(text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1));
}

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

/// The values of one section of an INI file. None when there is no such file or section.
Values ReadSection(const std::string& path, const std::string& section) {
  Values values;
  const Result<std::string> text = ReadFile(path);
  if (!text.ok()) {
    return values;
  }
  bool is_inside = false;
  for (const std::string_view raw : Split(*text, '\n')) {
    const std::string line = Trimmed(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') {
      continue;
    }
    if (line.front() == '[') {
      is_inside = Trimmed(std::string_view(line).substr(1, line.find(']') - 1)) == section;
      continue;
    }
    const size_t equals = line.find('=');
    if (is_inside && equals != std::string::npos) {
      const std::string_view view = line;
      values[Trimmed(view.substr(0, equals))] = Trimmed(view.substr(equals + 1));
    }
  }
  return values;
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

Status CheckEndpoint(std::string* endpoint) {
  while (endpoint->ends_with('/')) {
    endpoint->pop_back();
  }
  const size_t scheme = endpoint->find("://");
  const bool is_http = endpoint->starts_with("http://") || endpoint->starts_with("https://");
  if (!is_http || endpoint->size() == scheme + 3 ||
      endpoint->find('/', scheme + 3) != std::string::npos) {
    return Status::InvalidArgument(fmt::format(
        "\"{}\" is no endpoint of an object store; it looks like https://HOST or http://HOST:PORT",
        *endpoint));
  }
  return Status::Ok();
}

Status ReadOption(std::string_view option, S3Location* location, std::string* style) {
  const size_t equals = std::min(option.find('='), option.size());
  const std::string_view name = option.substr(0, equals);
  const std::string value(option.substr(std::min(equals + 1, option.size())));
  if (name == "endpoint" && !value.empty()) {
    location->endpoint = value;
    return CheckEndpoint(&location->endpoint);
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

/// What the files say of the profile: those of the credentials' file go first.
struct Profile {
  std::string name;
  std::string credentials_path;
  Values values;
};

Profile ReadProfile(const Environment& environment) {
  const std::string folder = environment("HOME").value_or("") + "/.aws";
  Profile profile;
  profile.name = environment("AWS_PROFILE").value_or("default");
  profile.credentials_path =
      environment("AWS_SHARED_CREDENTIALS_FILE").value_or(folder + "/credentials");
  const std::string config_path = environment("AWS_CONFIG_FILE").value_or(folder + "/config");
  profile.values = ReadSection(profile.credentials_path, profile.name);
  const std::string section = profile.name == "default" ? "default" : "profile " + profile.name;
  profile.values.merge(ReadSection(config_path, section));
  return profile;
}

void CompleteLocation(const Environment& environment, const Values& values, S3Location* location) {
  const auto first_of = [&](std::initializer_list<const char*> names, const char* in_profile) {
    for (const char* const name : names) {
      if (const auto value = environment(name)) {
        return *value;
      }
    }
    const auto it = values.find(in_profile);
    return it == values.end() ? std::string() : it->second;
  };
  if (location->region.empty()) {
    location->region = first_of({"AWS_REGION", "AWS_DEFAULT_REGION"}, "region");
  }
  if (location->region.empty()) {
    location->region = "us-east-1";
  }
  if (location->endpoint.empty()) {
    location->endpoint = first_of({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, "endpoint_url");
    location->is_path_style = location->is_path_style || !location->endpoint.empty();
  }
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

Result<S3Credentials> FindS3Credentials(const Environment& environment, S3Location* location) {
  const Profile profile = ReadProfile(environment);
  CompleteLocation(environment, profile.values, location);
  if (!location->endpoint.empty()) {
    PS_TRY(CheckEndpoint(&location->endpoint).Annotate("AWS_ENDPOINT_URL"));
  }
  const auto value_of = [&](const char* name) {
    const auto it = profile.values.find(name);
    return it == profile.values.end() ? std::string() : it->second;
  };
  S3Credentials found;
  found.key.region = location->region;
  const auto id = environment("AWS_ACCESS_KEY_ID");
  const auto secret = environment("AWS_SECRET_ACCESS_KEY");
  if (id.has_value() != secret.has_value()) {
    return Status::InvalidArgument(fmt::format(
        "{} is set and {} is not; an access key has both",
        id ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
        id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID"));
  }
  if (id && !environment("AWS_PROFILE")) {
    found.key.id = *id;
    found.key.secret = *secret;
    found.session_token = environment("AWS_SESSION_TOKEN").value_or("");
    found.source = "the environment";
    return found;
  }
  found.key.id = value_of("aws_access_key_id");
  found.key.secret = value_of("aws_secret_access_key");
  found.session_token = value_of("aws_session_token");
  found.source = fmt::format("profile {} of {}", profile.name, profile.credentials_path);
  if (found.key.id.empty() || found.key.secret.empty()) {
    return Status::InvalidArgument(fmt::format(
        "there is no access key for s3://{}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
        "add the {}",
        location->bucket,
        found.source));
  }
  return found;
}

}  // namespace ps::checkpoint
