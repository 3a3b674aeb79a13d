// The largest of everything that a limit allows travels, and what is beyond is refused where the
// config is read.

#include "ps/proto/limits.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "ps/proto/chunks.h"
#include "ps/proto/job/job_limits.h"
#include "ps/proto/move_limits.h"
#include "tests/proto/sample.h"
#include "tests/proto/small_job.h"

namespace ps::proto {
namespace {

using testing::HasSubstr;
using tests::ErrorOf;
using tests::Flatten;
using tests::kSmall;
using tests::ParseFrame;
using tests::Replaced;

/// The message after a way over the wire.
template <typename T>
T Travelled(const T& message) {
  Result<Message> back = ParseFrame(Flatten(EncodeMessage(message, 1)));
  PS_CHECK(back.ok()) << back.status();
  return std::get<T>(std::move(back).value());
}

std::string LongName() {
  return std::string(kNameBytesMax, 'n');
}

Placement LargestPlacement() {
  TensorSpec tensor;
  tensor.shape = {static_cast<int64_t>(kChunksMax) * 256};
  Placement placement;
  placement.chunks = CutIntoChunks({tensor}, 1024);
  return placement;
}

Membership LargestMembership() {
  Membership membership;
  membership.members.resize(kSeatsMax);
  membership.resolve.resize(size_t{2} * kSeatsMax);
  return membership;
}

TEST(LimitsTest, TheLargestJoinReplyTravels) {
  JoinReply reply;
  reply.config_json.assign(kConfigBytesMax, 'c');
  reply.placement = LargestPlacement();
  reply.shards.assign(kShardsMax, {ShardId(1), LongName(), 65535});
  const JoinReply back = Travelled(reply);
  EXPECT_EQ(back.placement.chunks.size(), kChunksMax);
  EXPECT_EQ(back.placement.chunks.back().key, reply.placement.chunks.back().key);
  EXPECT_EQ(back.shards.size(), kShardsMax);
}

TEST(LimitsTest, TheLargestShardSetupTravels) {
  ShardSetup setup;
  setup.placement = LargestPlacement();
  setup.membership = LargestMembership();
  TensorSpec tensor;
  tensor.name = LongName();
  tensor.shape.assign(kTensorDimsMax, 1);
  setup.tensors.assign(kTensorsMax, tensor);
  EXPECT_EQ(Travelled(setup).tensors.size(), kTensorsMax);
}

/// A row for each message with a list that grows with workers, servers or chunks, as long as it may
/// be. A new message of this kind has one, too.
TEST(LimitsTest, EveryListTravelsAtItsLimit) {
  struct Row {
    std::string name;
    Message message;
  };

  std::vector<Row> rows;
  const std::vector<ChunkKey> all_keys(kChunksMax, ChunkKey(7));
  const std::vector<ShardAddress> all_shards(kShardsMax, {ShardId(1), LongName(), 65535});
  rows.push_back({"where all is", ShardAddresses{all_shards, 0, 9, {}}});
  std::get<ShardAddresses>(rows.back().message)
      .places.assign(kChunksMax, {ChunkKey(1), ShardId(1)});
  rows.push_back({"an order to give", GiveChunks{9, all_shards[0], 1, all_keys}});
  MembershipAck ack;
  ack.resolved.resize(size_t{2} * kSeatsMax);
  rows.push_back({"steps of those who are gone", ack});
  CommitRound commit;
  commit.contributions.resize(size_t{2} * kSeatsMax);
  rows.push_back({"a commit", commit});
  rows.push_back({"a membership", LargestMembership()});
  Membership changes = LargestMembership();
  changes.forgotten = changes.resolve;
  rows.push_back({"changes of a membership", changes});
  ShardSetup setup;
  setup.config_json.assign(kConfigBytesMax, 'c');
  setup.placement = LargestPlacement();
  setup.membership = LargestMembership();
  setup.counted.resize(kSeatsMax);
  TensorSpec tensor;
  tensor.name = LongName();
  tensor.shape.assign(kTensorDimsMax, 1);
  setup.tensors.assign(kTensorsMax, tensor);
  rows.push_back({"a set-up of a later life", setup});
  for (const Row& row : rows) {
    const uint32_t bytes = EncodeMessage(row.message, 1).header.header_bytes;
    EXPECT_GT(bytes, kSeatsMax) << row.name << " is not what it is to be";
    EXPECT_LE(bytes, kHeaderBytesMax) << row.name;
  }
}

/// All of `members` have the step under way, and one that is staged, in all of `keys`.
uint32_t BytesOfOffer(uint64_t members, uint64_t keys) {
  ChunksOffer offer;
  offer.members.resize(members);
  std::vector<Incarnation> ahead;
  for (uint64_t i = 1; i <= members; ++i) {
    ahead.emplace_back(i);
  }
  offer.chunks.assign(keys, {ChunkKey(1), 1, ahead});
  offer.staged.assign(members, {Incarnation(1), 1, 1, 1, std::vector<ChunkKey>(keys)});
  return EncodeMessage(offer, 1).header.header_bytes;
}

/// The product of workers and chunks is what no limit of either bounds.
TEST(LimitsTest, AnOfferTravelsWithAsManyChunksAsAreMovedAtATime) {
  for (const uint64_t members : {1U, 1024U, kSeatsMax, 2 * kSeatsMax}) {
    const uint64_t keys = OfferKeysMax(members);
    EXPECT_GE(OfferMembersMax(keys), members);
    EXPECT_LE(BytesOfOffer(members, keys), kHeaderBytesMax) << members << " workers";
  }
  EXPECT_GT(BytesOfOffer(kSeatsMax, 64), kHeaderBytesMax) << "why there is a bound";
  EXPECT_EQ(OfferKeysMax(1024), 500U) << "as PROTOCOL.md says";
  EXPECT_EQ(OfferKeysMax(kSeatsMax), 21U);
}

TEST(LimitsTest, TheLargestPushAndPullHeadersTravel) {
  PullRequest pull;
  pull.held.resize(kChunksMax);
  EXPECT_EQ(Travelled(pull).held.size(), kChunksMax);
  const Buffer values(kChunksMax * sizeof(float));
  PushRequest push;
  push.samples = 1;
  push.held.resize(kChunksMax);
  push.chunks.assign(kChunksMax, {ChunkKey(1), 1, 0});
  push.payload.parts = {values.bytes()};
  EXPECT_EQ(Travelled(push).chunks.size(), kChunksMax);
  PullReply reply;
  reply.chunks.assign(kChunksMax, {ChunkKey(1), 1, 1, 0});
  reply.payload.parts = {values.bytes()};
  EXPECT_EQ(Travelled(reply).chunks.size(), kChunksMax);
}

Wait LongWait() {
  const std::string text(kTextBytesMax + 100, 'w');
  return {text, text, text, 1, Generation(1)};
}

TEST(LimitsTest, AHeartbeatTravelsWhateverItTells) {
  ShardHeartbeat beat;
  beat.stats.workers.resize(kSeatsMax);
  beat.waits.assign(kWaitsPerPeerMax + 36, LongWait());
  const ShardHeartbeat back = Travelled(beat);
  EXPECT_EQ(back.waits.size(), kWaitsPerPeerMax);
  EXPECT_EQ(back.waits[0].for_whom.size(), kTextBytesMax);
  EXPECT_TRUE(back.waits[0].for_whom.ends_with("w..."));
  WorkerHeartbeat worker;
  worker.waits = beat.waits;
  EXPECT_EQ(Travelled(worker).waits.size(), kWaitsPerPeerMax);
}

TEST(LimitsTest, ATextIsCutBetweenCharacters) {
  std::string text(kNameBytesMax - 4, 'x');
  text += "\u00fc\u00fc\u00fc";  // two bytes each: the cut would be within the first
  EXPECT_EQ(Travelled(HelloReply{text}).node, std::string(kNameBytesMax - 4, 'x') + "...");
}

TEST(LimitsTest, AStatusTravelsWhateverItTells) {
  StatusReply reply;
  JobStatus& status = reply.status;
  status.detail.assign(10 * kTextBytesMax, 'd');
  WorkerRow worker;
  worker.host = worker.reason = LongName();
  status.workers.assign(size_t{3} * kSeatsMax, worker);
  ShardRow shard;
  shard.address = LongName();
  shard.stats.staleness_histogram.resize(32);
  shard.stats.workers.resize(kSeatsMax);
  status.shards.assign(kShardsMax, shard);
  for (uint32_t epoch = 0; epoch < 100'000; ++epoch) {
    status.ledger.push_back({.epoch = epoch});
    status.evaluations.push_back({.epoch = epoch});
  }
  status.waits.assign(kStatusWaitsMax + 100, LongWait());
  const JobStatus back = Travelled(reply).status;
  EXPECT_EQ(back.workers.size(), kStatusWorkersMax);
  EXPECT_EQ(back.shards.size(), kShardsMax);
  EXPECT_EQ(back.ledger.back().epoch, 99'999U);
  EXPECT_EQ(back.evaluations.back().epoch, 99'999U);
}

TEST(LimitsTest, MoreSeatsThanThereAreAreRefused) {
  // A group has at most 1,024 workers: 15 full ones, one with 1,000, and `last`.
  const auto job = [](const std::string& last) {
    std::string groups;
    for (int i = 0; i < 15; ++i) {
      groups += R"({"count": 1024}, )";
    }
    return Replaced("[{}]", "[\n" + groups + "\n" + R"({"count": 1000})" + last);
  };
  EXPECT_EQ(
      ErrorOf(job(R"(, {"count": 25}])")),
      "job.json:7:28: workers[16].count brings the job to 16385 workers; allowed: 16384 in all");
  EXPECT_EQ(
      ErrorOf(job(R"(], "faults": [{"kind": "add", "at": 0.5, "add": {"count": 25}}])")),
      "job.json:7:74: faults[0].add.count brings the job to 16385 workers; allowed: 16384 in all");
  EXPECT_EQ(ErrorOf(job(R"(, {"count": 24}])")), "no error");
}

TEST(LimitsTest, MoreShardsThanThereAreAreRefused) {
  EXPECT_EQ(
      ErrorOf(Replaced("[{}]", R"([{}], "servers": {"count": 256, "shards_per_server": 5})")),
      "job.json:5:67: servers.shards_per_server makes 256 servers of 5 shards 1280 shards; "
      "allowed: "
      "1024 in all, so 4 or less with these servers");
  EXPECT_EQ(
      ErrorOf(Replaced("[{}]", R"([{}], "servers": {"count": 256, "shards_per_server": 4})")),
      "no error");
}

TEST(LimitsTest, AnAddressThatNoMessageCarriesIsRefused) {
  const auto job = [](size_t bytes) {
    return Replaced("[{}]", R"([{}], "run": {"advertise": ")" + std::string(bytes, 'a') + "\"}");
  };
  EXPECT_EQ(
      ErrorOf(job(kAddressBytesMax + 1)),
      "job.json:5:41: run.advertise has 201 bytes; allowed: an address of at most 200");
  EXPECT_EQ(ErrorOf(job(kAddressBytesMax)), "no error");
}

TEST(LimitsTest, APageAtNoAddressOfThisMachineIsRefused) {
  const auto job = [](const std::string& page) {
    return Replaced("[{}]", R"([{}], "run": {"page": ")" + page + "\"}");
  };
  for (const char* taken : {"off", "127.0.0.1", "localhost:80", "::1", "[::1]:8080", "0.0.0.0"}) {
    EXPECT_EQ(ErrorOf(job(taken)), "no error") << taken;
  }
  for (const char* refused :
       {"on", "8080", "example.org:80", "127.0.0.1:0", "127.0.0.1:65536", "[::1", "::1]:80"}) {
    EXPECT_EQ(
        ErrorOf(job(refused)),
        "job.json:5:36: run.page: '" + std::string(refused) +
            "' is no address of this machine; write it as 127.0.0.1, 127.0.0.1:8080 or "
            "[::1]:8080; or \"off\"");
  }
}

TEST(LimitsTest, AJobThatNoJoinReplyCarriesIsRefused) {
  std::string layers;
  for (int i = 0; i < 1000; ++i) {
    layers += std::string(i == 0 ? "" : ",") + R"({"kind":"residual","layers":[)";
    for (int j = 0; j < 20; ++j) {
      layers += std::string(j == 0 ? "" : ",") + R"({"kind":"batch_norm"})";
    }
    layers += "]}";
  }
  const std::string error =
      ErrorOf(Replaced(R"({"name": "mlp"})", R"({"layers": [)" + layers + "]}"));
  EXPECT_THAT(error, HasSubstr("job.json:3:12: model "));
  EXPECT_THAT(error, HasSubstr("with all defaults; allowed: 1048576"));
}

JobConfig ConfigWithChunks(uint32_t chunk_kib) {
  JobConfig config;
  config.servers.chunk_kib = chunk_kib;
  config.workers = {{.count = 20}};
  return config;
}

std::vector<TensorSpec> TensorsOf(int64_t mib) {
  TensorSpec tensor;
  tensor.name = "weight";
  tensor.shape = {mib << 18};
  return {tensor};
}

TEST(LimitsTest, ChunksTooSmallForTheModelAreRefusedWithTheLeastThatFits) {
  EXPECT_TRUE(CheckModelLimits(ConfigWithChunks(1), TensorsOf(97)).ok());
  EXPECT_EQ(
      CheckModelLimits(ConfigWithChunks(1), TensorsOf(170)).message(),
      "servers.chunk_kib is 1, which cuts this model into 174080 chunks, and a job may have "
      "100000; "
      "allowed with this model: 2 to 32768");
  EXPECT_TRUE(CheckModelLimits(ConfigWithChunks(2), TensorsOf(170)).ok());
}

TEST(LimitsTest, MoreTensorsOrLongerNamesThanAMessageHoldsAreRefused) {
  std::vector<TensorSpec> tensors(kTensorsMax, TensorsOf(1).front());
  EXPECT_TRUE(CheckModelLimits(ConfigWithChunks(256), tensors).ok());
  tensors.push_back(tensors.front());
  EXPECT_EQ(
      CheckModelLimits(ConfigWithChunks(256), tensors).message(),
      "model.layers make 8193 tensors; allowed: at most 8192");
  tensors.resize(1);
  tensors[0].name = LongName();
  EXPECT_TRUE(CheckModelLimits(ConfigWithChunks(256), tensors).ok());
  tensors[0].name += "x";
  EXPECT_THAT(
      std::string(CheckModelLimits(ConfigWithChunks(256), tensors).message()),
      HasSubstr("model.layers make a tensor whose name has 257 bytes"));
}

TEST(LimitsTest, ARoundThatTheShardsHaveNoRoomForIsRefused) {
  JobConfig config = ConfigWithChunks(256);
  const uint64_t shard_bytes = 4U << 20;
  EXPECT_TRUE(CheckRoundLimits(config, shard_bytes).ok()) << "async keeps no round";
  config.train.mode = Mode::kBsp;
  EXPECT_EQ(
      CheckRoundLimits(config, shard_bytes).message(),
      "servers.queue_mib is 64; under bsp a shard keeps a gradient of each of the 20 workers, "
      "4194304 bytes of its part of the model each; allowed: 80 or more, or more shards");
  config.servers.queue_mib = 80;
  EXPECT_TRUE(CheckRoundLimits(config, shard_bytes).ok());
}

}  // namespace
}  // namespace ps::proto
