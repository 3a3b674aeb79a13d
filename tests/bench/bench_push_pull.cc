// Goodput of push and pull through the production path (endpoint, codec, CRC, shard core,
// optimizer) against a raw loop over one TCP connection that moves the same bytes with the same
// request and reply and copies them to where they belong. Both sides are threads of this process,
// so the CPU seconds are those of sender and receiver together.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ps/base/buffer.h"
#include "ps/net/endpoint.h"
#include "ps/net/loop.h"
#include "ps/server/shard_core.h"
#include "tests/bench/harness.h"
#include "tests/bench/raw_socket.h"

namespace ps::bench {
namespace {

struct Shape {
  uint32_t chunks = 1;
  uint32_t chunk_bytes = 4096;

  uint64_t bytes() const { return uint64_t{chunks} * chunk_bytes; }
};

/// Steps per run, so that a run moves about `volume` bytes.
uint64_t StepsFor(const Shape& shape, uint64_t volume) {
  return std::clamp<uint64_t>(volume / shape.bytes(), 1, 4000);
}

// ---- Raw ---------------------------------------------------------------------------------------

/// One side sends `bytes` in messages of at most 1 MiB, the other copies each to its place and
/// answers with 64 bytes. `is_pull` turns the direction of the bulk round.
double RawGoodput(const Shape& shape, uint64_t steps, bool is_pull) {
  const TcpPair pair;
  constexpr size_t kMessage = 1U << 20;
  Buffer source(shape.bytes());
  Buffer target(shape.bytes());
  std::memset(source.data(), 1, source.size());
  std::memset(target.data(), 0, target.size());
  const auto bulk_out = [&](int fd) {
    for (size_t at = 0; at < source.size(); at += kMessage) {
      WriteAll(fd, source.data() + at, std::min(kMessage, source.size() - at));
    }
  };
  const auto bulk_in = [&](int fd) {
    Buffer landing(std::min<size_t>(kMessage, target.size()));
    for (size_t at = 0; at < target.size(); at += kMessage) {
      const size_t size = std::min(kMessage, target.size() - at);
      ReadAll(fd, landing.data(), size);
      std::memcpy(target.data() + at, landing.data(), size);
    }
  };
  std::byte small[64] = {};
  std::thread server([&, fd = pair.far] {
    std::byte request[64];
    for (uint64_t i = 0; i < steps; ++i) {
      if (is_pull) {
        ReadAll(fd, request, sizeof(request));
        bulk_out(fd);
      } else {
        bulk_in(fd);
        WriteAll(fd, request, sizeof(request));
      }
    }
  });
  const double begin = WallSeconds();
  for (uint64_t i = 0; i < steps; ++i) {
    if (is_pull) {
      WriteAll(pair.near, small, sizeof(small));
      bulk_in(pair.near);
    } else {
      bulk_out(pair.near);
      ReadAll(pair.near, small, sizeof(small));
    }
  }
  const double seconds = WallSeconds() - begin;
  server.join();
  return static_cast<double>(steps * shape.bytes()) / seconds * 1e-9;
}

// ---- Parameter server --------------------------------------------------------------------------

constexpr char kToken[] = "bench";
constexpr Incarnation kIncarnation(1);

net::EndpointOptions EndpointOptionsOf(const std::string& node) {
  net::EndpointOptions options;
  options.node = node;
  options.token = kToken;
  options.roles = {proto::Role::kWorker};
  options.queue_bytes_max = 1U << 30;
  return options;
}

/// A shard on its own thread, set up without a coordinator.
class ShardThread final : public net::EndpointHandler {
 public:
  explicit ShardThread(const Shape& shape)
      : core_(ShardId(0), "127.0.0.1", 0, 0, &NullLogger()),
        endpoint_(&loop_, EndpointOptionsOf("shard"), &NullLogger(), this) {
    proto::ShardSetup setup;
    const uint32_t elements = shape.chunk_bytes / sizeof(float);
    TensorSpec tensor;
    tensor.name = "w";
    tensor.shape = {int64_t{shape.chunks} * elements};
    setup.tensors = {tensor};
    for (uint32_t i = 0; i < shape.chunks; ++i) {
      setup.placement.chunks.push_back(
          {MakeChunkKey(0, i), elements, int64_t{i} * elements, ShardId(0)});
    }
    setup.optimizer.lr = 1e-6F;
    setup.reference_minibatch = 1;
    setup.total_samples = uint64_t{1} << 60;
    setup.max_detect_s = 1e6;
    setup.membership = {Generation(1), kIncarnation, {{WorkerId(0), kIncarnation, true}}, {}};
    const TimePoint now = SystemTime().Now();
    core_.OnCoordinatorConnected(kCoordinator, now, &endpoint_);
    core_.OnMessage(kCoordinator, 1, std::move(setup), now, &endpoint_);
    port_ = endpoint_.Listen("127.0.0.1", 0).value();
    thread_ = std::thread([this] { loop_.Run(); });
  }

