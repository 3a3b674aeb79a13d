// Pulls as differences to what a worker holds, as the worker sees them: it takes frames by their
// bases and nothing else.

#include "ps/server/held_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "ps/codec/difference.h"
#include "ps/proto/exchange.h"
#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

constexpr codec::Encoding kInEight{codec::EncodingKind::kInt8};
constexpr codec::Encoding kRoundedValue{codec::EncodingKind::kBf16};
constexpr int64_t kChunkElements = 40;

/// What a worker has of a shard's parameters: it does what frames say.
struct Mirror {
  struct Part {
    uint64_t number = 0;
    Version version = 0;
    std::vector<float> values;
  };

  void Take(const Answer<proto::PullReply>& answer) {
    const proto::PullReply& reply = answer.message;
    ++frames;
    differences += proto::HasDifferences(reply.encoding) ? 1 : 0;
    newest = reply.encoding;
    kinds.insert(reply.encoding.kind);
    EXPECT_GT(reply.number, newest_number) << "numbers grow";
    newest_number = reply.number;
    std::span<const std::byte> rest = std::as_bytes(std::span(answer.values));
    for (const proto::PullReply::Chunk& chunk : reply.chunks) {
      Part& part = parts[{chunk.key, chunk.element_begin}];
      part.values.resize(chunk.element_count);
      const auto bytes = rest.first(reply.encoding.SizeOf(chunk.element_count));
      rest = rest.subspan(bytes.size());
      std::vector<float> scratch(chunk.element_count);
      if (chunk.base == 0) {
        EXPECT_TRUE(codec::Decode(reply.encoding, bytes, part.values).ok());
      } else {
        EXPECT_EQ(chunk.base, part.number) << "the base is what is held";
        EXPECT_TRUE(codec::CheckDifference(reply.encoding, bytes, scratch).ok());
        EXPECT_TRUE(codec::AddDifference(reply.encoding, bytes, part.values, scratch).ok());
      }
      part.number = reply.number;
      part.version = chunk.version;
    }
  }

  std::vector<proto::ChunkVersion> Held() const {
    std::map<ChunkKey, Version> held;
    for (const auto& [place, part] : parts) {
      held[place.first] = part.version;
    }
    std::vector<proto::ChunkVersion> list;
    for (const auto& [key, version] : held) {
      list.push_back({key, version});
    }
    return list;
  }

  std::map<std::pair<ChunkKey, uint32_t>, Part> parts;
  int frames = 0;
  int differences = 0;
  codec::Encoding newest;
  std::set<codec::EncodingKind> kinds;
  uint64_t newest_number = 0;
};

/// Chunks of 40 elements, in two parts each.
class HeldValuesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rig_.settings.frame_bytes = kChunkElements / 2 * sizeof(float);
    for (TensorSpec& tensor : rig_.setup.tensors) {
      tensor.shape = {2 * kChunkElements};
    }
    for (proto::ChunkAssignment& chunk : rig_.setup.placement.chunks) {
      chunk.element_begin = kChunkElements * ChunkOf(chunk.key);
      chunk.element_count = kChunkElements;
    }
    Change(&rig_);
    rig_.SetUp();
  }

  virtual void Change(ShardRig* /*rig*/) {}

  /// The parameters move by about `scale`.
  void Train(float scale) {
    proto::PushRequest push;
    push.worker = WorkerId(0);
    push.incarnation = Incarnation(1);
    push.step = ++step_;
    push.samples = 1;
    push.chunk_count = 3;
    push.placement = rig_.setup.placement.version;
    for (const ChunkKey key : {kFirst, kSecond, kThird}) {
      for (const uint32_t begin : {0U, 20U}) {
        auto values = std::make_shared<Buffer>(20 * sizeof(float));
        for (size_t i = 0; i < 20; ++i) {
          values->floats()[i] =
              scale * std::sin(static_cast<float>(key.value % 7 + begin + i + step_));
        }
        push.chunks = {{key, 20, begin}};
        push.payload = proto::Payload::Own(std::move(values), 20 * sizeof(float));
        rig_.Push(push);
      }
    }
    ASSERT_EQ(rig_.Take<proto::PushReply>().size(), 1U);
  }

  proto::PullRequest PullAll(uint64_t incarnation) const {
    proto::PullRequest pull = rig_.PullAll(incarnation);
    pull.encoding = kInEight;
    return pull;
  }

  void Pull(uint64_t incarnation, Mirror* mirror, bool is_evaluation = false) {
    proto::PullRequest pull = PullAll(incarnation);
    pull.held = mirror->Held();
    pull.held_life = rig_.setup.life;
    pull.is_evaluation = is_evaluation;
    pull.encoding = is_evaluation ? codec::Encoding() : kInEight;
    rig_.Pull(pull, ++request_);
    TakeAll(mirror);
  }

  void TakeAll(Mirror* mirror) {
    for (const auto& answer : rig_.Take<proto::PullReply>()) {
      mirror->Take(answer);
    }
  }

  /// Between what the worker holds and the parameters.
  double Gap(const Mirror& mirror) {
    double gap = 0;
    for (const auto& [place, part] : mirror.parts) {
      const std::span<const float> values = rig_.core.ValuesOf(place.first);
      for (size_t i = 0; i < part.values.size(); ++i) {
        gap = std::max<double>(gap, std::abs(values[place.second + i] - part.values[i]));
      }
    }
    return gap;
  }

  ShardRig rig_;
  Step step_ = 0;
  uint64_t request_ = 100;
};

