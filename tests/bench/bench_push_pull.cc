// Goodput of push and pull through the production path (shard link, endpoint, codec, CRC, shard
// core, optimizer), in frames of the default size, against a raw loop over one TCP connection that
// moves the same bytes with the same request and reply and copies them to where they belong; once
// with the system's congestion control and once, as ours does within a machine, with one that does
// not pace. Both sides are threads of this process, each on a core of its own, and the CPU seconds
// are those of both together. Ratios are taken run by run, so that a slow phase of the machine hits
// both parts of one.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ps/base/buffer.h"
#include "ps/base/random.h"
#include "ps/client/chunk_layout.h"
#include "ps/client/pull_intake.h"
#include "ps/client/shard_link.h"
#include "ps/net/endpoint.h"
#include "ps/net/loop.h"
#include "ps/proto/job_config.h"
#include "ps/proto/timing.h"
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

/// The first passes over a gigabyte take their memory from the system, ours for payloads too.
constexpr uint32_t kWarmUps = 3;

struct Outcome {
  double gigabytes_per_s = 0;
  double cpu_s_per_gigabyte = 0;
};

/// What happens from its construction on.
class Meter {
 public:
  Outcome Read(uint64_t bytes) const {
    const double gigabytes = static_cast<double>(bytes) * 1e-9;
    return {gigabytes / (WallSeconds() - wall_s_), (CpuSeconds() - cpu_s_) / gigabytes};
  }

 private:
  double wall_s_ = WallSeconds();
  double cpu_s_ = CpuSeconds();
};

// ---- Raw ---------------------------------------------------------------------------------------

/// One side sends the bytes in messages of at most 1 MiB, the other copies each to its place and
/// answers with 64 bytes. A pull turns the direction of the bulk round.
class RawLoop {
 public:
  RawLoop(const Shape& shape, bool is_pull)
      : is_pull_(is_pull),
        source_(shape.bytes()),
        target_(shape.bytes()),
        landing_(std::min<size_t>(kMessage, shape.bytes())) {
    std::memset(source_.data(), 1, source_.size());
    std::memset(target_.data(), 0, target_.size());
  }

  /// Over a connection of its own.
  Outcome Run(uint64_t steps, TcpPair::Pacing pacing) {
    const TcpPair pair(pacing);
    std::thread server([this, steps, fd = pair.far] {
      TakeCoreOf(Side::kFar);
      std::byte small[64] = {};
      for (uint64_t i = 0; i < steps; ++i) {
        if (is_pull_) {
          ReadAll(fd, small, sizeof(small));
          BulkOut(fd);
        } else {
          BulkIn(fd);
          WriteAll(fd, small, sizeof(small));
        }
      }
    });
    const Meter meter;
    std::byte small[64] = {};
    for (uint64_t i = 0; i < steps; ++i) {
      if (is_pull_) {
        WriteAll(pair.near, small, sizeof(small));
        BulkIn(pair.near);
      } else {
        BulkOut(pair.near);
        ReadAll(pair.near, small, sizeof(small));
      }
    }
    const Outcome outcome = meter.Read(steps * source_.size());
    server.join();
    return outcome;
  }

 private:
  static constexpr size_t kMessage = 1U << 20;

  void BulkOut(int fd) {
    for (size_t at = 0; at < source_.size(); at += kMessage) {
      WriteAll(fd, source_.data() + at, std::min(kMessage, source_.size() - at));
    }
  }

  void BulkIn(int fd) {
    for (size_t at = 0; at < target_.size(); at += kMessage) {
      const size_t size = std::min(kMessage, target_.size() - at);
      ReadAll(fd, landing_.data(), size);
      std::memcpy(target_.data() + at, landing_.data(), size);
    }
  }

  const bool is_pull_;
  Buffer source_;
  Buffer target_;
  Buffer landing_;
};

// ---- Parameter server --------------------------------------------------------------------------

constexpr char kToken[] = "bench";
constexpr Incarnation kIncarnation(1);

uint64_t FrameBytes() {
  return uint64_t{proto::ServerConfig().frame_kib} << 10;
}

/// One tensor in chunks of one shard.
proto::Placement PlacementOf(const Shape& shape) {
  proto::Placement placement;
  const uint32_t elements = shape.chunk_bytes / sizeof(float);
  for (uint32_t i = 0; i < shape.chunks; ++i) {
    placement.chunks.push_back({MakeChunkKey(0, i), elements, int64_t{i} * elements, ShardId(0)});
  }
  return placement;
}

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
    TensorSpec tensor;
    tensor.name = "w";
    tensor.shape = {static_cast<int64_t>(shape.bytes() / sizeof(float))};
    setup.tensors = {tensor};
    setup.placement = PlacementOf(shape);
    setup.frame_bytes = FrameBytes();
    setup.optimizer.lr = 1e-6F;
    setup.reference_minibatch = 1;
    setup.total_samples = uint64_t{1} << 60;
    setup.max_detect_s = 1e6;
    setup.membership = {Generation(1), kIncarnation, {{WorkerId(0), kIncarnation, true}}, {}};
    const TimePoint now = SystemTime().Now();
    core_.OnCoordinatorConnected(kCoordinator, now, &endpoint_);
    core_.OnMessage(kCoordinator, 1, std::move(setup), now, &endpoint_);
    port_ = endpoint_.Listen("127.0.0.1", 0).value();
    thread_ = std::thread([this] {
      TakeCoreOf(Side::kFar);
      loop_.Run();
    });
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

