#include "ps/coordinator/state/membership.h"

#include <gtest/gtest.h>

#include "ps/base/random.h"
#include "ps/proto/membership.h"

namespace ps::coordinator {
namespace {

/// A shard as far as memberships go: it has one, and answers for who is asked for.
struct View {
  proto::Membership membership;

  proto::MembershipAck Take(const proto::Membership& later, ShardId shard) {
    if (later.generation > membership.generation) {
      EXPECT_LE(later.base, membership.generation);
      proto::ApplyMembership(later, &membership);
    }
    proto::MembershipAck ack{shard, membership.generation, {}};
    for (const Incarnation incarnation : membership.resolve) {
      ack.resolved.push_back({incarnation, 1, proto::PushOutcome::kApplied});
    }
    return ack;
  }
};

void ExpectSame(const proto::Membership& a, const proto::Membership& b) {
  EXPECT_EQ(a.generation, b.generation);
  EXPECT_EQ(a.incarnation_max, b.incarnation_max);
  ASSERT_EQ(a.members.size(), b.members.size());
  for (size_t i = 0; i < a.members.size(); ++i) {
    EXPECT_EQ(a.members[i].incarnation, b.members[i].incarnation);
    EXPECT_EQ(a.members[i].worker, b.members[i].worker);
    EXPECT_EQ(a.members[i].is_active, b.members[i].is_active);
  }
}

TEST(MembershipTest, AJoinIsTheOnlyChangeSinceTheMembershipBeforeIt) {
  MembershipState state;
  TouchedRows touched;
  Membership membership(&state, 1, &touched);
  View shard;
  for (uint32_t seat = 0; seat < 100; ++seat) {
    membership.Add(WorkerId(seat), {LaunchId(), "host", 1});
  }
  EXPECT_EQ(membership.MessageSince(Generation()).members.size(), 100U) << "it has none yet";
  ASSERT_TRUE(membership.OnAck(shard.Take(membership.Message(), ShardId(0))).ok());
  membership.Add(WorkerId(100), {LaunchId(), "host", 2});
  const proto::Membership change = membership.MessageSince(membership.AcknowledgedBy(ShardId(0)));
  EXPECT_EQ(change.base, Generation(100));
  ASSERT_EQ(change.members.size(), 1U);
  EXPECT_EQ(change.members[0].worker, WorkerId(100));
  EXPECT_TRUE(change.resolve.empty());
}

TEST(MembershipTest, ChangesThatAreNotKnownAnyMoreAreSentWhole) {
  MembershipState state;
  TouchedRows touched;
  Membership membership(&state, 1, &touched);
  View shard;
  membership.Add(WorkerId(0), {LaunchId(), "host", 1});
  Member& member = membership.Add(WorkerId(1), {LaunchId(), "host", 1});
  ASSERT_TRUE(membership.OnAck(shard.Take(membership.Message(), ShardId(0))).ok());
  const Generation base = membership.generation();
  for (int i = 0; i < 20000; ++i) {
    membership.SetActive(&member, !member.record->is_active);
  }
  const proto::Membership all = membership.MessageSince(base);
  EXPECT_EQ(all.base, Generation());
  EXPECT_EQ(all.members.size(), 2U);
}

/// Whatever happens, and whatever of it a shard has missed: the changes make of its membership what
/// the whole one is, but for those of which nobody needs to know any more.
TEST(MembershipTest, ChangesMakeOfAnyEarlierMembershipThePresentOne) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    MembershipState state;
    TouchedRows touched;
    Membership membership(&state, 2, &touched);
    std::vector<View> shards(2);
    uint32_t seat = 0;
    for (int i = 0; i < 300; ++i) {
      auto& members = membership.members();
      const uint64_t what = members.size() < 3 ? 0 : random.Below(4);
      const auto any = [&] {
        return std::next(members.begin(), static_cast<long>(random.Below(members.size())));
      };
      if (what == 0) {
        membership.Add(WorkerId(seat++), {LaunchId(), "host", 1});
      } else if (what == 1) {
        membership.Remove(any()->first, LeaveKind::kLost, "", TimePoint{});
      } else if (what == 2) {
        Member& member = any()->second;
        membership.SetActive(&member, !member.record->is_active);
      } else {
        const auto shard = static_cast<uint32_t>(random.Below(2));
        const Generation base = membership.AcknowledgedBy(ShardId(shard));
        const proto::MembershipAck ack =
            shards[shard].Take(membership.MessageSince(base), ShardId(shard));
        ExpectSame(shards[shard].membership, membership.Message());
        if (random.Chance(0.6)) {  // else it is lost
          ASSERT_TRUE(membership.OnAck(ack).ok());
        }
        for (const Incarnation incarnation : membership.TakeAnswered()) {
          membership.Resolve(membership.FindDeparture(incarnation), 0);
        }
        membership.ForgetKept(0);
      }
      const Status status = membership.Check();
      ASSERT_TRUE(status.ok()) << status;
    }
    membership.Add(WorkerId(seat), {LaunchId(), "host", 1});
    for (uint32_t shard = 0; shard < 2; ++shard) {
      const Generation base = membership.AcknowledgedBy(ShardId(shard));
      shards[shard].Take(membership.MessageSince(base), ShardId(shard));
      EXPECT_EQ(shards[shard].membership.resolve.size(), membership.departures().size());
    }
  }
}

}  // namespace
}  // namespace ps::coordinator