TEST_F(HeldValuesTest, AfterAValueComeDifferencesThatFollowTheParameters) {
  Mirror mirror;
  Pull(1, &mirror);
  EXPECT_EQ(mirror.newest, kRoundedValue);
  EXPECT_EQ(mirror.frames, 3) << "two parts of bf16 fit into a frame";
  for (int i = 0; i < 20; ++i) {
    Train(0.01F);
    mirror.frames = mirror.differences = 0;
    Pull(1, &mirror);
    EXPECT_EQ(mirror.differences, mirror.frames);
    EXPECT_LE(Gap(mirror), 0.012 / 250) << "the bound is of the difference, not of the value";
  }
}

/// A server ended when its chunks had left, and another one of its number got them back while the
/// worker could not be reached. It finds the same chunks at the same shard in the same life.
TEST_F(HeldValuesTest, FramesOfAnotherProcessOfTheShardAreNewer) {
  Mirror mirror;
  Pull(1, &mirror);
  ShardRig other;
  other.settings = rig_.settings;
  other.setup = rig_.setup;
  other.setup.placement.version += 2;
  other.SetUp();
  proto::PullRequest pull = PullAll(1);
  pull.placement = other.setup.placement.version;
  other.Pull(pull, ++request_);
  const auto answers = other.Take<proto::PullReply>();
  EXPECT_EQ(answers.size(), 3U);
  for (const auto& answer : answers) {
    mirror.Take(answer);
  }
}

TEST_F(HeldValuesTest, AValueComesAfterSoManyDifferences) {
  Mirror mirror;
  Pull(1, &mirror);
  for (uint32_t i = 0; i < proto::kDifferencesInARow; ++i) {
    Train(0.01F);
    Pull(1, &mirror);
    ASSERT_EQ(mirror.newest, kInEight) << i;
  }
  Train(0.01F);
  Pull(1, &mirror);
  EXPECT_EQ(mirror.newest, kRoundedValue);
  Train(0.01F);
  Pull(1, &mirror);
  EXPECT_EQ(mirror.newest, kInEight);
}

TEST_F(HeldValuesTest, ADifferenceMayFollowOneThatIsOnItsWay) {
  Mirror mirror;
  Pull(1, &mirror);
  const std::vector<proto::ChunkVersion> held = mirror.Held();
  for (int i = 0; i < 3; ++i) {  // the worker asks before the answer has come
    Train(0.01F);
    proto::PullRequest pull = PullAll(1);
    pull.held = held;
    pull.held_life = rig_.setup.life;
    rig_.Pull(pull, ++request_);
  }
  mirror.differences = mirror.frames = 0;
  TakeAll(&mirror);
  EXPECT_EQ(mirror.differences, mirror.frames);
  EXPECT_LE(Gap(mirror), 0.012 / 250);
}