  ~ShardThread() override {
    loop_.Stop();
    thread_.join();
  }

  uint32_t port() const { return port_; }

  void OnConnected(proto::PeerId /*peer*/, const proto::Hello& /*hello*/) override {}

  void OnMessage(proto::PeerId peer, uint64_t request_id, proto::Message&& message) override {
    core_.OnMessage(peer, request_id, std::move(message), SystemTime().Now(), &endpoint_);
  }

  void OnDrained(proto::PeerId peer) override { core_.OnDrained(peer, &endpoint_); }

  void OnClosed(proto::PeerId peer, const Status& /*why*/) override {
    core_.OnPeerClosed(peer, SystemTime().Now(), &endpoint_);
  }

 private:
  static constexpr proto::PeerId kCoordinator{uint64_t{1} << 60};  // nobody answers to it

  net::Loop loop_;
  server::ShardCore core_;
  net::Endpoint endpoint_;
  uint32_t port_ = 0;
  std::thread thread_;
};

/// A client that pushes or pulls everything again and again, one step at a time.
class Client final : public net::EndpointHandler {
 public:
  Client(const Shape& shape, uint32_t port, bool is_pull)
      : shape_(shape),
        is_pull_(is_pull),
        gradient_(std::make_shared<Buffer>(shape.bytes())),
        parameters_(shape.bytes()),
        endpoint_(&loop_, EndpointOptionsOf("client"), &NullLogger(), this) {
    std::fill(gradient_->floats().begin(), gradient_->floats().end(), 0.5F);
    endpoint_.Connect(
        "127.0.0.1",
        port,
        {proto::Role::kWorker, kToken, "client", kIncarnation},
        [this](const Result<proto::PeerId>& peer) {
          PS_CHECK(peer.ok()) << peer.status();
          peer_ = *peer;
          loop_.Stop();
        });
    loop_.Run();
  }

  /// GB/s of `steps` steps.
  double Run(uint64_t steps) {
    left_ = steps;
    const double begin = WallSeconds();
    Begin();
    loop_.Run();
    return static_cast<double>(steps * shape_.bytes()) / (WallSeconds() - begin) * 1e-9;
  }

  void OnConnected(proto::PeerId /*peer*/, const proto::Hello& /*hello*/) override {}

  void OnClosed(proto::PeerId /*peer*/, const Status& why) override { PS_CHECK(false) << why; }

  void OnMessage(proto::PeerId /*peer*/, uint64_t /*id*/, proto::Message&& message) override {
    if (const auto* pull = std::get_if<proto::PullReply>(&message)) {
      size_t offset = 0;
      for (const proto::PullReply::Chunk& chunk : pull->chunks) {
        const size_t size = chunk.element_count * sizeof(float);
        std::memcpy(
            parameters_.data() + size_t{ChunkOf(chunk.key)} * shape_.chunk_bytes,
            pull->payload.bytes().data() + offset,
            size);
        offset += size;
      }
      chunks_seen_ += pull->chunks.size();
      if (chunks_seen_ < shape_.chunks) {
        return;
      }
    } else {
      const auto* push = std::get_if<proto::PushReply>(&message);
      PS_CHECK(push != nullptr) << "answered with message type " << proto::MessageTypeOf(message);
    }
    --left_;
    if (left_ == 0) {
      loop_.Stop();
    } else {
      Begin();
    }
  }

