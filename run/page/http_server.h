#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ps/base/host_port.h"
#include "ps/base/status.h"
#include "ps/base/time.h"

struct MHD_Daemon;

namespace ps::run {

/// A request as the server has checked it: all of it is there, and within HttpServer::Limits.
struct PageRequest {
  std::string method;                        // GET, POST
  std::string path;                          // "/api/state"
  std::map<std::string, std::string> query;  // decoded; the last value of a name
  std::string host;                          // header Host; empty: none
  std::string origin;                        // header Origin; empty: none
  std::string authorization;                 // header; empty: none
  std::string content_type;                  // header; empty: none
  std::string body;
};

struct PageReply {
  int status = 200;
  std::string type = "application/json";
  std::shared_ptr<const std::string> body;  // never null when it is sent

  static PageReply Text(int status, std::string_view text) {
    return {status, "text/plain; charset=utf-8", std::make_shared<const std::string>(text)};
  }

  static PageReply Json(std::string text) {
    return {200, "application/json", std::make_shared<const std::string>(std::move(text))};
  }
};

/// Serves HTTP on threads of its own. A client that is slow, or says too much, costs its connection
/// and nobody else anything, unless it is on this machine and takes all of them. Thread: the one
/// that made it, but for the handler.
class HttpServer final {
 public:
  struct Limits {
    unsigned connections = 64;
    size_t header_bytes = size_t{16} << 10;  // of a connection, with what it sends back at a time
    size_t body_bytes = size_t{8} << 10;
    unsigned silent_s = 15;  // then a connection is closed
  };

  /// Called on the server's threads, two at a time. Must not throw; may block for a moment.
  using Handler = std::function<PageReply(const PageRequest& request)>;

  /// Binds `address` (port 0: any free one) and serves. Errors: kUnavailable (the address is taken,
  /// or not this machine's), kInvalidArgument (it is no number).
  static Result<std::unique_ptr<HttpServer>> Start(
      const HostPort& address, const Limits& limits, Handler handler);

  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  /// Ends after the handlers under way.
  ~HttpServer();

  /// With the port that was found.
  const HostPort& address() const { return address_; }

 private:
  HttpServer(Limits limits, Handler handler) : limits_(limits), handler_(std::move(handler)) {}

  friend struct HttpServerCalls;  // what the library calls

  const Limits limits_;
  const Handler handler_;
  HostPort address_;
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace ps::run
