#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ps/base/host_port.h"
#include "ps/base/logger.h"
#include "ps/base/random.h"
#include "ps/base/retry.h"
#include "ps/base/status.h"
#include "ps/net/endpoint.h"
#include "ps/net/internal/socket.h"

namespace ps::net {

/// What failed may go well the next time.
constexpr bool IsWorthRetrying(StatusCode code) {
  return code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded ||
         code == StatusCode::kOverloaded;
}

/// Resolves and connects, as often as its policy allows, until its owner accepts a socket or no
/// attempt is left. An attempt asks for the addresses of a name and tries one after the other, and
/// each of these steps has a time of its own. Asio's handlers hold it alive.
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

  using Addresses = std::vector<asio::ip::tcp::endpoint>;
  /// Gets the addresses of a name, or why there are none.
  using Resolved = std::function<void(Result<Addresses>)>;
  /// Asks for them; a test brings its own. Calls back later, from the loop.
  using Resolve = std::function<void(const std::string& host, uint32_t port, Resolved done)>;

  Connector(
      asio::io_context& io,
      Target target,
      const RetryPolicy& retry,
      Events events,
      Random* random,
      const Logger* logger);

  void Start();
  /// This attempt failed; `retry_after` is the wait that the peer asks for, of which no more than
  /// RetryPolicy::limit is granted.
  void Fail(Status why, Duration retry_after = Duration::zero());
  /// No event comes any more: the owner has a connection, or gives up.
  void Cancel();

  const RetryPolicy& retry() const { return retry_; }

  bool is_to_port() const { return target_.file.empty(); }

  /// Before Start.
  void set_resolve(Resolve resolve) { resolve_ = std::move(resolve); }

 private:
  void Attempt();
  void ConnectToFile();
  void AskForAddresses();
  void ConnectToAll(Addresses addresses);
  void ConnectToNext();
  void OnConnected(const asio::error_code& error);
  void OnAddressFailed(Status why);
  void HandOver(StreamSocket socket);

  /// Handlers of a step that was given up see another number and do nothing.
  bool IsCurrent(uint64_t step) const { return !is_over_ && step == step_; }

  /// Calls `then` with what has taken too long, unless the present step is over by then.
  void LimitStep(Duration limit, const std::string& what, void (Connector::*then)(Status));
  void FailStep(Status why);
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
  Resolve resolve_;
  Addresses addresses_;     // of the present attempt
  size_t next_ = 0;         // of these
  Status address_failure_;  // of those that were tried
  uint64_t step_ = 0;
  uint32_t failures_ = 0;
  bool is_over_ = false;
  Status last_failure_ = Status::DeadlineExceeded("no answer");
};

}  // namespace ps::net