 private:
  void Begin() {
    ++step_;
    if (is_pull_) {
      chunks_seen_ = 0;
      proto::PullRequest pull;
      pull.incarnation = kIncarnation;
      pull.is_evaluation = true;
      endpoint_.Send(peer_, step_, std::move(pull));
      return;
    }
    constexpr uint64_t kFrameBytes = 1U << 20;
    const uint32_t per_frame =
        static_cast<uint32_t>(std::max<uint64_t>(1, kFrameBytes / shape_.chunk_bytes));
    for (uint32_t first = 0; first < shape_.chunks; first += per_frame) {
      proto::PushRequest push;
      push.incarnation = kIncarnation;
      push.step = step_;
      push.lease = LeaseId(1);
      push.samples = 1;
      push.chunk_count = shape_.chunks;
      const uint32_t end = std::min(first + per_frame, shape_.chunks);
      for (uint32_t i = first; i < end; ++i) {
        push.chunks.push_back(
            {MakeChunkKey(0, i), static_cast<uint32_t>(shape_.chunk_bytes / sizeof(float))});
      }
      push.payload.parts = {
          std::as_const(*gradient_)
              .bytes()
              .subspan(
                  size_t{first} * shape_.chunk_bytes, size_t{end - first} * shape_.chunk_bytes)};
      push.payload.owner = gradient_;
      endpoint_.Send(peer_, step_, std::move(push));
    }
  }

  const Shape shape_;
  const bool is_pull_;
  std::shared_ptr<Buffer> gradient_;
  Buffer parameters_;
  net::Loop loop_;
  net::Endpoint endpoint_;
  proto::PeerId peer_;
  uint64_t step_ = 0;
  uint64_t left_ = 0;
  uint64_t chunks_seen_ = 0;
};

std::string SizeName(uint64_t bytes) {
  return bytes >= (1U << 20) ? std::to_string(bytes >> 20) + " MiB"
                             : std::to_string(bytes >> 10) + " KiB";
}

void MeasureShape(const Shape& shape, bool is_pull, const BenchArguments& arguments, Table* table) {
  const std::string what = is_pull ? "pull" : "push";
  const std::string size = SizeName(shape.chunk_bytes);
  if (!arguments.Wants(what + " " + std::to_string(shape.chunks) + " x " + size)) {
    return;
  }
  const uint64_t steps = arguments.is_tiny ? 2 : StepsFor(shape, uint64_t{1} << 30);
  const ShardThread shard(shape);
  Client client(shape, shard.port(), is_pull);
  double cpu[2] = {};
  const auto with_cpu = [&cpu](int who, const auto& run) {
    const double begin = CpuSeconds();
    const double value = run();
    cpu[who] += CpuSeconds() - begin;
    return value;
  };
  const auto results = MeasureInTurn(
      arguments.runs,
      {[&] { return with_cpu(0, [&] { return RawGoodput(shape, steps, is_pull); }); },
       [&] { return with_cpu(1, [&] { return client.Run(steps); }); }});
  // The warm-up run is in the CPU time, so it is one run more.
  const double gigabytes = static_cast<double>(steps * shape.bytes()) * (arguments.runs + 1) * 1e-9;
  table->Add(
      {what,
       std::to_string(shape.chunks),
       size,
       Spread(results[0], 2),
       Spread(results[1], 2),
       Fixed(results[1].Median() / results[0].Median() * 100, 0) + " %",
       Fixed(cpu[0] / gigabytes, 2),
       Fixed(cpu[1] / gigabytes, 2)});
}

void Main(const BenchArguments& arguments) {
  std::printf(
      "push and pull: one worker, one shard, loopback, %u runs, median (MAD); raw: the same bytes "
      "over one socket, copied to their place\n",
      arguments.runs);
  Table table(
      {"what", "chunks", "of", "raw GB/s", "ours GB/s", "of raw", "raw cpu-s/GB", "ours cpu-s/GB"});
  for (const bool is_pull : {false, true}) {
    for (const uint32_t chunks : {1U, 64U, 256U}) {
      for (const uint32_t kib : {4U, 64U, 256U, 1024U, 4096U}) {
        const Shape shape{arguments.is_tiny ? std::min(chunks, 3U) : chunks, kib << 10};
        if (shape.bytes() > (uint64_t{1} << 30)) {
          continue;
        }
        MeasureShape(shape, is_pull, arguments, &table);
      }
    }
  }
  table.Print();
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  ps::bench::Main(ps::bench::ReadBenchArguments(argc, argv, true));
  return 0;
}
