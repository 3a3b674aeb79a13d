#include "ps/net/internal/connector.h"

#include <fmt/core.h>

#include <algorithm>
#include <asio/local/stream_protocol.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <utility>

#include "ps/net/internal/socket_file.h"

namespace ps::net {
namespace {

using asio::ip::tcp;

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
  ++step_;
  if (!target_.file.empty()) {
    ConnectToFile();
    return;
  }
  asio::error_code not_numeric;
  const asio::ip::address address = asio::ip::make_address(target_.host, not_numeric);
  if (!not_numeric) {
    ConnectToAll({tcp::endpoint(address, static_cast<uint16_t>(target_.port))});
    return;
  }
  AskForAddresses();
}

void Connector::LimitStep(
    Duration limit, const std::string& what, void (Connector::*then)(Status)) {
  timer_.expires_after(limit);
  timer_.async_wait(
      [self = shared_from_this(), step = step_, limit, what, then](const asio::error_code& error) {
        if (!error && self->IsCurrent(step)) {
          ((*self).*then)(
              Status::DeadlineExceeded(fmt::format("{} within {} ms", what, Milliseconds(limit))));
        }
      });
}

void Connector::FailStep(Status why) {
  Fail(std::move(why));
}

/// A name that nobody knows may be known again in a moment: a cluster's name of a service is gone
/// while its process is started anew. So the policy says when to give up, as for any peer.
void Connector::AskForAddresses() {
  LimitStep(
      retry_.resolve_timeout, "no address of " + target_.host + " came", &Connector::FailStep);
  const auto done = [self = shared_from_this(), step = step_](Result<Addresses> addresses) {
    if (!self->IsCurrent(step)) {
      return;
    }
    if (addresses.ok()) {
      self->ConnectToAll(std::move(addresses).value());
      return;
    }
    const Status& why = addresses.status();
    self->Fail(
        why.code() == StatusCode::kNotFound ? Status::Unavailable(std::string(why.message()))
                                            : why);
  };
  if (resolve_) {
    resolve_(target_.host, target_.port, done);
    return;
  }
  resolver_.async_resolve(
      target_.host,
      std::to_string(target_.port),
      [done](const asio::error_code& error, const tcp::resolver::results_type& results) {
        done(
            error ? Result<Addresses>(ToStatus(error))
                  : Result<Addresses>(Addresses(results.begin(), results.end())));
      });
}

void Connector::ConnectToAll(Addresses addresses) {
  addresses.resize(std::min(addresses.size(), RetryPolicy::kAddressesMax));
  addresses_ = std::move(addresses);
  next_ = 0;
  address_failure_ = Status::Unavailable("the name has no address");
  ConnectToNext();
}

void Connector::ConnectToNext() {
  if (next_ == addresses_.size()) {
    Fail(address_failure_);
    return;
  }
  const tcp::endpoint to = addresses_[next_++];
  const uint64_t step = ++step_;
  LimitStep(retry_.connect_timeout, "no answer", &Connector::OnAddressFailed);
  socket_.async_connect(to, [self = shared_from_this(), step](const asio::error_code& error) {
    if (self->IsCurrent(step)) {
      self->OnConnected(error);
    }
  });
}

/// Where several addresses fail, the first reason that another attempt may not meet is reported.
void Connector::OnAddressFailed(Status why) {
  asio::error_code ignored;
  socket_.close(ignored);
  if (addresses_.size() > 1) {
    why = std::move(why).Annotate(addresses_[next_ - 1].address().to_string());
  }
  if (next_ == 1 || (IsWorthRetrying(why.code()) && !IsWorthRetrying(address_failure_.code()))) {
    address_failure_ = std::move(why);
  }
  ConnectToNext();
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
    OnAddressFailed(ToStatus(error));
    return;
  }
  // Without a listener, a port of the ephemeral range on this machine may connect to itself.
  asio::error_code local_error;
  asio::error_code remote_error;
  const auto local = socket_.local_endpoint(local_error);
  const auto remote = socket_.remote_endpoint(remote_error);
  if (local_error || remote_error || local == remote) {
    OnAddressFailed(Status::Unavailable("nobody listens there"));
    return;
  }
  tcp::socket socket(socket_.get_executor());
  std::swap(socket, socket_);
  HandOver(std::move(socket));
}

void Connector::HandOver(StreamSocket socket) {
  // The timeout may be on its way already.
  ++step_;
  const auto on_socket = events_.on_socket;  // a copy: it may cancel this
  on_socket(std::move(socket));
}

void Connector::Fail(Status why, Duration retry_after) {
  if (is_over_) {
    return;
  }
  const uint64_t step = ++step_;
  asio::error_code ignored;
  socket_.close(ignored);
  resolver_.cancel();
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
  const Duration wait = std::max(backoff_.Next(random_), std::min(retry_after, retry_.limit));
  logger_->Debug(
      "connect_retry",
      {{"address", target_.Name()},
       {"failures", failures_},
       {"wait_ms", Milliseconds(wait)},
       {"reason", why}});
  timer_.expires_after(wait);
  timer_.async_wait([self = shared_from_this(), step](const asio::error_code& error) {
    if (!error && self->IsCurrent(step)) {
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
