#include "ps/net/internal/connector.h"

#include <fmt/core.h>

#include <algorithm>
#include <asio/connect.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <utility>

#include "ps/net/internal/socket_file.h"

namespace ps::net {
namespace {

using asio::ip::tcp;

bool IsWorthRetrying(StatusCode code) {
  return code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded ||
         code == StatusCode::kOverloaded;
}

int64_t Milliseconds(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

}  // namespace

Connector::Connector(
    asio::io_context& io,
    Target target,
    const RetryPolicy& retry,
    Events events,
    Random* random,
    const Logger* logger)
    : target_(std::move(target)),
      retry_(retry),
      backoff_(retry.first, retry.limit),
      events_(std::move(events)),
      random_(random),
      logger_(logger),
      resolver_(io),
      socket_(io),
      timer_(io),
      report_timer_(io) {}

void Connector::Start() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (!self->is_over_) {
      self->Attempt();
    }
  });
  if (retry_.on_trouble) {
    ReportAfter(retry_.report_after);
  }
}

void Connector::ReportAfter(Duration wait) {
  report_timer_.expires_after(wait);
  report_timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error && !self->is_over_) {
      self->ReportAfter(self->retry_.report_every);
      self->retry_.on_trouble(self->last_failure_);
    }
  });
}

void Connector::Attempt() {
  const uint64_t attempt = ++attempt_;
  if (!target_.file.empty()) {
    ConnectToFile();
    return;
  }
  timer_.expires_after(retry_.connect_timeout);
  timer_.async_wait([self = shared_from_this(), attempt](const asio::error_code& error) {
    if (!error && self->IsCurrent(attempt)) {
      self->OnTimeout();
    }
  });
  asio::error_code not_numeric;
  const asio::ip::address address = asio::ip::make_address(target_.host, not_numeric);
  if (!not_numeric) {
    const tcp::endpoint endpoint(address, static_cast<uint16_t>(target_.port));
    ConnectTo(tcp::resolver::results_type::create(endpoint, target_.host, ""));
    return;
  }
  resolver_.async_resolve(
      target_.host,
      std::to_string(target_.port),
      [self = shared_from_this(), attempt](
          const asio::error_code& error, const tcp::resolver::results_type& addresses) {
        if (!self->IsCurrent(attempt)) {
          return;
        }
        if (error) {
          self->Fail(ToStatus(error));
          return;
        }
        self->ConnectTo(addresses);
      });
}

void Connector::ConnectTo(const tcp::resolver::results_type& addresses) {
  asio::async_connect(
      socket_,
      addresses,
      [self = shared_from_this(), attempt = attempt_](
          const asio::error_code& error, const tcp::endpoint&) {
        if (self->IsCurrent(attempt)) {
          self->OnConnected(error);
        }
      });
}

void Connector::ConnectToFile() {
  Result<UniqueFd> connected = ConnectToSocketFile(target_.file);
  if (!connected.ok()) {
    Fail(std::move(connected).status());
    return;
  }
  StreamSocket socket(socket_.get_executor());
  asio::error_code error;
  socket.assign(asio::local::stream_protocol(), connected->get(), error);
  if (error) {
    Fail(ToStatus(error));
    return;
  }
  connected->Release();
  HandOver(std::move(socket));
}

void Connector::OnConnected(const asio::error_code& error) {
  timer_.cancel();
  if (error) {
    Fail(ToStatus(error));
    return;
  }
  // Without a listener, a port of the ephemeral range on this machine may connect to itself.
  asio::error_code local_error;
  asio::error_code remote_error;
  const auto local = socket_.local_endpoint(local_error);
  const auto remote = socket_.remote_endpoint(remote_error);
  if (local_error || remote_error || local == remote) {
    Fail(Status::Unavailable("nobody listens there"));
    return;
  }
  tcp::socket socket(socket_.get_executor());
  std::swap(socket, socket_);
  HandOver(std::move(socket));
}

void Connector::HandOver(StreamSocket socket) {
  // The timeout may be on its way already.
  ++attempt_;
  const auto on_socket = events_.on_socket;  // a copy: it may cancel this
  on_socket(std::move(socket));
}

void Connector::OnTimeout() {
  resolver_.cancel();
  Fail(Status::DeadlineExceeded(
      fmt::format("no answer within {} ms", Milliseconds(retry_.connect_timeout))));
}

void Connector::Fail(Status why, Duration retry_after) {
  if (is_over_) {
    return;
  }
  const uint64_t attempt = ++attempt_;
  asio::error_code ignored;
  socket_.close(ignored);
  ++failures_;
  last_failure_ = why;
  if (failures_ >= retry_.attempts_max || !IsWorthRetrying(why.code())) {
    is_over_ = true;
    report_timer_.cancel();
    std::string context = target_.Name();
    if (failures_ > 1) {
      context += fmt::format(", attempt {} of {}", failures_, retry_.attempts_max);
    }
    const Events events = std::exchange(events_, {});
    events.on_failed(std::move(why).Annotate(context));
    return;
  }
  const Duration wait = std::max(backoff_.Next(random_), retry_after);
  logger_->Debug(
      "connect_retry",
      {{"address", target_.Name()},
       {"failures", failures_},
       {"wait_ms", Milliseconds(wait)},
       {"reason", why}});
  timer_.expires_after(wait);
  timer_.async_wait([self = shared_from_this(), attempt](const asio::error_code& error) {
    if (!error && self->IsCurrent(attempt)) {
      self->Attempt();
    }
  });
}

void Connector::Cancel() {
  is_over_ = true;
  events_ = {};
  asio::error_code ignored;
  socket_.close(ignored);
  resolver_.cancel();
  timer_.cancel();
  report_timer_.cancel();
}

}  // namespace ps::net
