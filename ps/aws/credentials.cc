#include "ps/aws/credentials.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "ps/aws/temporary_keys.h"
#include "ps/base/file.h"

namespace ps::aws {
namespace {

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

/// None when there is no such file or section.
ProfileValues ReadSection(const std::string& path, const std::string& section) {
  const Result<std::string> text = ReadFile(path);
  return text.ok() ? ParseProfileSection(*text, section) : ProfileValues();
}

/// What the files say of the profile: those of the credentials' file go first.
struct Profile {
  std::string name;
  std::string credentials_path;
  ProfileValues values;
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

void CompleteService(
    const Environment& environment, const ProfileValues& values, Service* service) {
  const auto first_of = [&](std::initializer_list<std::string> names, const char* in_profile) {
    for (const std::string& name : names) {
      if (const auto value = environment(name)) {
        return *value;
      }
    }
    const auto it = values.find(in_profile);
    return it == values.end() ? std::string() : it->second;
  };
  if (service->region.empty()) {
    service->region = first_of({"AWS_REGION", "AWS_DEFAULT_REGION"}, "region");
  }
  if (service->region.empty()) {
    service->region = "us-east-1";
  }
  if (service->endpoint.empty()) {
    std::string own = "AWS_ENDPOINT_URL_" + service->name;
    std::transform(own.begin(), own.end(), own.begin(), [](unsigned char c) {
      return c == '-' ? '_' : static_cast<char>(std::toupper(c));
    });
    service->endpoint = first_of({own, "AWS_ENDPOINT_URL"}, "endpoint_url");
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

/// Keys that expire. Errors: those of FindCredentials.
Result<Credentials> FindTemporary(
    const Environment& environment,
    const Profile& profile,
    HttpClient* http,
    const std::string& purpose) {
  if (const auto it = profile.values.find("credential_process"); it != profile.values.end()) {
    return RunCredentialProcess(
        it->second, fmt::format("credential_process of profile {}", profile.name));
  }
  if (const std::string why = WhatIsNotRead(environment, profile); !why.empty()) {
    return Status::InvalidArgument(fmt::format(
        "there is no access key for {}: {}. Let the AWS tools make the keys: put "
        "\"credential_process = aws configure export-credentials --profile {} --format process\" "
        "into another profile of ~/.aws/config, and name that one in AWS_PROFILE",
        purpose,
        why,
        profile.name));
  }
  Status asked = Status::NotFound("no service was asked");
  if (http != nullptr) {
    Result<Credentials> found = ReadContainerRole(environment, *http);
    if (found.status().code() == StatusCode::kNotFound) {
      found = ReadInstanceRole(environment, *http);
    }
    if (found.ok() || found.status().code() != StatusCode::kNotFound) {
      return std::move(found).Annotate("the access key for " + purpose);
    }
    asked = std::move(found).status();
  }
  return Status::InvalidArgument(fmt::format(
      "there is no access key for {}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or add "
      "the profile {} of {} with keys or a credential_process; an instance's role would do as well "
      "({})",
      purpose,
      profile.name,
      profile.credentials_path,
      std::string(asked.message())));
}

}  // namespace

ProfileValues ParseProfileSection(std::string_view text, std::string_view section) {
  ProfileValues values;
  bool is_inside = false;
  for (const std::string_view raw : Lines(text)) {
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

Status CheckEndpoint(std::string* endpoint) {
  while (endpoint->ends_with('/')) {
    endpoint->pop_back();
  }
  const size_t scheme = endpoint->find("://");
  const bool is_http = endpoint->starts_with("http://") || endpoint->starts_with("https://");
  if (!is_http || endpoint->size() == scheme + 3 ||
      endpoint->find('/', scheme + 3) != std::string::npos) {
    return Status::InvalidArgument(fmt::format(
        "\"{}\" is no endpoint of a service; it looks like https://HOST or http://HOST:PORT",
        *endpoint));
  }
  return Status::Ok();
}

void SignWith(const Credentials& credentials, HttpRequest* request) {
  request->key = credentials.key;
  constexpr std::string_view kToken = "x-amz-security-token: ";
  std::erase_if(
      request->headers, [&](const std::string& header) { return header.starts_with(kToken); });
  if (!credentials.session_token.empty()) {
    request->headers.push_back(std::string(kToken) + credentials.session_token);
  }
}

std::string ShownKey(const Credentials& credentials) {
  const std::string& id = credentials.key.id;
  return fmt::format(
      "the access key {} from {}",
      id.size() <= 8 ? id : id.substr(0, 8) + "...",
      credentials.source);
}

Result<Credentials> FindCredentials(
    const Environment& environment,
    HttpClient* http,
    const std::string& purpose,
    Service* service) {
  const Profile profile = ReadProfile(environment);
  CompleteService(environment, profile.values, service);
  if (!service->endpoint.empty()) {
    PS_TRY(CheckEndpoint(&service->endpoint).Annotate("AWS_ENDPOINT_URL"));
  }
  const auto value_of = [&](const char* name) {
    const auto it = profile.values.find(name);
    return it == profile.values.end() ? std::string() : it->second;
  };
  Credentials found;
  found.key.region = service->region;
  found.key.service = service->name;
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
    PS_ASSIGN(found, FindTemporary(environment, profile, http, purpose));
    found.key.region = service->region;
    found.key.service = service->name;
  }
  return found;
}

}  // namespace ps::aws
