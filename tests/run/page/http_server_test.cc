#include "run/page/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include "tests/run/page/raw_http.h"

namespace ps::run {
namespace {

using testing::HasSubstr;

HttpServer::Limits FewConnections() {
  HttpServer::Limits limits;
  limits.connections = 8;
  return limits;
}

class HttpServerTest : public testing::Test {
 protected:
  /// Says what it was asked.
  static PageReply Echo(const PageRequest& request) {
    std::string text = request.method + " " + request.path;
    for (const auto& [name, value] : request.query) {
      text += " " + name + "=" + value;
    }
    return PageReply::Text(
        200,
        text + " host " + request.host + " auth " + request.authorization + " body " +
            request.body);
  }

  void Serve(const HttpServer::Limits& limits = {}, HttpServer::Handler handler = Echo) {
    auto server = HttpServer::Start({"127.0.0.1", 0}, limits, std::move(handler));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(server).value();
  }

  uint32_t port() const { return server_->address().port; }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, TellsTheHandlerAllOfARequest) {
  Serve();
  ASSERT_GT(port(), 0U);
  const RawReply reply = Fetch(port(), "/a/b?x=1%202&y=", "secret", "{\"do\":1}");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(
      reply.body,
      "POST /a/b x=1 2 y= host 127.0.0.1:" + std::to_string(port()) +
          " auth Bearer secret body {\"do\":1}");
}

TEST_F(HttpServerTest, KeepsOtherPagesOut) {
  Serve();
  const RawReply reply = Fetch(port(), "/", "");
  EXPECT_THAT(reply.head, HasSubstr("Content-Security-Policy: default-src 'none'"));
  EXPECT_THAT(reply.head, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(reply.head, HasSubstr("X-Content-Type-Options: nosniff"));
  EXPECT_THAT(reply.head, HasSubstr("Cross-Origin-Resource-Policy: same-origin"));
  EXPECT_THAT(reply.head, HasSubstr("Cache-Control: no-store"));
  EXPECT_THAT(reply.head, testing::Not(HasSubstr("Access-Control-Allow")));
}

TEST_F(HttpServerTest, RefusesWhatIsTooLongOrNoHttp) {
  Serve();
  EXPECT_EQ(Fetch(port(), "/", "", std::string(8192, 'x')).status, 200);
  EXPECT_EQ(Fetch(port(), "/", "", std::string(8193, 'x')).status, 413);
  // Without its length, it is read on for a while, and not for ever.
  const UniqueFd endless = Connect(port());
  ASSERT_TRUE(
      Say(endless.get(), "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
  const std::string chunk = "1000\r\n" + std::string(0x1000, 'x') + "\r\n";
  size_t chunks = 0;
  while (chunks < 100'000 && Say(endless.get(), chunk)) {
    ++chunks;
  }
  EXPECT_LT(chunks, 100'000U);
  const RawReply long_header = Fetch(port(), "/", std::string(100'000, 'k'));
  EXPECT_TRUE(long_header.status == 0 || long_header.status >= 400) << long_header.status;
  const RawReply long_path = Fetch(port(), "/" + std::string(100'000, 'p'), "");
  EXPECT_TRUE(long_path.status == 0 || long_path.status >= 400) << long_path.status;
  EXPECT_EQ(Exchange(port(), "PUT / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").status, 405);
  EXPECT_NE(Exchange(port(), "nonsense\r\n\r\n").status, 200);
  EXPECT_EQ(Fetch(port(), "/still", "").status, 200);
}

TEST_F(HttpServerTest, ASlowClientKeepsNobodyWaiting) {
  Serve();
  std::vector<UniqueFd> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(Connect(port()));
    ASSERT_TRUE(Say(slow.back().get(), "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: "));
  }
  EXPECT_EQ(Fetch(port(), "/", "").status, 200);
}

TEST_F(HttpServerTest, AReplyThatNobodyReadsKeepsNobodyWaiting) {
  const auto long_text = std::make_shared<const std::string>(std::string(64U << 20, 'x'));
  // The server outlives this function.
  Serve({}, [long_text](const PageRequest& request) {
    return request.path == "/long" ? PageReply{200, "text/plain", long_text} : Echo(request);
  });
  std::vector<UniqueFd> deaf;
  for (int i = 0; i < 8; ++i) {
    deaf.push_back(Connect(port()));
    ASSERT_TRUE(Say(deaf.back().get(), "GET /long HTTP/1.1\r\nHost: a\r\n\r\n"));
  }
  EXPECT_EQ(Fetch(port(), "/", "").status, 200);
}

TEST_F(HttpServerTest, ConnectionsHaveALimitAndComeBack) {
  Serve(FewConnections());
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 30; ++i) {
    idle.push_back(Connect(port()));
    ASSERT_TRUE(idle.back().is_open());
  }
  const UniqueFd late = Connect(port());
  ASSERT_TRUE(Say(late.get(), "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
  const auto hear_within = [&](timeval limit) {
    ::setsockopt(late.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return Hear(late.get());
  };
  EXPECT_EQ(hear_within({0, 300'000}), "");
  idle.clear();
  EXPECT_THAT(hear_within({20, 0}), HasSubstr("200 OK"));
}

TEST_F(HttpServerTest, EndsWhileClientsAreConnected) {
  Serve();
  const UniqueFd idle = Connect(port());
  const UniqueFd half = Connect(port());
  ASSERT_TRUE(Say(half.get(), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nabc"));
  server_.reset();
  EXPECT_EQ(Hear(idle.get()), "");
}

TEST_F(HttpServerTest, SaysWhyItCanNotListen) {
  Serve();
  const auto taken = HttpServer::Start({"127.0.0.1", port()}, {}, Echo);
  EXPECT_EQ(taken.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(
      std::string(taken.status().message()),
      HasSubstr("127.0.0.1:" + std::to_string(port()) + ": Address already in use"));
  const auto elsewhere = HttpServer::Start({"192.0.2.1", 0}, {}, Echo);
  EXPECT_EQ(elsewhere.status().code(), StatusCode::kUnavailable);
  const auto no_number = HttpServer::Start({"1.2.3", 0}, {}, Echo);
  EXPECT_EQ(no_number.status().code(), StatusCode::kInvalidArgument);
}

TEST_F(HttpServerTest, ListensAtIPv6AndLocalhost) {
  const auto v6 = HttpServer::Start({"::1", 0}, {}, Echo);
  if (v6.ok()) {  // else this machine has none
    EXPECT_GT((*v6)->address().port, 0U);
  }
  const auto local = HttpServer::Start({"localhost", 0}, {}, Echo);
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_EQ(Fetch((*local)->address().port, "/", "").status, 200);
}

}  // namespace
}  // namespace ps::run
