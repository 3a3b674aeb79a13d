// The oracle's own clocks, by hand-made messages: where no run that is drawn comes by often.

#include "tests/sim/oracle/oracle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <span>
#include <vector>

#include "tests/sim/expect_ok.h"
#include "tests/sim/oracle/held_back.h"

namespace ps::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr ChunkKey kMoved = MakeChunkKey(0, 0);
constexpr ChunkKey kStays = MakeChunkKey(1, 0);
constexpr Incarnation kAhead{1};
constexpr Incarnation kBehind{2};

/// Has chunks in versions, and is always in the middle of something: no values are compared.
class FakeShard final : public ShardView {
 public:
  Version VersionOf(ChunkKey key) const override { return versions.at(key); }

  std::span<const float> ValuesOf(ChunkKey /*key*/) const override { return {}; }

  std::span<const float> SlotOf(ChunkKey /*key*/, size_t /*slot*/) const override { return {}; }

  uint64_t SamplesDone() const override { return 0; }

  bool HasChunk(ChunkKey key) const override { return versions.contains(key); }

  bool HasStep(Incarnation /*who*/, Step /*step*/, ChunkKey /*key*/) const override {
    return false;
  }

  bool IsSetUp() const override { return true; }

  bool IsShutDown() const override { return false; }

  bool IsBetweenVersions() const override { return true; }

  std::map<ChunkKey, Version> versions;
};

/// Two shards with a chunk each, and two workers under ssp with bound 1. The first shard is lost
/// after three steps of both, and comes back without them.
class OracleMoveTest : public ::testing::Test {
 protected:
  static constexpr int kLost = 0;
  static constexpr int kLostsNext = 1;
  static constexpr int kOther = 2;

  OracleMoveTest() : oracle_(Options()) {
    oracle_.AddProcess(kLost, ShardId(0), &shards_[kLost]);
    oracle_.AddProcess(kLostsNext, ShardId(0), &shards_[kLostsNext]);
    oracle_.AddProcess(kOther, ShardId(1), &shards_[kOther]);
    shards_[kLost].versions[kMoved] = 0;
    shards_[kLostsNext].versions[kMoved] = 0;
    shards_[kOther].versions[kStays] = 0;
    oracle_.OnSetup(kLost, Setup(1));
    oracle_.OnSetup(kOther, Setup(1));
    for (const Incarnation who : {kAhead, kBehind}) {
      proto::LeaseGrant grant;
      grant.incarnation = who;
      grant.kind = proto::LeaseKind::kTrain;
      grant.mode = proto::Mode::kSsp;
      grant.end = 100;
      oracle_.OnGrant(grant);
      for (Step step = 1; step <= 3; ++step) {
        oracle_.OnStepStarted(who, step, {0, step - 1, step});
        Push(kLost, who, step, kMoved);
        Push(kOther, who, step, kStays);
      }
    }
    proto::ShardSetup again = Setup(2);
    again.counted = {{kAhead, 3}, {kBehind, 3}};
    oracle_.OnSetup(kLostsNext, again);
  }

  static Oracle::Options Options() {
    Oracle::Options options;
    options.epochs = 1;
    options.train_samples = 100;
    options.frame_bytes = 1000;
    options.initial_value = [](uint32_t /*tensor*/, int64_t /*element*/) { return 0.0F; };
    return options;
  }

  static proto::ShardSetup Setup(uint64_t life) {
    proto::ShardSetup setup;
    setup.life = life;
    setup.placement = {1, {{kMoved, 1, 0, ShardId(0)}, {kStays, 1, 0, ShardId(1)}}};
    setup.membership.generation = Generation(1);
    setup.membership.mode.mode = proto::Mode::kSsp;
    setup.membership.mode.staleness_max = 1;
    setup.membership.members = {
        {WorkerId(0), kAhead, true},
        {WorkerId(1), kBehind, true},
    };
    return setup;
  }

  void Start(Incarnation who, Step step) { oracle_.OnStepStarted(who, step, {0, step - 1, step}); }

  void Push(int node, Incarnation who, Step step, ChunkKey key) {
    proto::PushRequest push;
    push.incarnation = who;
    push.step = step;
    push.samples = 1;
    push.chunks = {{key, 1, 0}};
    oracle_.BeforePush(node, push);
    ++shards_[node].versions.at(key);
    oracle_.AfterPush(node, push);
  }

  /// From one shard to another, which has not taken anything yet. `active`: on the one that offers.
  void Offer(
      int from,
      ShardId from_shard,
      int to,
      uint64_t placement,
      const std::set<Incarnation>& active = {kAhead, kBehind}) {
    proto::ChunksOffer offer;
    offer.from = from_shard;
    offer.version = placement;
    for (const Incarnation who : {kAhead, kBehind}) {
      proto::OfferedMember& member = offer.members.emplace_back();
      member.incarnation = who;
      member.is_active = active.contains(who);
    }
    oracle_.OnOfferSent(from, placement, offer);
    oracle_.OnOffer(to, from, placement);
  }

