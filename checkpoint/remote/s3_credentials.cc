#include "checkpoint/remote/s3_credentials.h"

#include <fmt/core.h>

#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>

#include "checkpoint/remote/temporary_keys.h"
#include "ps/base/file.h"

namespace ps::checkpoint {
namespace {

using Values = std::map<std::string, std::string>;

std::string Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string_view::npos
             ? std::string()
             : std::string(text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1));
}

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n', begin)) {
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
  for (const std::string_view raw : Lines(*text)) {
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

/// What a profile or the environment asks for and is not read here, as a sentence; else empty.
std::string WhatIsNotRead(const Environment& environment, const Profile& profile) {
  for (const auto& [name, value] : profile.values) {
    if (name.starts_with("sso_") || name == "role_arn" || name == "source_profile" ||
        name == "web_identity_token_file" || name == "login_session") {
      return fmt::format("the profile {} has {}, which psctl does not read", profile.name, name);
    }
  }
  if (environment("AWS_WEB_IDENTITY_TOKEN_FILE")) {
    return "AWS_WEB_IDENTITY_TOKEN_FILE is set, which psctl does not read";
  }
  return "";
}

/// Keys that expire. Errors: those of FindS3Credentials.
Result<S3Credentials> FindTemporary(
    const Environment& environment,
    const Profile& profile,
    HttpClient* http,
    const S3Location& location) {
  if (const auto it = profile.values.find("credential_process"); it != profile.values.end()) {
    return RunCredentialProcess(
        it->second, fmt::format("credential_process of profile {}", profile.name));
  }
  if (const std::string why = WhatIsNotRead(environment, profile); !why.empty()) {
    return Status::InvalidArgument(fmt::format(
        "there is no access key for s3://{}: {}. Let the AWS tools make the keys: put "
        "\"credential_process = aws configure export-credentials --profile {} --format process\" "
        "into another profile of ~/.aws/config, and name that one in AWS_PROFILE",
        location.bucket,
        why,
        profile.name));
  }
  Status asked = Status::NotFound("no service was asked");
  if (http != nullptr) {
    Result<S3Credentials> found = ReadContainerRole(environment, *http);
    if (found.status().code() == StatusCode::kNotFound) {
      found = ReadInstanceRole(environment, *http);
    }
    if (found.ok() || found.status().code() != StatusCode::kNotFound) {
      return std::move(found).Annotate(fmt::format("the access key for s3://{}", location.bucket));
    }
    asked = std::move(found).status();
  }
  return Status::InvalidArgument(fmt::format(
      "there is no access key for s3://{}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or add "
      "the profile {} of {} with keys or a credential_process; an instance's role would do as well "
      "({})",
      location.bucket,
      profile.name,
      profile.credentials_path,
      std::string(asked.message())));
}

}  // namespace

Result<S3Credentials> FindS3Credentials(
    const Environment& environment, HttpClient* http, S3Location* location) {
  const Profile profile = ReadProfile(environment);
  CompleteLocation(environment, profile.values, location);
  if (!location->endpoint.empty()) {
    PS_TRY(CheckS3Endpoint(&location->endpoint).Annotate("AWS_ENDPOINT_URL"));
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
    PS_ASSIGN(found, FindTemporary(environment, profile, http, *location));
    found.key.region = location->region;
  }
  return found;
}

}  // namespace ps::checkpoint
