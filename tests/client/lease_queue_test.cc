#include "ps/client/lease_queue.h"

#include <gtest/gtest.h>

#include "tests/client/member_parts.h"

namespace ps::client {
namespace {

TEST(LeaseQueueTest, ALeaseIsTakenOnce) {
  MemberParts parts;
  EXPECT_TRUE(parts.leases.Take(parts.Grant(2, 0, 8)));
  EXPECT_FALSE(parts.leases.Take(parts.Grant(2, 0, 8)));
  EXPECT_FALSE(parts.leases.Take(parts.Grant(1, 8, 16))) << "overtaken";
  proto::LeaseGrant other = parts.Grant(3, 8, 16);
  other.incarnation = Incarnation(3);
  EXPECT_FALSE(parts.leases.Take(other));
}

TEST(LeaseQueueTest, SamplesAreHandedOutInOrderAndUsedUpLeasesGo) {
  MemberParts parts;
  parts.leases.Take(parts.Grant(1, 0, 12));
  parts.leases.Take(parts.Grant(2, 40, 48));
  EXPECT_EQ(parts.leases.NewsAhead(), (SamplesAhead{0, 0, 8}));
  EXPECT_EQ(parts.leases.NewsAhead(), std::nullopt) << "it was told";
  parts.leases.Front()->next = 8;
  EXPECT_EQ(parts.leases.NewsAhead(), (SamplesAhead{0, 8, 12})) << "a smaller one is left";
  parts.leases.Front()->next = 12;
  EXPECT_EQ(parts.leases.Front()->grant.lease, LeaseId(2));
  EXPECT_TRUE(parts.leases.IsOneWanted());
}

TEST(LeaseQueueTest, ARequestIsRepeatedUntilALeaseAnswersIt) {
  MemberParts parts;
  parts.leases.Ask(parts.now, &parts.out);
  EXPECT_FALSE(parts.leases.IsOneWanted()) << "one is asked for";
  parts.leases.OnTick(parts.now, &parts.out);
  EXPECT_EQ(parts.out.All<proto::LeaseRequest>().size(), 1U);
  parts.leases.Hurry(parts.now);
  parts.leases.OnTick(parts.now, &parts.out);
  EXPECT_EQ(parts.out.All<proto::LeaseRequest>().size(), 2U);
  parts.leases.Take(parts.Grant(1, 0, 8));
  parts.now += seconds(60);
  parts.leases.OnTick(parts.now, &parts.out);
  EXPECT_EQ(parts.out.All<proto::LeaseRequest>().size(), 2U);
}

}  // namespace
}  // namespace ps::client