  void Move(ChunkKey key, int from, ShardId from_shard, int to, uint64_t placement) {
    Offer(from, from_shard, to, placement);
    Take(key, from, to);
  }

  void Take(ChunkKey key, int from, int to) {
    shards_[to].versions[key] = shards_[from].versions.at(key);
    oracle_.NoteChunks(to);
    shards_[from].versions.erase(key);
    oracle_.NoteChunks(from);
  }

  void TakeMembership(int node, uint64_t generation, const std::set<Incarnation>& active) {
    proto::Membership membership = Setup(1).membership;
    membership.generation = Generation(generation);
    for (proto::Member& member : membership.members) {
      member.is_active = active.contains(member.incarnation);
    }
    oracle_.OnMembership(node, membership);
  }

  /// The first shard gives its only chunk away, and gets one back.
  void MoveToAndFro(ChunkKey back) {
    Move(kMoved, kLostsNext, ShardId(0), kOther, 2);
    Move(back, kOther, ShardId(1), kLostsNext, 3);
  }

  FakeShard shards_[3];
  Oracle oracle_;
};

TEST_F(OracleMoveTest, StepsThatALifeHadLostStayCountedWhenALaterOneIsUnderWay) {
  for (const Incarnation who : {kAhead, kBehind}) {
    Start(who, 4);
    Push(kLostsNext, who, 4, kMoved);
  }
  Push(kOther, kAhead, 4, kStays);
  MoveToAndFro(kMoved);
  oracle_.OnPullReply(kLostsNext, kAhead);
  EXPECT_THAT(oracle_.violations(), IsEmpty()) << "both have made four steps in that chunk";
  for (Step step = 5; step <= 6; ++step) {
    Start(kAhead, step);
    Push(kLostsNext, kAhead, step, kMoved);
  }
  oracle_.OnPullReply(kLostsNext, kAhead);
  EXPECT_THAT(
      oracle_.violations(), ElementsAre("incarnation 1 was served by shard 0 while 2 steps ahead"));
}

TEST_F(OracleMoveTest, OnlyTheNewestStepMayBeMadeAgain) {
  Start(kAhead, 4);
  Push(kLostsNext, kAhead, 4, kMoved);
  Push(kOther, kAhead, 4, kStays);
  MoveToAndFro(kStays);
  oracle_.OnPullReply(kLostsNext, kAhead);
  EXPECT_THAT(oracle_.violations(), IsEmpty()) << "one has made four steps, the other one three";
}

/// Meanwhile the slowest one there makes a step and becomes idle, so who is idle would start one
/// step later there. Who took the chunks can't know.
TEST_F(OracleMoveTest, ClocksThatComeAreThoseOfTheOffer) {
  Move(kMoved, kLostsNext, ShardId(0), kOther, 2);
  TakeMembership(kOther, 2, {kBehind});
  Start(kBehind, 4);
  Push(kOther, kBehind, 4, kMoved);
  Offer(kOther, ShardId(1), kLostsNext, 3, {kBehind});
  Push(kOther, kBehind, 4, kStays);
  TakeMembership(kOther, 3, {});
  TakeMembership(kLostsNext, 3, {});
  Take(kMoved, kOther, kLostsNext);
  TakeMembership(kLostsNext, 4, {kAhead, kBehind});
  for (Step step = 4; step <= 5; ++step) {
    Start(kAhead, step);
    Push(kLostsNext, kAhead, step, kMoved);
  }
  oracle_.OnPullReply(kLostsNext, kAhead);
  EXPECT_THAT(oracle_.violations(), IsEmpty()) << "five steps here, and four of the other one";
  Start(kAhead, 6);
  Push(kLostsNext, kAhead, 6, kMoved);
  oracle_.OnPullReply(kLostsNext, kAhead);
  EXPECT_THAT(
      oracle_.violations(), ElementsAre("incarnation 1 was served by shard 0 while 2 steps ahead"));
}

/// The shard that took them has clocks that come from a life of which no other is left.
TEST_F(OracleMoveTest, ClocksThatCameFromALifeThatIsOverAreNotKnown) {
  Offer(kLostsNext, ShardId(0), kOther, 2);
  shards_[kOther].versions[kMoved] = shards_[kLost].versions.at(kMoved);
  oracle_.NoteChunks(kOther);
  for (Step step = 4; step <= 5; ++step) {
    Start(kAhead, step);
    Push(kOther, kAhead, step, kStays);
  }
  oracle_.OnPullReply(kOther, kAhead);
  EXPECT_THAT(oracle_.violations(), IsEmpty());
}

