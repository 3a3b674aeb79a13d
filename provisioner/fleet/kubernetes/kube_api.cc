#include "provisioner/fleet/kubernetes/kube_api.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <utility>

#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

constexpr size_t kReplyBytesMax = size_t{64} << 20;
constexpr Duration kFirstRetry = std::chrono::milliseconds(200);
constexpr Duration kLongestRetry = std::chrono::seconds(10);
/// How long the answer to a watch or a log may take, whatever it says.
constexpr Duration kStreamLimit = std::chrono::hours(24);

constexpr int kForbidden = 403;
constexpr int kTooManyRequests = 429;
constexpr int kServerFaults = 500;

bool IsWorthAnotherTry(int status) {
  return status == kTooManyRequests || status >= kServerFaults;
}

/// The time that the answer asks for, at least `least`.
Duration WaitFor(const HttpReply& reply, Duration least) {
  const auto it = reply.headers.find("retry-after");
  int64_t seconds = 0;
  if (it != reply.headers.end()) {
    std::from_chars(it->second.data(), it->second.data() + it->second.size(), seconds);
  }
  constexpr int64_t kSecondsMax = 60;
  return std::max<Duration>(least, std::chrono::seconds(std::min(seconds, kSecondsMax)));
}

KubeReply Plain(const HttpReply& reply) {
  return {
      reply.status,
      std::string(reinterpret_cast<const char*>(reply.body.data()), reply.body.size())};
}

}  // namespace

KubeApi::KubeApi(std::string socket, Duration answer_limit, IsCancelled is_cancelled)
    : socket_(std::move(socket)), answer_limit_(answer_limit) {
  HttpLimits limits;
  limits.connect = answer_limit;
  limits.total = answer_limit;
  limits.bytes_per_s_min = 0;
  client_ = MakeHttpClient(limits, is_cancelled);
  limits.total = kStreamLimit;
  stream_client_ = MakeHttpClient(limits, std::move(is_cancelled));
}

Result<HttpReply> KubeApi::Ask(
    const std::string& method, const std::string& path, std::string_view body) {
  HttpRequest request;
  request.method = method;
  request.url = "http://localhost" + path;
  request.headers = {"Accept: application/json"};
  if (!body.empty()) {
    request.headers.emplace_back("Content-Type: application/json");
    request.body = std::as_bytes(std::span(body));
  }
  request.reply_bytes_max = kReplyBytesMax;
  request.is_direct = true;
  request.unix_socket = socket_;
  return client_->Do(request);
}

Result<KubeReply> KubeApi::Call(
    const std::string& method, const std::string& path, std::string_view body, const Pause& pause) {
  const TimePoint by = SystemTime().Now() + answer_limit_;
  Duration wait = kFirstRetry;
  while (true) {
    const Result<HttpReply> reply = Ask(method, path, body);
    if (reply.ok() && !IsWorthAnotherTry(reply->status)) {
      return Plain(*reply);
    }
    if (!reply.ok() && reply.status().code() == StatusCode::kCancelled) {
      return reply.status();
    }
    const Duration next = reply.ok() ? WaitFor(*reply, wait) : wait;
    if (SystemTime().Now() + next > by) {
      return Status::DeadlineExceeded(fmt::format(
          "Kubernetes did not do it within {:.0f} s: {}",
          Seconds(answer_limit_),
          reply.ok() ? WordsOf(Plain(*reply)) : std::string(reply.status().message())));
    }
    if (!pause(next)) {
      return Status::Cancelled("something else came up");
    }
    wait = std::min(wait * 2, kLongestRetry);
  }
}

Result<KubeReply> KubeApi::Stream(
    const std::string& path, const std::function<void(std::string_view)>& on_data) {
  HttpRequest request;
  request.method = "GET";
  request.url = "http://localhost" + path;
  request.reply_bytes_max = kReplyBytesMax;
  request.is_direct = true;
  request.unix_socket = socket_;
  request.on_data = on_data;
  PS_ASSIGN(const HttpReply reply, stream_client_->Do(request));
  return Plain(reply);
}

std::string KubePath(std::string_view name_space, std::string_view kind) {
  return fmt::format("/api/v1/namespaces/{}/{}", name_space, kind);
}

std::string WordsOf(const KubeReply& reply) {
  const Result<JsonValue> json = ParseJson(reply.body, "answer");
  const JsonValue* const message = json.ok() ? json->At("message") : nullptr;
  std::string words = Printable(
      message != nullptr ? std::string_view(message->text)
                         : std::string_view(reply.body).substr(0, reply.body.find('\n')));
  if (words.empty()) {
    words = "no reason";
  }
  const bool is_quota = words.find("exceeded quota") != std::string::npos;
  std::string_view advice;
  if (is_quota) {
    advice = "; ask for a larger quota of the namespace, or for fewer or smaller Pods";
  } else if (reply.status == kForbidden) {
    advice = "; docs/kubernetes.md lists the rights that the login needs";
  } else if (reply.status == 401) {
    advice = "; the login is not valid, or not any more: try kubectl get pods";
  } else if (reply.status == 404 && words.find("namespaces") != std::string::npos) {
    advice = "; make the namespace, or mend kubernetes.namespace";
  }
  return fmt::format("{} ({}){}", words, reply.status, advice);
}

std::string UrlText(std::string_view text) {
  std::string url;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
    url += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return url;
}

}  // namespace ps::provisioner
