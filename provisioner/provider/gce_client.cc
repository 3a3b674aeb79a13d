#include "provisioner/provider/gce_client.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "ps/base/text.h"
#include "ps/http/url.h"
#include "ps/json/json_writer.h"

namespace ps::provisioner {
namespace {

/// A page of a hundred machines has a hundred times 6 KiB.
constexpr size_t kGceReplyBytesMax = size_t{8} << 20;

Duration WaitOf(const HttpReply& reply) {
  constexpr int kSecondsMax = 3600;
  const auto it = reply.headers.find("retry-after");
  int seconds = 0;
  if (it != reply.headers.end()) {
    std::from_chars(it->second.data(), it->second.data() + it->second.size(), seconds);
  }
  return std::chrono::seconds(std::clamp(seconds, 0, kSecondsMax));
}

}  // namespace

GceReply GceClient::Do(const GceCall& call) {
  const std::string host =
      options_.endpoint.empty() ? "https://compute.googleapis.com" : options_.endpoint;
  std::string url = fmt::format(
      "{}/compute/v1/projects/{}{}{}",
      host,
      PercentEncoded(call.project.empty() ? options_.project : call.project),
      call.path.empty() ? "" : "/",
      call.path);
  if (!call.query.empty()) {
    url += "?" + call.query;
  }
  return DoAt(url, call);
}

GceReply GceClient::HeldPermissions(const std::vector<std::string>& permissions) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  json.BeginList("permissions");
  for (const std::string& permission : permissions) {
    json.Value(permission);
  }
  json.EndList();
  json.EndObject();
  const std::string host =
      options_.endpoint.empty() ? "https://cloudresourcemanager.googleapis.com" : options_.endpoint;
  return DoAt(
      fmt::format("{}/v1/projects/{}:testIamPermissions", host, PercentEncoded(options_.project)),
      {.method = "POST",
       .path = "testIamPermissions",
       .body = std::move(json).Take(),
       .permission = "resourcemanager.projects.get"});
}

GceReply GceClient::DoAt(const std::string& url, const GceCall& call) {
  GceReply reply;
  if (token_.token.empty() && !FindTokenAgain(&reply.end)) {
    return reply;
  }
  reply = Attempt(url, call);
  if (reply.is_cut && call.method == "GET") {
    reply = Attempt(url, call);
  }
  if (reply.end.fault == CallFault::kCredentials && FindTokenAgain(&reply.end)) {
    reply = Attempt(url, call);
  }
  return reply;
}

bool GceClient::FindTokenAgain(CallEnd* end) {
  Result<GoogleToken> found = options_.find_token();
  if (!found.ok()) {
    const bool is_away = found.status().code() == StatusCode::kUnavailable ||
                         found.status().code() == StatusCode::kDeadlineExceeded;
    // Nothing was asked yet, or it was refused: nothing was made.
    end->fault = is_away ? CallFault::kUnclear : CallFault::kCredentials;
    end->message += (end->message.empty() ? "" : "; looking for another token: ") +
                    std::string(found.status().message());
    return false;
  }
  const bool is_other = found->token != token_.token;
  token_ = std::move(found).value();
  return is_other;
}

GceReply GceClient::Attempt(const std::string& url, const GceCall& call) {
  HttpRequest request;
  request.method = call.method;
  request.url = url;
  request.headers = {"authorization: Bearer " + token_.token};
  if (!call.body.empty()) {
    request.headers.emplace_back("content-type: application/json");
  }
  request.body = std::as_bytes(std::span(call.body));
  request.reply_bytes_max = kGceReplyBytesMax;
  const Result<HttpReply> reply = options_.http->Do(request);
  if (!reply.ok()) {
    GceReply none;
    none.is_cut = reply.status().code() == StatusCode::kUnavailable;
    none.end.fault = reply.status().code() == StatusCode::kInvalidArgument ? CallFault::kRefused
                                                                           : CallFault::kUnclear;
    none.end.message = fmt::format(
        "gce {} {}: no answer: {}",
        call.method,
        call.path,
        Printable(Clip(reply.status().message(), 300)));
    return none;
  }
  return Read(call, *reply);
}

GceReply GceClient::Read(const GceCall& call, const HttpReply& reply) const {
  GceReply read;
  auto json = ParseJson(
      std::string_view(reinterpret_cast<const char*>(reply.body.data()), reply.body.size()),
      "the reply");
  const bool is_object = json.ok() && json->kind == JsonValue::Kind::kObject;
  const std::string where = fmt::format(
      "gce {} {} of project {}",
      call.method,
      call.path,
      call.project.empty() ? options_.project : call.project);
  if (reply.status == 200 && is_object) {
    read.json = std::move(json).value();
    return read;
  }
  if (reply.status == 200) {
    read.is_cut = true;
    read.end.fault = CallFault::kUnclear;
    read.end.message = fmt::format(
        "{}: the answer is not understood: {}",
        where,
        json.ok() ? "it is no object" : Printable(Clip(json.status().message(), 200)));
    return read;
  }
  read.error = ReadGceError(is_object ? *json : JsonValue{}, reply.status);
  read.end.fault = GceFaultOf(read.error);
  const std::string said = GceErrorText(read.error);
  switch (read.end.fault) {
    case CallFault::kThrottled:
      read.end.wait = WaitOf(reply);
      read.end.message = fmt::format("{}: too many calls: {}", where, said);
      break;
    case CallFault::kDenied:
      read.end.message = fmt::format(
          "{}: {} has no permission {}: {}",
          where,
          token_.source,
          GcePermission(read.error, call.permission),
          said);
      break;
    case CallFault::kCredentials:
      read.end.message =
          fmt::format("{}: the token of {} is refused: {}", where, token_.source, said);
      break;
    case CallFault::kQuota:
      read.end.message = fmt::format(
          "{}: a quota of the project is used up: {}; ask for more in the console under IAM, "
          "Quotas, "
          "or take other types",
          where,
          said);
      break;
    default:
      read.end.message = fmt::format("{}: {}", where, said);
  }
  return read;
}

}  // namespace ps::provisioner
