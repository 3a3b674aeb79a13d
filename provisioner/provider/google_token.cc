#include "provisioner/provider/google_token.h"

#include <fmt/core.h>

#include <cstdlib>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "provisioner/provider/gce_replies.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/crypto/base64.h"
#include "ps/crypto/rs256.h"
#include "ps/http/date.h"
#include "ps/http/url.h"
#include "ps/json/json_value.h"
#include "ps/json/json_writer.h"

namespace ps::provisioner {
namespace {

constexpr size_t kTokenBytesMax = size_t{64} << 10;
constexpr const char* kScope = "https://www.googleapis.com/auth/cloud-platform";
constexpr const char* kTokenUrl = "https://oauth2.googleapis.com/token";
constexpr int64_t kLifeS = 3600;  // the longest that Google signs for

std::string TokenTextOf(const HttpReply& reply) {
  return {reinterpret_cast<const char*>(reply.body.data()), reply.body.size()};
}

/// It becomes a header.
bool IsOneWord(const std::string& text) {
  return !text.empty() && Printable(text) == text && text.find(' ') == std::string::npos;
}

std::string Encoded(const std::string& text) {
  return crypto::Base64UrlOf(std::as_bytes(std::span(text)));
}

/// RFC 7523: what the account says of itself, signed with its key.
Result<std::string> Assertion(
    const JsonValue& account, const std::string& url, const TimeSource& time) {
  JsonWriter header(JsonForm::kOneLine);
  header.BeginObject();
  header.Field("alg", "RS256");
  header.Field("typ", "JWT");
  header.Field("kid", GceText(account, "private_key_id"));
  header.EndObject();
  const int64_t now_s = time.UnixMicros() / 1'000'000;
  JsonWriter claims(JsonForm::kOneLine);
  claims.BeginObject();
  claims.Field("iss", GceText(account, "client_email"));
  claims.Field("scope", kScope);
  claims.Field("aud", url);
  claims.Field("iat", now_s);
  claims.Field("exp", now_s + kLifeS);
  claims.EndObject();
  const std::string text =
      Encoded(std::move(header).Take()) + "." + Encoded(std::move(claims).Take());
  PS_ASSIGN(const std::string signature, crypto::SignRs256(GceText(account, "private_key"), text));
  return text + "." + Encoded(signature);
}

/// {"access_token": ...}, or {"error": "invalid_grant", "error_description": ...}.
Result<GoogleToken> ReadToken(
    const HttpReply& reply, const std::string& source, const TimeSource& time) {
  const auto json = ParseJson(TokenTextOf(reply), "the reply");
  GoogleToken token;
  token.source = source;
  if (json.ok()) {
    token.token = GceText(*json, "access_token");
  }
  if (reply.status == 200 && IsOneWord(token.token)) {
    return token;
  }
  const std::string error = json.ok() ? GceText(*json, "error") : "";
  if (reply.status == 200 || reply.status >= 500 || error.empty()) {
    return Status::Unavailable(
        fmt::format("{}: the service of tokens answers HTTP {}", source, reply.status));
  }
  const std::string why = GceText(*json, "error_description");
  const std::string said = fmt::format(
      "{}{}{}", Printable(Clip(error, 60)), why.empty() ? "" : ": ", Printable(Clip(why, 300)));
  const auto date = reply.headers.find("date");
  const auto theirs = date == reply.headers.end() ? std::nullopt : ParseHttpDate(date->second);
  if (why.find("reasonable timeframe") != std::string::npos && theirs) {
    const int64_t off_s = time.UnixMicros() / 1'000'000 - *theirs;
    return Status::InvalidArgument(fmt::format(
        "the clock of this machine is {} s {} Google's; set it by NTP: {}",
        std::abs(off_s),
        off_s > 0 ? "ahead of" : "behind",
        said));
  }
  return Status::InvalidArgument(fmt::format(
      "{} is refused: {}; make a new key, or log in with `gcloud auth application-default login`",
      source,
      said));
}

Result<GoogleToken> Exchange(
    const std::string& url,
    const std::vector<std::pair<std::string, std::string>>& fields,
    const std::string& source,
    HttpClient* http,
    const TimeSource& time) {
  std::string body;
  for (const auto& [name, value] : fields) {
    body += (body.empty() ? "" : "&") + name + "=" + PercentEncoded(value);
  }
  HttpRequest request;
  request.method = "POST";
  request.url = url;
  request.headers = {"content-type: application/x-www-form-urlencoded"};
  request.body = std::as_bytes(std::span(body));
  request.reply_bytes_max = kTokenBytesMax;
  PS_ASSIGN(const HttpReply reply, http->Do(request).Annotate(source));
  return ReadToken(reply, source, time);
}

Result<GoogleToken> FromFile(const std::string& path, HttpClient* http, const TimeSource& time) {
  PS_ASSIGN(const std::string text, ReadFile(path, kTokenBytesMax));
  const auto json = ParseJson(text, path);
  if (!json.ok()) {
    // The error of the parser might repeat a part of a key.
    return Status::InvalidArgument(fmt::format("{} is no JSON file of a key", path));
  }
  const std::string type = GceText(*json, "type");
  const std::string given = GceText(*json, "token_uri");
  const std::string url = given.empty() ? kTokenUrl : given;
  Result<GoogleToken> token = Status::InvalidArgument(fmt::format(
      "{} has a key of type \"{}\", which is not read; make one of a service account, or log in "
      "with "
      "`gcloud auth application-default login`",
      path,
      Printable(Clip(type, 60))));
  if (type == "service_account") {
    const std::string source = fmt::format(
        "the service account {} of {}", Printable(GceText(*json, "client_email")), path);
    PS_ASSIGN(const std::string assertion, Assertion(*json, url, time).Annotate(source));
    token = Exchange(
        url,
        {{"grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"}, {"assertion", assertion}},
        source,
        http,
        time);
  } else if (type == "authorized_user") {
    token = Exchange(
        url,
        {{"grant_type", "refresh_token"},
         {"client_id", GceText(*json, "client_id")},
         {"client_secret", GceText(*json, "client_secret")},
         {"refresh_token", GceText(*json, "refresh_token")}},
        "the login of " + path,
        http,
        time);
  }
  if (token.ok()) {
    const std::string project = GceText(*json, "project_id");
    (*token).project = project.empty() ? GceText(*json, "quota_project_id") : project;
  }
  return token;
}

Result<GoogleToken> FromMachine(const Environment& environment, HttpClient* http) {
  const std::string host = environment("GCE_METADATA_HOST").value_or("metadata.google.internal");
  const std::string source = "the service account of this machine";
  const auto ask = [&](const char* path) {
    HttpRequest request;
    request.method = "GET";
    request.url = fmt::format("http://{}/computeMetadata/v1/{}", host, path);
    request.headers = {"Metadata-Flavor: Google"};
    request.reply_bytes_max = kTokenBytesMax;
    request.is_direct = true;
    return http->Do(request);
  };
  const auto reply = ask("instance/service-accounts/default/token");
  if (!reply.ok() || reply->status == 404) {
    return Status::NotFound(
        reply.ok() ? "this machine has no service account" : std::string(reply.status().message()));
  }
  PS_ASSIGN(GoogleToken token, ReadToken(*reply, source, SystemTime()));
  const auto project = ask("project/project-id");
  if (project.ok() && project->status == 200 && IsOneWord(TokenTextOf(*project))) {
    token.project = TokenTextOf(*project);
  }
  return token;
}

}  // namespace

Result<GoogleToken> FindGoogleToken(
    const Environment& environment, HttpClient* http, const TimeSource& time) {
  if (const auto path = environment("GOOGLE_APPLICATION_CREDENTIALS")) {
    Result<GoogleToken> token = FromFile(*path, http, time);
    return std::move(token).Annotate("GOOGLE_APPLICATION_CREDENTIALS");
  }
  const std::string folder =
      environment("CLOUDSDK_CONFIG").value_or(environment("HOME").value_or("") + "/.config/gcloud");
  const std::string path = folder + "/application_default_credentials.json";
  Result<GoogleToken> token = FromFile(path, http, time);
  if (token.status().code() != StatusCode::kNotFound) {
    return token;
  }
  token = FromMachine(environment, http);
  if (token.status().code() != StatusCode::kNotFound) {
    return token;
  }
  return Status::InvalidArgument(fmt::format(
      "there is no key for Google's services: set GOOGLE_APPLICATION_CREDENTIALS to the file of a "
      "service account's key, or log in with `gcloud auth application-default login` (looked at "
      "{}; "
      "the metadata service: {})",
      path,
      std::string(token.status().message())));
}

}  // namespace ps::provisioner
