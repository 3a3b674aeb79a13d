// Goodput of push and pull through the production path (shard link, endpoint, codec, CRC, shard
// core, optimizer), in frames of the default size, against a raw loop over one TCP connection that
// moves the same bytes with the same request and reply and copies them to where they belong; once
// with the system's congestion control and once, as ours does within a machine, with one that does
// not pace; ours by TLS, as between machines, with the two sides' keys on one machine; and pushes
// of the same values as bf16 (train.gradient_dtype), whose GB are those of the f32 values. Both
// sides are threads of this process, each on a core of its own, and the CPU seconds are those of
// both together. Ratios are taken run by run, so that a slow phase of the machine hits both parts
// of one.
//
// With --shards N the chunks lie on N shards of this host, each a thread of its own, and the same
// chunks on one shard are measured in the same rounds. Then the scheduler places the threads of the
// N shards and of their worker.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "ps/base/random.h"
#include "ps/client/chunk_layout.h"
#include "ps/client/host_tensors.h"
#include "ps/client/pull_intake.h"
#include "ps/client/shard_link.h"
#include "ps/crypto/certificates.h"
#include "ps/crypto/tls.h"
#include "ps/net/endpoint.h"
#include "ps/net/loop.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/timing.h"
#include "ps/server/shard_core.h"
#include "tests/bench/harness.h"
#include "tests/bench/raw_loop.h"