TEST_F(HeldValuesTest, WhoSaysThatItHoldsNothingGetsValues) {
  Mirror mirror;
  Pull(1, &mirror);
  Train(0.01F);
  mirror.parts.clear();
  Pull(1, &mirror);
  EXPECT_EQ(mirror.newest, kRoundedValue);
  Train(0.01F);
  proto::PullRequest pull = PullAll(1);
  pull.held = mirror.Held();
  pull.held_life = rig_.setup.life + 1;
  rig_.Pull(pull, ++request_);
  TakeAll(&mirror);
  EXPECT_EQ(mirror.newest, kRoundedValue) << "of another life";
}

TEST_F(HeldValuesTest, AnotherConnectionBeginsWithValues) {
  Mirror mirror;
  Pull(1, &mirror);
  const uint64_t kept = rig_.core.Stats().held_bytes;
  EXPECT_EQ(kept, 3 * kChunkElements * sizeof(float));
  rig_.core.OnPeerClosed(PeerOf(0), rig_.now, &rig_.sent);
  EXPECT_EQ(rig_.core.Stats().held_bytes, 0U);
  Train(0.01F);
  Pull(1, &mirror);
  EXPECT_EQ(mirror.newest, kRoundedValue);
  // One that the shard does not know to be over.
  Train(0.01F);
  proto::PullRequest pull = PullAll(1);
  pull.held = mirror.Held();
  pull.held_life = rig_.setup.life;
  rig_.core.OnMessage(PeerOf(7), ++request_, pull, rig_.now, &rig_.sent);
  TakeAll(&mirror);
  EXPECT_EQ(mirror.newest, kRoundedValue);
  EXPECT_EQ(rig_.core.Stats().held_bytes, kept);
}

TEST_F(HeldValuesTest, EachWorkerHasItsOwnAndMemoryGoesWithIt) {
  Mirror first;
  Mirror second;
  Pull(1, &first);
  Train(0.5F);
  Pull(2, &second);
  Train(0.01F);
  Pull(1, &first);
  Pull(2, &second);
  EXPECT_EQ(first.newest, kInEight);
  EXPECT_EQ(second.newest, kInEight);
  EXPECT_LE(Gap(second), 0.02 / 250);
  EXPECT_LE(Gap(first), 0.52 / 250);
  EXPECT_EQ(rig_.core.Stats().held_bytes, 2 * 3 * kChunkElements * sizeof(float));
  proto::Membership membership = rig_.MembersUpTo(1);
  rig_.Deliver(kCoordinator, membership);
  EXPECT_EQ(rig_.core.Stats().held_bytes, 3 * kChunkElements * sizeof(float));
}

TEST_F(HeldValuesTest, AnEvaluationHasF32AndTheNextDifferenceIsToThat) {
  Mirror mirror;
  Pull(1, &mirror);
  Train(0.01F);
  Pull(1, &mirror, true);
  EXPECT_EQ(mirror.newest, codec::Encoding());
  EXPECT_EQ(Gap(mirror), 0);
  Train(0.01F);
  Pull(1, &mirror);
  EXPECT_EQ(mirror.newest, kInEight);
  EXPECT_LE(Gap(mirror), 0.012 / 250);
}

TEST_F(HeldValuesTest, TheCoordinatorGetsWhatIsThere) {
  Mirror mirror;
  Pull(1, &mirror);
  Train(0.01F);
  rig_.Deliver(kCoordinator, proto::PullRequest{}, ++request_);
  for (const auto& answer : rig_.Take<proto::PullReply>()) {
    EXPECT_EQ(answer.message.encoding, codec::Encoding());
    EXPECT_EQ(answer.message.number, 0U);
    const proto::PullReply::Chunk& chunk = answer.message.chunks.front();
    EXPECT_EQ(answer.values[0], rig_.core.ValuesOf(chunk.key)[chunk.element_begin]);
  }
}

