// How long one attempt takes, with names that the test resolves.

#include "ps/net/internal/connector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ps/base/unique_fd.h"
#include "tests/net/test_node.h"

namespace ps::net {
namespace {

using asio::ip::tcp;
using std::chrono::milliseconds;
using testing::HasSubstr;

/// A port whose queue of connections is full, so that the kernel answers nobody.
class MutePort {
 public:
  MutePort() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.get(), plain, size), 0);
    EXPECT_EQ(::listen(listener_.get(), 0), 0);
    EXPECT_EQ(::getsockname(listener_.get(), plain, &size), 0);
    port_ = ntohs(address.sin_port);
    for (UniqueFd& guest : guests_) {
      guest = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      ::connect(guest.get(), plain, size);
    }
  }

  tcp::endpoint endpoint() const { return {asio::ip::address_v4::loopback(), port_}; }

 private:
  UniqueFd listener_;
  std::array<UniqueFd, 4> guests_;
  uint16_t port_ = 0;
};

class ConnectorTest : public testing::Test {
 protected:
  ConnectorTest() {
    retry_.resolve_timeout = kAmple;
    retry_.connect_timeout = kAmple;
    retry_.first = retry_.limit = milliseconds(1);
  }

  /// Whether it connects to the addresses that come `resolve_time` after they were asked for.
  Status Connect(Result<Connector::Addresses> addresses, Duration resolve_time = Duration::zero()) {
    std::optional<Status> outcome;
    asio::steady_timer timer(io_);
    auto connector = std::make_shared<Connector>(
        io_,
        Connector::Target{"a.name", 1, ""},
        retry_,
        Connector::Events{
            [&](StreamSocket /*socket*/) {
              outcome = Status::Ok();
              io_.stop();
            },
            [&](Status why) {
              outcome = std::move(why);
              io_.stop();
            }},
        &random_,
        &NullLogger());
    connector->set_resolve([&](const std::string&, uint32_t, const Connector::Resolved& done) {
      ++times_asked_;
      timer.expires_after(resolve_time);
      timer.async_wait([done, addresses](const asio::error_code& error) {
        if (!error) {
          done(addresses);
        }
      });
    });
    connector->Start();
    io_.run_for(kAmple);
    connector->Cancel();
    timer.cancel();
    io_.restart();
    io_.poll();
    return outcome.value_or(Status::DeadlineExceeded("the test has no patience left"));
  }

  asio::io_context io_;
  tcp::acceptor listener_{io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  RetryPolicy retry_;
  Random random_{1};
  int times_asked_ = 0;
};

TEST_F(ConnectorTest, ASlowNameTakesNoTimeFromItsAddresses) {
  retry_.connect_timeout = milliseconds(300);
  EXPECT_EQ(
      Connect(Connector::Addresses{listener_.local_endpoint()}, milliseconds(310)).code(),
      StatusCode::kOk);
}

TEST_F(ConnectorTest, AnAddressThatDoesNotAnswerTakesNoTimeFromTheNext) {
  const MutePort mute;
  retry_.connect_timeout = milliseconds(300);
  EXPECT_EQ(
      Connect(Connector::Addresses{mute.endpoint(), mute.endpoint(), listener_.local_endpoint()})
          .code(),
      StatusCode::kOk);
}

TEST_F(ConnectorTest, ANameThatIsNeverAnsweredEndsTheAttemptInWords) {
  retry_.resolve_timeout = milliseconds(10);
  const Status status = Connect(Connector::Addresses{listener_.local_endpoint()}, kAmple);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("no address of a.name came within 10 ms"));
}

TEST_F(ConnectorTest, AnAttemptTriesSoManyAddressesAndNoMore) {
  const ReservedPort reserved;
  const tcp::endpoint nobody(
      asio::ip::address_v4::loopback(), static_cast<uint16_t>(reserved.port()));
  Connector::Addresses addresses(RetryPolicy::kAddressesMax, nobody);
  addresses.push_back(listener_.local_endpoint());
  const Status status = Connect(addresses);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("127.0.0.1: Connection refused"));
}

/// A service of a cluster has no name while its process is started anew.
TEST_F(ConnectorTest, ANameThatNobodyKnowsIsAskedForAgain) {
  retry_.attempts_max = 3;
  const Status status = Connect(Status::NotFound("Host not found"));
  EXPECT_EQ(times_asked_, 3);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("a.name:1, attempt 3 of 3: Host not found"));
}

}  // namespace
}  // namespace ps::net