TEST(HeldBackTest, TheLastStepBringsAllThatWasHeldBackOnce) {
  const proto::StepSettings settings{codec::ParseEncoding("topk:0.25").value()};
  constexpr float kGradient[] = {4, 3, 2, 1};
  HeldBack held(1024);
  held.Take(kAhead, 1, kMoved, kGradient, settings);
  held.Take(kAhead, 2, kMoved, kGradient, settings);
  EXPECT_THAT(held.ArrivesOf(kAhead, 2, kMoved), ElementsAre(0, 6, 0, 0));
  for (int told = 0; told < 2; ++told) {
    held.HandOver(kAhead, 2, kMoved, kGradient);
    EXPECT_THAT(held.ArrivesOf(kAhead, 2, kMoved), ElementsAre(4, 6, 4, 2)) << "told " << told;
  }
}

/// After a resume numbers come again that were given after the checkpoint.
TEST(HeldBackTest, WhoGetsANumberAgainHoldsNothingBack) {
  const proto::StepSettings settings{codec::ParseEncoding("topk:0.25").value()};
  constexpr float kGradient[] = {4, 3, 2, 1};
  HeldBack held(1024);
  held.Take(kAhead, 1, kMoved, kGradient, settings);
  EXPECT_THAT(held.ArrivesOf(kAhead, 1, kMoved), ElementsAre(4, 0, 0, 0));
  held.Take(kAhead, 2, kMoved, kGradient, settings);
  EXPECT_THAT(held.ArrivesOf(kAhead, 2, kMoved), ElementsAre(0, 6, 0, 0)) << "3 were held back";
  held.OnResume(Incarnation());
  held.Take(kAhead, 1, kMoved, kGradient, settings);
  EXPECT_THAT(held.ArrivesOf(kAhead, 1, kMoved), ElementsAre(4, 0, 0, 0));
}

// Where it once called right wrong, as `sim_replay --minimise` found it.

/// A chunk that has a worker's only step leaves, then one that lacks it: the step is to come there.
TEST(OracleTest, AStepIsKnownToBeToComeWhereTheChunkThatHasItHasLeft) {
  Scenario s = Quiet(proto::Mode::kSsp);
  s.seed = 9800062;
  s.staleness_max = 1;
  s.overlap = false;
  s.epochs = 1;
  s.train_samples = 35;
  s.chunk_kib = 2;
  s.difference_bits = 4;
  s.local_steps = 2;
  s.network.loss = 0.010692892179653564;
  s.network.duplication = 0.027647071651065769;
  s.network.reorder = 0.0029422640762861107;
  s.network.stall = 0.040160082224162834;
  s.network.stall_max = std::chrono::milliseconds(250);
  s.multi_kills = 2;
  s.notices = 2;
  s.extra_joins = 2;
  s.checkpoint_every = Duration(52437500);
  s.checkpoint_keep = 1;
  s.is_compressed = true;
  s.disk_delay_max = std::chrono::milliseconds(3);
  s.disk_faults = 3;
  s.server_multi_kills = 1;
  s.has_few_seats = true;
  s.server_scales = 2;
  s.mode_switches = 4;
  s.sets = 3;
  s.disturbed_for = std::chrono::milliseconds(1470);
  ExpectOk(s);
}

/// The run is resumed from a checkpoint before it joined, and another worker is that incarnation.
TEST(OracleTest, WhoGetsTheNumberOfOneThatHasLeftIsNotTakenForIt) {
  Scenario s = Quiet(proto::Mode::kAsync);
  s.seed = 9600128;
  s.staleness_max = 0;
  s.overlap = false;
  s.shards = 3;
  s.epochs = 1;
  s.train_samples = 50;
  s.network.loss = 0.0016574814473557622;
  s.network.duplication = 0.017676616160951442;
  s.network.stall = 0.027204693554232336;
  s.network.stall_max = std::chrono::milliseconds(250);
  s.kills_at_message = 4;
  s.notices = 3;
  s.faults_at_join = 1;
  s.stops = 1;
  s.resumes = 1;
  s.checkpoint_every = std::chrono::milliseconds(882);
  s.checkpoint_keep = 1;
  s.disk_delay_max = std::chrono::milliseconds(1);
  s.server_detect = std::chrono::milliseconds(1200);
  s.server_freezes = 1;
  s.sets = 1;
  s.sets_pulls = true;
  s.disturbed_for = std::chrono::milliseconds(2076);
  ExpectOk(s);
}

}  // namespace
}  // namespace ps::sim