namespace ps::bench {
namespace {

/// Steps per run, so that a run moves about `volume` bytes.
uint64_t StepsFor(const Shape& shape, uint64_t volume) {
  return std::clamp<uint64_t>(volume / shape.bytes(), 1, 4000);
}

/// The first passes over a gigabyte take their memory from the system, ours for payloads too.
constexpr uint32_t kWarmUps = 3;

constexpr char kToken[] = "bench";
constexpr Incarnation kIncarnation(1);

uint64_t FrameBytes() {
  return uint64_t{proto::ServerConfig().frame_kib} << 10;
}

/// One tensor in chunks that the shards take in turn.
proto::Placement PlacementOf(const Shape& shape, uint32_t shards) {
  proto::Placement placement;
  const uint32_t elements = shape.chunk_bytes / sizeof(float);
  for (uint32_t i = 0; i < shape.chunks; ++i) {
    placement.chunks.push_back(
        {MakeChunkKey(0, i), elements, int64_t{i} * elements, ShardId(i % shards)});
  }
  return placement;
}

enum class Wire { kPlain, kTls };

/// How what is pushed or pulled travels.
struct Form {
  Wire wire = Wire::kPlain;
  codec::Encoding encoding{};  // of pushes
};

net::EndpointOptions EndpointOptionsOf(const std::string& node, std::string_view role, Wire wire) {
  net::EndpointOptions options;
  options.node = node;
  options.token = kToken;
  options.roles = {proto::Role::kWorker};
  options.queue_bytes_max = 1U << 30;
  if (wire == Wire::kTls) {
    static const crypto::Authority run = crypto::Authority::Make();
    options.tls = crypto::TlsContext::Make(run.Issue(node, {role})).value();
  }
  return options;
}

server::ReadSettings BenchSettings() {
  return [](const std::string& /*config_json*/) {
    server::ShardSettings settings;
    settings.frame_bytes = FrameBytes();
    settings.optimizer.lr = 1e-6F;
    settings.timing = proto::Timing::FromMaxDetect(std::chrono::hours(200));
    return Result<server::ShardSettings>(settings);
  };
}

/// A shard on its own thread, set up without a coordinator.
class ShardThread final : public net::EndpointHandler {
 public:
  /// One of `shards` shards that hold the shape's chunks.
  ShardThread(const Shape& shape, uint32_t shard, uint32_t shards, const Form& form)
      : core_(
            {ShardId(shard), "127.0.0.1", 0, 0, 0, {}},
            BenchSettings(),
            nullptr,
            nullptr,
            &NullLogger()),
        endpoint_(
            &loop_,
            EndpointOptionsOf("shard", crypto::kServerRole, form.wire),
            &NullLogger(),
            this) {
    proto::ShardSetup setup;
    TensorSpec tensor;
    tensor.name = "w";
    tensor.shape = {static_cast<int64_t>(shape.bytes() / sizeof(float))};
    setup.tensors = {tensor};
    setup.placement = PlacementOf(shape, shards);
    setup.total_samples = uint64_t{1} << 60;
    setup.membership.generation = Generation(1);
    setup.membership.incarnation_max = kIncarnation;
    setup.membership.members = {{WorkerId(0), kIncarnation, true}};
    const TimePoint now = SystemTime().Now();
    core_.OnCoordinatorConnected(kCoordinator, 1, now, &endpoint_);
    core_.OnMessage(kCoordinator, 1, std::move(setup), now, &endpoint_);
    port_ = endpoint_.Listen("127.0.0.1", 0).value();
    thread_ = std::thread([this, shards] {
      if (shards > 1) {
        TakeAnyCore();
      } else {
        TakeCoreOf(Side::kFar);
      }
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
  /// `ports[i]` is that of shard i.
  Client(const Shape& shape, const std::vector<uint32_t>& ports, bool is_pull, const Form& form)
      : shape_(shape),
        is_pull_(is_pull),
        layout_(client::ChunkLayout::Make(
                    {static_cast<int64_t>(shape.bytes() / sizeof(float))},
                    PlacementOf(shape, static_cast<uint32_t>(ports.size())),
                    std::array{form.encoding})
                    .value()),
        tensors_(client::HostTensors::Make(layout_, 1).value()),
        gradient_(tensors_.Lend().value()),
        endpoint_(
            &loop_,
            EndpointOptionsOf("client", crypto::kWorkerRole, form.wire),
            &NullLogger(),
            this) {
    if (form.encoding.kind == codec::EncodingKind::kBf16) {
      constexpr uint32_t kTwoHalves = 0x3f003f00;  // 0.5 twice
      std::ranges::fill(gradient_->floats(), std::bit_cast<float>(kTwoHalves));
    } else {
      std::ranges::fill(gradient_->floats(), 0.5F);
    }
    for (uint32_t i = 0; i < ports.size(); ++i) {
      Connect(ShardId(i), ports[i]);
    }
  }

  Outcome Run(uint64_t steps) {
    if (servers_.size() > 1) {
      TakeAnyCore();
    }
    left_ = steps;
    const Meter meter;
    Begin();
    loop_.Run();
    const Outcome outcome = meter.Read(steps * shape_.bytes());
    TakeCoreOf(Side::kNear);
    return outcome;
  }

  uint64_t bytes_pushed() const {
    uint64_t bytes = 0;
    for (const Server& server : servers_) {
      bytes += server.link->bytes_pushed();
    }
    return bytes;
  }

  void OnConnected(proto::PeerId /*peer*/, const proto::Hello& /*hello*/) override {}

  void OnClosed(proto::PeerId /*peer*/, const Status& why) override { PS_CHECK(false) << why; }

  void OnMessage(proto::PeerId peer, uint64_t request_id, proto::Message&& message) override {
    Server* server = ServerOf(peer);
    if (const auto* pull = std::get_if<proto::PullReply>(&message)) {
      const Result<client::PullIntake::Taken> taken = server->intake->Take(step_, *pull);
      PS_CHECK(taken.ok()) << taken.status();
      for (const client::PullIntake::Fresh& fresh : taken->fresh) {
        tensors_.Take(fresh);
      }
      chunks_seen_ += taken->completed_chunks;
      if (chunks_seen_ < shape_.chunks) {
        return;
      }
    } else {
      const auto* push = std::get_if<proto::PushReply>(&message);
      PS_CHECK(push != nullptr) << "answered with message type " << proto::MessageTypeOf(message);
      PS_CHECK(server->link->OnPushReply(request_id, *push, SystemTime().Now(), &endpoint_));
      ++pushes_done_;
      if (pushes_done_ < servers_.size()) {
        return;
      }
    }
    --left_;
    if (left_ == 0) {
      loop_.Stop();
    } else {
      Begin();
    }
  }

 private:
  struct Server {
    proto::PeerId peer;
    std::vector<client::ChunkLayout::Chunk> chunks;
    std::unique_ptr<client::ShardLink> link;
    std::optional<client::PullIntake> intake;
  };

  void Connect(ShardId shard, uint32_t port) {
    proto::PeerId connected;
    endpoint_.Connect(
        "127.0.0.1",
        port,
        {proto::Role::kWorker, kToken, "client", kIncarnation},
        [this, &connected](const Result<proto::PeerId>& peer) {
          PS_CHECK(peer.ok()) << peer.status();
          connected = *peer;
          loop_.Stop();
        });
    loop_.Run();
    auto link = std::make_unique<client::ShardLink>(
        shard,
        client::ShardLink::Identity{WorkerId(0), kIncarnation},
        &layout_,
        FrameBytes(),
        proto::Timing::FromMaxDetect(std::chrono::hours(1)),
        &random_);
    link->OnConnected(connected, SystemTime().Now(), &endpoint_);
    servers_.push_back({connected, ChunksOf(shard), std::move(link), {}});
  }

  Server* ServerOf(proto::PeerId peer) {
    const auto it = std::find_if(
        servers_.begin(), servers_.end(), [peer](const Server& s) { return s.peer == peer; });
    PS_CHECK(it != servers_.end()) << "an answer of a stranger";
    return &*it;
  }

  void Begin() {
    ++step_;
    chunks_seen_ = 0;
    pushes_done_ = 0;
    for (Server& server : servers_) {
      if (is_pull_) {
        // Nothing is held, so everything is sent.
        server.intake.emplace(server.link->shard(), server.chunks, FrameBytes());
        proto::PullRequest pull;
        pull.incarnation = kIncarnation;
        pull.is_evaluation = true;
        endpoint_.Send(server.peer, step_, std::move(pull));
      } else {
        server.link->BeginPush({step_, LeaseId(1), 0, 1, 1, gradient_, false});
        server.link->TensorReady(0, SystemTime().Now(), &endpoint_);
      }
    }
  }

  std::vector<client::ChunkLayout::Chunk> ChunksOf(ShardId shard) const {
    std::vector<client::ChunkLayout::Chunk> chunks = layout_.chunks();
    std::erase_if(chunks, [shard](const auto& chunk) { return chunk.shard != shard; });
    return chunks;
  }

  const Shape shape_;
  const bool is_pull_;
  const client::ChunkLayout layout_;
  client::HostTensors tensors_;
  const std::shared_ptr<client::FlatGradient> gradient_;
  Random random_{1};
  net::Loop loop_;
  net::Endpoint endpoint_;
  std::vector<Server> servers_;
  Step step_ = 0;
  uint64_t left_ = 0;
  uint64_t chunks_seen_ = 0;
  size_t pushes_done_ = 0;
};

/// A worker and its shards.
class Cluster {
 public:
  Cluster(const Shape& shape, uint32_t shards, bool is_pull, const Form& form = {}) {
    std::vector<uint32_t> ports;
    for (uint32_t i = 0; i < shards; ++i) {
      shards_.push_back(std::make_unique<ShardThread>(shape, i, shards, form));
      ports.push_back(shards_.back()->port());
    }
    client_ = std::make_unique<Client>(shape, ports, is_pull, form);
  }

  Outcome Run(uint64_t steps) { return client_->Run(steps); }

  /// Bytes of values, without headers, since the first run.
  uint64_t bytes_pushed() const { return client_->bytes_pushed(); }

 private:
  std::vector<std::unique_ptr<ShardThread>> shards_;
  std::unique_ptr<Client> client_;  // ends before its shards
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
  Cluster ours(shape, arguments.shards, is_pull);
  Cluster encrypted(shape, arguments.shards, is_pull, {.wire = Wire::kTls});
  std::optional<Cluster> rounded;  // parameters are not
  if (!is_pull) {
    rounded.emplace(
        shape, arguments.shards, is_pull, Form{.encoding = {codec::EncodingKind::kBf16}});
  }
  std::optional<Cluster> single;
  if (arguments.shards > 1) {
    single.emplace(shape, 1, is_pull);
  }
  RawLoop raw(shape, is_pull);
  std::array<Samples, 5> cpu;
  const auto with_cpu = [&cpu](size_t who, const Outcome& outcome) {
    cpu[who].values.push_back(outcome.cpu_s_per_gigabyte);
    return outcome.gigabytes_per_s;
  };
  std::vector<std::function<double()>> candidates = {
      [&] { return with_cpu(0, raw.Run(steps, TcpPair::Pacing::kSystem)); },
      [&] { return with_cpu(1, raw.Run(steps, TcpPair::Pacing::kNone)); },
      [&] { return with_cpu(2, ours.Run(steps)); },
      [&] { return with_cpu(3, encrypted.Run(steps)); }};
  if (rounded) {
    candidates.emplace_back([&] { return with_cpu(4, rounded->Run(steps)); });
  }
  if (single) {
    candidates.emplace_back([&] { return single->Run(steps).gigabytes_per_s; });
  }
  const auto results = MeasureInTurn(arguments.runs, candidates, kWarmUps);
  std::vector<std::string> row = {
      what,
      std::to_string(shape.chunks),
      size,
      Spread(results[0], 2),
      Spread(results[1], 2),
      Spread(results[2], 2),
      Spread(PercentOf(results[2], results[0]), 0) + " %",
      Spread(PercentOf(results[2], results[1]), 0) + " %",
      Fixed(cpu[0].Median(), 2),
      Fixed(cpu[1].Median(), 2),
      Fixed(cpu[2].Median(), 2),
      Spread(results[3], 2),
      Spread(PercentOf(results[3], results[2]), 0) + " %",
      Fixed(cpu[3].Median(), 2)};
  if (rounded) {
    const double bytes = static_cast<double>(rounded->bytes_pushed());
    row.push_back(Fixed(100 * bytes / static_cast<double>(ours.bytes_pushed()), 1) + " %");
    row.push_back(Spread(results[4], 2));
    row.push_back(Spread(PercentOf(results[4], results[2]), 0) + " %");
    row.push_back(Fixed(cpu[4].Median(), 2));
  } else {
    row.insert(row.end(), 4, "-");
  }
  if (single) {
    row.push_back(Spread(results.back(), 2));
    row.push_back(Spread(PercentOf(results[2], results.back()), 0) + " %");
  }
  table->Add(row);
}

void Main(const BenchArguments& arguments) {
  TakeCoreOf(Side::kNear);
  std::printf(
      "push and pull: one worker, %u shard%s, loopback, %u runs, median (MAD); raw: the same bytes "
      "over one socket, copied to their place; unpaced: the same without pacing, as ours is\n",
      arguments.shards,
      arguments.shards == 1 ? "" : "s",
      arguments.runs);
  std::vector<std::string> header = {
      "what",
      "chunks",
      "of",
      "raw GB/s",
      "unpaced GB/s",
      "ours GB/s",
      "of raw",
      "of unpaced",
      "raw cpu-s/GB",
      "unpaced",
      "ours",
      "TLS GB/s",
      "of ours",
      "TLS cpu-s/GB",
      "bf16 bytes",
      "bf16 GB/s",
      "of ours",
      "bf16 cpu-s/GB"};
  if (arguments.shards > 1) {
    header.insert(header.end(), {"one shard GB/s", "of one shard"});
  }
  Table table(header);
  for (const bool is_pull : {false, true}) {
    for (const uint32_t chunks : {1U, 64U, 256U}) {
      for (const uint32_t kib : {4U, 64U, 256U, 1024U, 4096U}) {
        const Shape shape{arguments.is_tiny ? std::min(chunks, 3U) : chunks, kib << 10};
        if (shape.bytes() > (uint64_t{1} << 30) || shape.chunks < arguments.shards) {
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
  ps::bench::Main(
      ps::bench::ReadBenchArguments(argc, argv, {.has_rows = true, .has_shards = true}));
  return 0;
}