TEST_F(HeldValuesTest, WhatIsNotFiniteInFewBitsGoesAsF32) {
  Mirror mirror;
  Pull(1, &mirror);
  constexpr float kMuch = 0.9F * std::numeric_limits<float>::max();
  Train(kMuch);
  Pull(1, &mirror);
  Train(-kMuch);
  Train(-kMuch);  // some differences are above what a float can be
  mirror.kinds.clear();
  Pull(1, &mirror);
  EXPECT_TRUE(mirror.kinds.contains(codec::EncodingKind::kF32));
  Train(0.01F);
  mirror.kinds.clear();
  Pull(1, &mirror);
  EXPECT_EQ(mirror.kinds, std::set{codec::EncodingKind::kInt8}) << "to what came as f32";
  for (const auto& [place, part] : mirror.parts) {
    for (const float value : part.values) {
      EXPECT_TRUE(std::isfinite(value));
    }
  }
}

/// An encoding may change from pull to pull.
TEST(HeldValuesStateTest, WhoPullsSomethingElseIsNotFollowedUntilItPullsDifferencesAgain) {
  using Wanted = HeldValues::Wanted;
  const Life life(kShard);
  const ChunkStore store = ChunkStore::Make(kShard, ShardSettings(), RigSetup()).value();
  HeldValues values(life, store);
  constexpr Incarnation kWho(1);
  const Chunk& chunk = store.chunks()[2];
  std::vector<std::byte> bytes(64);
  EXPECT_FALSE(values.Begin(kWho, PeerOf(0), Wanted{{}, true}));
  EXPECT_TRUE(values.Begin(kWho, PeerOf(0), Wanted{kInEight}));
  HeldValues::Form form = values.FormOf(kWho, chunk, 0, true, kRoundedValue);
  EXPECT_EQ(form.encoding, kRoundedValue);
  EXPECT_TRUE(
      values.Encode(kWho, chunk, 0, form, values.NextFrame(kWho), std::span(bytes).first(6)));
  EXPECT_EQ(values.bytes(), 12U);
  EXPECT_TRUE(values.Begin(kWho, PeerOf(0), Wanted{{}, true})) << "an evaluation is followed, too";
  EXPECT_FALSE(values.Begin(kWho, PeerOf(0), Wanted{kRoundedValue}));
  EXPECT_EQ(values.bytes(), 0U);
  EXPECT_FALSE(values.Begin(kWho, PeerOf(0), Wanted{{}, true}));
  EXPECT_TRUE(values.Begin(kWho, PeerOf(0), Wanted{kInEight}));
  EXPECT_EQ(values.FormOf(kWho, chunk, 0, true, kInEight).base, 0U);
  EXPECT_EQ(values.NextFrame(kWho), 2U) << "numbers go on";
}

/// A shard with room for one worker and a half.
class HeldValuesRoomTest : public HeldValuesTest {
 protected:
  void Change(ShardRig* rig) override {
    rig->settings.held_bytes_max = 3 * kChunkElements * sizeof(float) * 3 / 2;
  }
};

TEST_F(HeldValuesRoomTest, PartsWithoutRoomGoAsValuesAndTheRoomIsGivenToOthers) {
  Mirror first;
  Mirror second;
  Pull(1, &first);
  Pull(2, &second);
  EXPECT_EQ(rig_.core.Stats().held_bytes, rig_.settings.held_bytes_max);
  Train(0.01F);
  Pull(1, &first);
  EXPECT_EQ(first.differences, 2) << "three parts of int8 fit into a frame";
  second.frames = second.differences = 0;
  Pull(2, &second);
  EXPECT_GT(second.differences, 0);
  EXPECT_LT(second.differences, second.frames);
  EXPECT_LE(Gap(second), 1.1 / 256);
  rig_.core.OnPeerClosed(PeerOf(0), rig_.now, &rig_.sent);
  for (int i = 0; i < 2; ++i) {
    Train(0.01F);
    second.frames = second.differences = 0;
    Pull(2, &second);
  }
  EXPECT_EQ(second.differences, second.frames);
}

}  // namespace
}  // namespace ps::server
