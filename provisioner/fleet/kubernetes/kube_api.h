#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/http/http.h"
#include "ps/json/json_value.h"

namespace ps::provisioner {

/// Kubernetes' answer to a call.
struct KubeReply {
  int status = 0;
  std::string body;

  bool is_ok() const { return status >= 200 && status < 300; }
};

/// The API of a cluster behind the socket of a `kubectl proxy`, which logs in. Thread: one.
class KubeApi {
 public:
  /// `is_cancelled`: asked during calls, once a second; true ends them.
  KubeApi(std::string socket, Duration answer_limit, IsCancelled is_cancelled = nullptr);

  /// Waits for so long, or until there is something to do first: then false.
  using Pause = std::function<bool(Duration)>;

  /// Asks until there is an answer that asking again would not change: not 429 nor 5xx, which are
  /// asked again after the time that they name or after 0.2 s, 0.4 s and so on, nor a broken
  /// connection. A call that was carried out without an answer is therefore repeated: it has to be
  /// one that can be. Errors: kDeadlineExceeded (for the limit, with the last reason), kCancelled.
  Result<KubeReply> Call(
      const std::string& method,
      const std::string& path,
      std::string_view body,
      const Pause& pause);
  /// A GET whose answer comes piece by piece, for as long as it likes. The reply has a body only
  /// when its status is not 200. Errors: those of HttpClient.
  Result<KubeReply> Stream(
      const std::string& path, const std::function<void(std::string_view)>& on_data);

 private:
  Result<HttpReply> Ask(const std::string& method, const std::string& path, std::string_view body);

  const std::string socket_;
  const Duration answer_limit_;
  std::unique_ptr<HttpClient> client_;
  std::unique_ptr<HttpClient> stream_client_;
};

/// "/api/v1/namespaces/NAMESPACE/KIND"; an object's name follows it.
std::string KubePath(std::string_view name_space, std::string_view kind);

/// What an answer that is no success says, and what to do about it.
std::string WordsOf(const KubeReply& reply);

/// As a part of a URL behind '?'. Pure.
std::string UrlText(std::string_view text);

}  // namespace ps::provisioner
