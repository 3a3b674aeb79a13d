#include "provisioner/provider/aws_client.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <span>

#include "ps/base/text.h"
#include "ps/http/date.h"
#include "ps/http/url.h"

namespace ps::provisioner {
namespace {

/// A page of a hundred machines has a hundred times 5 KiB.
constexpr size_t kReplyBytesMax = size_t{4} << 20;

std::string_view TextOf(const HttpReply& reply) {
  return {reinterpret_cast<const char*>(reply.body.data()), reply.body.size()};
}

std::string HeaderOf(const HttpReply& reply, const std::string& name) {
  const auto it = reply.headers.find(name);
  return it == reply.headers.end() ? std::string() : it->second;
}

/// EC2: Response/Errors/Error; STS and others: ErrorResponse/Error.
AwsError XmlErrorOf(const HttpReply& reply) {
  AwsError error;
  error.http_status = reply.status;
  const auto xml = aws::ParseXml(TextOf(reply));
  if (xml.ok()) {
    const std::string at = xml->Find("Errors") != nullptr ? "Errors/Error/" : "Error/";
    error.code = xml->TextAt(at + "Code");
    error.message = xml->TextAt(at + "Message");
  }
  return error;
}

/// {"__type": "com.amazonaws...#AccessDeniedException", "message": "..."}
AwsError JsonErrorOf(const HttpReply& reply) {
  AwsError error;
  error.http_status = reply.status;
  const auto json = ParseJson(TextOf(reply), "the reply");
  if (json.ok() && json->kind == JsonValue::Kind::kObject) {
    const auto text_of = [&](const char* name) {
      const JsonValue* const value = json->Find(name);
      return value != nullptr && value->kind == JsonValue::Kind::kText ? value->text
                                                                       : std::string();
    };
    error.code = text_of("__type");
    error.code.erase(0, error.code.find('#') + 1);
    error.message = text_of("message") + text_of("Message");
  }
  return error;
}

/// How long a service wants to be left alone; 0: it does not say.
Duration RetryAfter(const HttpReply& reply) {
  constexpr int kSecondsMax = 3600;
  const std::string text = HeaderOf(reply, "retry-after");
  int seconds = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool is_read = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  return std::chrono::seconds(is_read && seconds > 0 ? std::min(seconds, kSecondsMax) : 0);
}

}  // namespace

void AwsForm::AddFilter(const std::string& name, const std::vector<std::string>& values) {
  const std::string filter = fmt::format("Filter.{}.", ++filters_);
  Add(filter + "Name", name);
  for (size_t i = 0; i < values.size(); ++i) {
    Add(fmt::format("{}Value.{}", filter, i + 1), values[i]);
  }
}

AwsReply AwsClient::Ec2(const std::string& action, const AwsForm& form, AwsEffect effect) {
  return Query("ec2", "2016-11-15", action, form, effect);
}

AwsReply AwsClient::Sts(const std::string& action, const AwsForm& form) {
  return Query("sts", "2011-06-15", action, form, AwsEffect::kReads);
}

AwsReply AwsClient::Json(
    const std::string& service, const std::string& target, const std::string& body) {
  return Do(
      {.service = service,
       .action = target.substr(target.find('.') + 1),
       .body = body,
       .content_type = "application/x-amz-json-1.1",
       .target = target});
}

AwsReply AwsClient::Query(
    const std::string& service,
    const std::string& version,
    const std::string& action,
    const AwsForm& form,
    AwsEffect effect) {
  std::string body = fmt::format("Action={}&Version={}", action, version);
  for (const auto& [name, value] : form.fields()) {
    body += "&" + PercentEncoded(name) + "=" + PercentEncoded(value);
  }
  return Do(
      {.service = service,
       .action = action,
       .body = std::move(body),
       .content_type = "application/x-www-form-urlencoded; charset=utf-8",
       .target = {},
       .effect = effect});
}

AwsReply AwsClient::Do(const Call& call) {
  if (!has_keys_) {
    AwsReply reply;
    if (!FindKeysAgain(&reply.end)) {
      return reply;
    }
  }
  AwsReply reply = Attempt(call);
  if (reply.is_cut && call.effect == AwsEffect::kReads) {
    reply = Attempt(call);
  }
  if (reply.end.fault == CallFault::kCredentials && !IsClockFault(reply.error)) {
    if (FindKeysAgain(&reply.end)) {
      reply = Attempt(call);
    }
  }
  return reply;
}

bool AwsClient::FindKeysAgain(CallEnd* end) {
  Result<aws::Credentials> found = options_.find_credentials();
  if (!found.ok()) {
    end->fault = CallFault::kCredentials;
    end->message += (end->message.empty() ? "" : "; looking for another access key: ") +
                    std::string(found.status().message());
    return false;
  }
  const bool is_other = !has_keys_ || found->key.id != keys_.key.id ||
                        found->key.secret != keys_.key.secret ||
                        found->session_token != keys_.session_token;
  keys_ = std::move(found).value();
  has_keys_ = true;
  return is_other;
}

AwsReply AwsClient::Attempt(const Call& call) {
  HttpRequest request;
  request.method = "POST";
  const bool is_pricing = call.service == "pricing";
  const std::string region = is_pricing ? "us-east-1" : options_.region;
  request.url = fmt::format(
      "https://{}{}.{}.amazonaws.com{}/",
      is_pricing ? "api." : "",
      call.service,
      region,
      region.starts_with("cn-") ? ".cn" : "");
  if (!options_.endpoint.empty()) {
    request.url = options_.endpoint + "/";
  }
  request.headers = {"content-type: " + call.content_type};
  if (!call.target.empty()) {
    request.headers.push_back("x-amz-target: " + call.target);
  }
  request.body = std::as_bytes(std::span(call.body));
  request.reply_bytes_max = kReplyBytesMax;
  aws::Credentials keys = keys_;
  keys.key.region = region;
  keys.key.service = call.service;
  aws::SignWith(keys, &request);
  const Result<HttpReply> reply = options_.http->Do(request);
  if (!reply.ok()) {
    AwsReply none;
    none.is_cut = reply.status().code() == StatusCode::kUnavailable;
    none.end.fault = reply.status().code() == StatusCode::kInvalidArgument ? CallFault::kRefused
                                                                           : CallFault::kUnclear;
    none.end.message = fmt::format(
        "{}: no answer from {}: {}",
        CallText(call),
        request.url,
        Printable(Clip(reply.status().message(), 300)));
    return none;
  }
  return Read(call, *reply);
}

AwsReply AwsClient::Read(const Call& call, const HttpReply& reply) const {
  const bool is_query = call.target.empty();
  if (reply.status != 200) {
    return Failed(call, is_query ? XmlErrorOf(reply) : JsonErrorOf(reply), reply);
  }
  AwsReply read;
  Status failure;
  if (is_query) {
    auto xml = aws::ParseXml(TextOf(reply));
    failure = xml.status();
    if (xml.ok() && xml->name != call.action + "Response") {
      failure = Status::Corruption(
          fmt::format("<{}>, not <{}Response>", Printable(Clip(xml->name, 60)), call.action));
    } else if (xml.ok()) {
      read.xml = std::move(xml).value();
    }
  } else {
    auto json = ParseJson(TextOf(reply), "the reply");
    failure = json.status();
    if (json.ok()) {
      read.json = std::move(json).value();
    }
  }
  if (!failure.ok()) {
    read.is_cut = true;
    read.end.fault = CallFault::kUnclear;
    read.end.message = fmt::format(
        "{}: the answer is not understood: {}", CallText(call), std::string(failure.message()));
  }
  return read;
}

AwsReply AwsClient::Failed(const Call& call, AwsError error, const HttpReply& reply) const {
  AwsReply failed;
  failed.end.fault = AwsFaultOf(error);
  const std::string said = AwsErrorText(error);
  std::string what;
  switch (failed.end.fault) {
    case CallFault::kNoStock:
      what = "there is no such machine now: " + said;
      break;
    case CallFault::kQuota:
      what = "a quota of the account is used up: " + said +
             "; ask for more in the console under Service Quotas, or take other types";
      break;
    case CallFault::kThrottled:
      failed.end.wait = RetryAfter(reply);
      what = "too many calls: " + said;
      break;
    case CallFault::kDenied:
      what = fmt::format(
          "{} has no permission {}: {}",
          aws::ShownKey(keys_),
          MissingPermission(error, call.service + ":" + call.action),
          said);
      break;
    case CallFault::kCredentials:
      what = CredentialsText(error, reply) + ": " + said;
      break;
    case CallFault::kMismatch:
      what = "the token was used for something else: " + said;
      break;
    case CallFault::kUnclear:
      what = "the service has trouble: " + said;
      break;
    case CallFault::kRefused:
    case CallFault::kNone:
      what = "it is refused: " + said;
      break;
  }
  failed.end.message = CallText(call) + ": " + what;
  failed.error = std::move(error);
  return failed;
}

std::string AwsClient::CredentialsText(const AwsError& error, const HttpReply& reply) const {
  if (IsClockFault(error)) {
    const auto date = ParseHttpDate(HeaderOf(reply, "date"));
    if (!date) {
      return "the clock of this machine is off; set it by NTP";
    }
    const int64_t off_s = options_.time->UnixMicros() / 1'000'000 - *date;
    return fmt::format(
        "the clock of this machine is {} s {} the service's; set it by NTP",
        std::abs(off_s),
        off_s > 0 ? "ahead of" : "behind");
  }
  const std::string key = aws::ShownKey(keys_);
  if (error.code.starts_with("ExpiredToken")) {
    return key + " has expired; get a new one";
  }
  if (error.code == "SignatureDoesNotMatch" || error.code.starts_with("InvalidSignature")) {
    return "the secret of " + key + " is wrong";
  }
  return key + " is not taken; is it of another account or partition, or deleted?";
}

std::string AwsClient::CallText(const Call& call) const {
  return fmt::format("{}:{} in {}", call.service, call.action, options_.region);
}

}  // namespace ps::provisioner