/// A worker's end that pushes or pulls everything again and again, one step at a time.
class Client final : public net::EndpointHandler {
 public:
  Client(const Shape& shape, uint32_t port, bool is_pull)
      : shape_(shape),
        is_pull_(is_pull),
        layout_(client::ChunkLayout::Make(
                    {static_cast<int64_t>(shape.bytes() / sizeof(float))}, PlacementOf(shape))
                    .value()),
        gradient_(std::make_shared<Buffer>(layout_.MakeBuffer())),
        parameters_(layout_.MakeBuffer()),
        link_(
            ShardId(0),
            {WorkerId(0), kIncarnation},
            &layout_,
            FrameBytes(),
            proto::Timing::FromMaxDetect(std::chrono::hours(1)),
            &random_),
        endpoint_(&loop_, EndpointOptionsOf("client"), &NullLogger(), this) {
    std::fill(gradient_->floats().begin(), gradient_->floats().end(), 0.5F);
    std::memset(parameters_.data(), 0, parameters_.size());
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
    link_.OnConnected(peer_, SystemTime().Now(), &endpoint_);
  }

  Outcome Run(uint64_t steps) {
    left_ = steps;
    const Meter meter;
    Begin();
    loop_.Run();
    return meter.Read(steps * shape_.bytes());
  }

  void OnConnected(proto::PeerId /*peer*/, const proto::Hello& /*hello*/) override {}

  void OnClosed(proto::PeerId /*peer*/, const Status& why) override { PS_CHECK(false) << why; }

  void OnMessage(proto::PeerId /*peer*/, uint64_t /*id*/, proto::Message&& message) override {
    if (const auto* pull = std::get_if<proto::PullReply>(&message)) {
      const Result<client::PullIntake::Taken> taken = intake_->Take(step_, *pull);
      PS_CHECK(taken.ok()) << taken.status();
      for (const client::PullIntake::Fresh& fresh : taken->fresh) {
        std::memcpy(
            parameters_.floats().data() + fresh.offset, fresh.bytes.data(), fresh.bytes.size());
      }
      chunks_seen_ += taken->completed_chunks;
      if (chunks_seen_ < shape_.chunks) {
        return;
      }
    } else {
      const auto* push = std::get_if<proto::PushReply>(&message);
      PS_CHECK(push != nullptr) << "answered with message type " << proto::MessageTypeOf(message);
      PS_CHECK(link_.OnPushReply(*push, SystemTime().Now()));
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
    if (!is_pull_) {
      link_.BeginPush({step_, LeaseId(1), 0, 1, gradient_, false});
      link_.TensorReady(0, SystemTime().Now(), &endpoint_);
      return;
    }
    // Nothing is held, so everything is sent.
    intake_.emplace(ShardId(0), layout_.chunks(), FrameBytes());
    chunks_seen_ = 0;
    proto::PullRequest pull;
    pull.incarnation = kIncarnation;
    pull.is_evaluation = true;
    endpoint_.Send(peer_, step_, std::move(pull));
  }

  const Shape shape_;
  const bool is_pull_;
  const client::ChunkLayout layout_;
  std::shared_ptr<Buffer> gradient_;
  Buffer parameters_;
  Random random_{1};
  client::ShardLink link_;
  std::optional<client::PullIntake> intake_;
  net::Loop loop_;
  net::Endpoint endpoint_;
  proto::PeerId peer_;
  Step step_ = 0;
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
  RawLoop raw(shape, is_pull);
  std::array<Samples, 3> cpu;
  const auto with_cpu = [&cpu](size_t who, const Outcome& outcome) {
    cpu[who].values.push_back(outcome.cpu_s_per_gigabyte);
    return outcome.gigabytes_per_s;
  };
  const auto results = MeasureInTurn(
      arguments.runs,
      {[&] { return with_cpu(0, raw.Run(steps, TcpPair::Pacing::kSystem)); },
       [&] { return with_cpu(1, raw.Run(steps, TcpPair::Pacing::kNone)); },
       [&] { return with_cpu(2, client.Run(steps)); }},
      kWarmUps);
  table->Add(
      {what,
       std::to_string(shape.chunks),
       size,
       Spread(results[0], 2),
       Spread(results[1], 2),
       Spread(results[2], 2),
       Spread(PercentOf(results[2], results[0]), 0) + " %",
       Spread(PercentOf(results[2], results[1]), 0) + " %",
       Fixed(cpu[0].Median(), 2),
       Fixed(cpu[1].Median(), 2),
       Fixed(cpu[2].Median(), 2)});
}

void Main(const BenchArguments& arguments) {
  TakeCoreOf(Side::kNear);
  std::printf(
      "push and pull: one worker, one shard, loopback, %u runs, median (MAD); raw: the same bytes "
      "over one socket, copied to their place; unpaced: the same without pacing, as ours is\n",
      arguments.runs);
  Table table(
      {"what",
       "chunks",
       "of",
       "raw GB/s",
       "unpaced GB/s",
       "ours GB/s",
       "of raw",
       "of unpaced",
       "raw cpu-s/GB",
       "unpaced",
       "ours"});
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
