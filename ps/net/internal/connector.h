#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ps/base/host_port.h"
#include "ps/base/logger.h"
#include "ps/base/random.h"
#include "ps/base/retry.h"
#include "ps/base/status.h"
#include "ps/net/endpoint.h"
#include "ps/net/internal/socket.h"

namespace ps::net {

/// Resolves and connects, as often as its policy allows, until its owner accepts a socket or no
/// attempt is left. Asio's handlers hold it alive.
class Connector final : public std::enable_shared_from_this<Connector> {
 public:
  struct Target {
    std::string host;
    uint32_t port = 0;
    std::string file;  // not empty: this socket file instead

    /// "HOST:PORT", or the file.
    std::string Name() const { return file.empty() ? FormatHostPort(host, port) : file; }
  };

  struct Events {
    /// A socket is connected. The owner shakes hands on it and then calls Fail, or is done.
    std::function<void(StreamSocket)> on_socket;
    /// No attempt is left, or the failure is not one to try again.
    std::function<void(Status)> on_failed;
  };

  Connector(
      asio::io_context& io,
      Target target,
      const RetryPolicy& retry,
      Events events,
      Random* random,
      const Logger* logger);

  void Start();
  /// This attempt failed; `retry_after` is the wait that the peer asks for.
  void Fail(Status why, Duration retry_after = Duration::zero());
  /// No event comes any more: the owner has a connection, or gives up.
  void Cancel();

  const RetryPolicy& retry() const { return retry_; }

  bool is_to_port() const { return target_.file.empty(); }

 private:
  void Attempt();
  void ConnectToFile();
  void ConnectTo(const asio::ip::tcp::resolver::results_type& addresses);
  void OnConnected(const asio::error_code& error);
  void HandOver(StreamSocket socket);

  /// Handlers of an attempt that was given up see another number and do nothing.
  bool IsCurrent(uint64_t attempt) const { return !is_over_ && attempt == attempt_; }

  void OnTimeout();
  void ReportAfter(Duration wait);

  const Target target_;
  const RetryPolicy retry_;
  Backoff backoff_;
  Events events_;
  Random* random_;
  const Logger* logger_;
  asio::ip::tcp::resolver resolver_;
  asio::ip::tcp::socket socket_;
  asio::steady_timer timer_;
  asio::steady_timer report_timer_;
  uint64_t attempt_ = 0;
  uint32_t failures_ = 0;
  bool is_over_ = false;
  Status last_failure_ = Status::DeadlineExceeded("no answer");
};

}  // namespace ps::net
