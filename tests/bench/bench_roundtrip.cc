// Round trip of a small message (a heartbeat and its reply) between two loops on two threads,
// against 64 bytes back and forth over blocking sockets. On a machine whose cores sleep between
// messages most of both is the scheduler's wake-up.

#include <cstdio>
#include <thread>
#include <vector>

#include "ps/base/logger.h"
#include "ps/net/endpoint.h"
#include "ps/net/loop.h"
#include "tests/bench/harness.h"
#include "tests/bench/raw_socket.h"

namespace ps::bench {
namespace {

constexpr char kToken[] = "bench";

net::EndpointOptions OptionsOf(const std::string& node) {
  net::EndpointOptions options;
  options.node = node;
  options.token = kToken;
  options.roles = {proto::Role::kWorker};
  return options;
}

/// Answers every heartbeat, on a thread of its own.
class Echo final : public net::EndpointHandler {
 public:
  Echo() : endpoint_(&loop_, OptionsOf("echo"), &NullLogger(), this) {
    port_ = endpoint_.Listen("127.0.0.1", 0).value();
    thread_ = std::thread([this] { loop_.Run(); });
  }

  ~Echo() override {
    loop_.Stop();
    thread_.join();
  }

  uint32_t port() const { return port_; }

  void OnConnected(proto::PeerId /*peer*/, const proto::Hello& /*hello*/) override {}

  void OnMessage(proto::PeerId peer, uint64_t id, proto::Message&& /*message*/) override {
    endpoint_.Send(peer, id, proto::HeartbeatReply{Generation(1)});
  }

  void OnClosed(proto::PeerId /*peer*/, const Status& /*why*/) override {}

 private:
  net::Loop loop_;
  net::Endpoint endpoint_;
  uint32_t port_ = 0;
  std::thread thread_;
};

class Pinger final : public net::EndpointHandler {
 public:
  explicit Pinger(uint32_t port) : endpoint_(&loop_, OptionsOf("ping"), &NullLogger(), this) {
    endpoint_.Connect(
        "127.0.0.1",
        port,
        {proto::Role::kWorker, kToken, "ping", Incarnation(1)},
        [this](const Result<proto::PeerId>& peer) {
          PS_CHECK(peer.ok()) << peer.status();
          peer_ = *peer;
          loop_.Stop();
        });
    loop_.Run();
  }

  std::vector<double> Run(uint32_t count) {
    times_.clear();
    count_ = count;
    Ping();
    loop_.Run();
    return times_;
  }

  void OnConnected(proto::PeerId /*peer*/, const proto::Hello& /*hello*/) override {}

  void OnClosed(proto::PeerId /*peer*/, const Status& why) override { PS_CHECK(false) << why; }

  void OnMessage(proto::PeerId /*peer*/, uint64_t /*id*/, proto::Message&& /*message*/) override {
    times_.push_back((WallSeconds() - sent_) * 1e6);
    if (times_.size() == count_) {
      loop_.Stop();
    } else {
      Ping();
    }
  }

 private:
  void Ping() {
    sent_ = WallSeconds();
    endpoint_.Send(peer_, 1, proto::WorkerHeartbeat{});
  }

  net::Loop loop_;
  net::Endpoint endpoint_;
  proto::PeerId peer_;
  std::vector<double> times_;
  size_t count_ = 0;
  double sent_ = 0;
};

std::vector<double> RawRoundTrips(uint32_t count) {
  const TcpPair pair;
  std::thread echo([fd = pair.far, count] {
    std::byte bytes[64];
    for (uint32_t i = 0; i < count && ReadAll(fd, bytes, sizeof(bytes)); ++i) {
      WriteAll(fd, bytes, sizeof(bytes));
    }
  });
  std::vector<double> times;
  std::byte bytes[64] = {};
  for (uint32_t i = 0; i < count; ++i) {
    const double begin = WallSeconds();
    WriteAll(pair.near, bytes, sizeof(bytes));
    ReadAll(pair.near, bytes, sizeof(bytes));
    times.push_back((WallSeconds() - begin) * 1e6);
  }
  echo.join();
  return times;
}

void Main(const BenchArguments& arguments) {
  const uint32_t count = arguments.is_tiny ? 20 : 20000;
  const Echo echo;
  Pinger pinger(echo.port());
  std::vector<double> p99[2];
  const auto p50_of = [&p99](int who, const std::vector<double>& times) {
    const Samples samples{times};
    p99[who].push_back(samples.Quantile(0.99));
    return samples.Median();
  };
  const auto results = MeasureInTurn(
      arguments.runs,
      {[&] { return p50_of(0, RawRoundTrips(count)); },
       [&] { return p50_of(1, pinger.Run(count)); }});
  std::printf("round trip: %u messages, %u runs, median (MAD)\n", count, arguments.runs);
  Table table({"what", "p50 us", "p99 us", "of raw p50"});
  const char* const names[] = {"raw, 64 bytes", "heartbeat and reply"};
  for (int who = 0; who < 2; ++who) {
    p99[who].erase(p99[who].begin());  // the warm-up
    const double share = results[static_cast<size_t>(who)].Median() / results[0].Median();
    table.Add(
        {names[who],
         Spread(results[static_cast<size_t>(who)], 1),
         Spread(Samples{p99[who]}, 1),
         Fixed(share, 2)});
  }
  table.Print();
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  ps::bench::Main(ps::bench::ReadBenchArguments(argc, argv));
  return 0;
}
