#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "ps/base/time.h"

namespace ps {

/// With what requests are signed, by AWS's signature of version 4.
struct SigningKey {
  std::string region;
  std::string service = {};  // "s3", "ec2"
  std::string id;
  std::string secret;

  friend bool operator==(const SigningKey&, const SigningKey&) = default;
};

struct HttpRequest {
  std::string method;                // GET, PUT, POST, DELETE
  std::string url;                   // sent as it is written: no part of its path is resolved
  std::vector<std::string> headers;  // "name: value"
  std::span<const std::byte> body;
  size_t reply_bytes_max = 0;
  bool is_direct = false;   // whatever proxy the environment names
  std::string unix_socket;  // a path: connects there, whatever host the URL names
  /// Given: gets the body of a reply with status 200 piece by piece, as it comes, and the reply has
  /// none. It is not limited by reply_bytes_max.
  std::function<void(std::string_view)> on_data;
  std::optional<SigningKey> key;  // absent: the request is not signed
};

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::vector<std::byte> body;
};

struct HttpLimits {
  Duration connect = std::chrono::seconds(10);
  Duration total = std::chrono::minutes(15);
  // A transfer that is slower than this on average over that time is given up. 0: no limit.
  size_t bytes_per_s_min = 1024;
  Duration slow_time = std::chrono::seconds(30);
};

/// Asked again and again during a transfer: true ends it.
using IsCancelled = std::function<bool()>;

/// Requests by HTTP, one after another, over connections that are kept. Thread: any one at a time.
class HttpClient {
 public:
  virtual ~HttpClient() = default;

  /// Any reply of the server is Ok. Errors: kDeadlineExceeded (too slow, or too long);
  /// kUnavailable (no connection, a broken one, no such host); kCorruption (a reply of more than
  /// reply_bytes_max bytes); kInvalidArgument (the URL; the server's certificate); kCancelled.
  virtual Result<HttpReply> Do(const HttpRequest& request) = 0;
};

std::unique_ptr<HttpClient> MakeHttpClient(const HttpLimits& limits, IsCancelled is_cancelled);

}  // namespace ps
