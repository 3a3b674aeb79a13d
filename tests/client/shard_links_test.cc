#include "ps/client/shard_links.h"

#include <gtest/gtest.h>

#include "tests/client/member_parts.h"

namespace ps::client {
namespace {

constexpr ShardId kHere(0);
constexpr ShardId kThere(1);

PushJob Job(MemberParts* parts) {
  PushJob job;
  job.step = 1;
  job.samples = 8;
  job.gradient = parts->host.tensors->Lend().value();
  return job;
}

TEST(ShardLinksTest, APushIsDoneWhenEveryShardHasAnsweredIt) {
  MemberParts parts;
  parts.links.BeginPush(Job(&parts));
  parts.links.TensorReady(0, parts.now, &parts.out);
  parts.links.TensorReady(1, parts.now, &parts.out);
  parts.AnswerPush(kHere, 1);
  EXPECT_FALSE(parts.links.AnswerToPush().has_value());
  parts.AnswerPush(kThere, 1);
  const auto pushed = parts.links.AnswerToPush();
  ASSERT_TRUE(pushed.has_value());
  EXPECT_EQ(pushed->lives, 10U);
  EXPECT_FALSE(pushed->is_rejected);
}

TEST(ShardLinksTest, AShardThatMovesIsConnectedWhereItIsNow) {
  MemberParts parts;
  proto::ShardAddresses addresses;
  addresses.shards = {{kHere, "a", 1}, {kThere, "c", 2}};
  parts.host.shard_connects.clear();
  EXPECT_TRUE(parts.links.OnAddresses(addresses, parts.now, &parts.out).ok());
  EXPECT_EQ(parts.host.shard_connects, std::vector<ShardId>{kThere});
  EXPECT_EQ(parts.out.closed, std::vector<proto::PeerId>{MemberParts::PeerOf(kThere)});
  EXPECT_EQ(parts.links.Of(MemberParts::PeerOf(kThere)), nullptr);
}

TEST(ShardLinksTest, APushGoesOnWhereItsChunkIsNow) {
  MemberParts parts;
  parts.links.BeginPush(Job(&parts));
  parts.links.TensorReady(0, parts.now, &parts.out);
  parts.links.TensorReady(1, parts.now, &parts.out);
  proto::ShardAddresses addresses;
  addresses.base = 1;
  addresses.version = 2;
  addresses.shards = {{kHere, "a", 1}};
  addresses.places = {{MakeChunkKey(1, 0), kHere}};
  parts.out.sent.clear();
  EXPECT_TRUE(parts.links.OnAddresses(addresses, parts.now, &parts.out).ok());
  EXPECT_EQ(parts.links.placement(), 2U);
  const auto pushes = parts.out.All<proto::PushRequest>();
  ASSERT_EQ(pushes.size(), 1U);
  EXPECT_EQ(pushes[0].chunks.at(0).key, MakeChunkKey(1, 0));
  addresses.base = 0;  // of all shards
  addresses.version = 3;
  EXPECT_TRUE(parts.links.OnAddresses(addresses, parts.now, &parts.out).ok());
  EXPECT_FALSE(parts.links.OnConnected(kThere, proto::PeerId(99), parts.now, &parts.out))
      << "it has no chunks and is forgotten";
}

TEST(ShardLinksTest, AChunkOnAShardThatIsNotThereIsAnError) {
  MemberParts parts;
  proto::ShardAddresses addresses;
  addresses.base = 1;
  addresses.version = 2;
  addresses.places = {{MakeChunkKey(1, 0), ShardId(7)}};
  const Status status = parts.links.OnAddresses(addresses, parts.now, &parts.out);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ps::client
