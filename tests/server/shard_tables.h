#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "ps/server/applied_steps.h"
#include "ps/server/life.h"
#include "ps/server/lr_schedule.h"
#include "ps/server/pull_queue.h"
#include "ps/server/push_intake.h"
#include "ps/server/rounds.h"
#include "tests/server/shard_rig.h"

namespace ps::server {

/// The tables of a shard with three members and the chunks of ShardRig, for tests of a part by
/// itself. Every element begins at 1, and the learning rate is 1.
struct ShardTables {
  explicit ShardTables(
      proto::Mode mode, proto::ShardSetup setup = RigSetup(), ShardId shard = kShard)
      : life(shard) {
    life.is_set_up = true;
    life.number = 1;
    life.settings.optimizer.lr = 1;
    schedule.Begin(life.settings, setup.total_samples);
    store = ChunkStore::Make(shard, life.settings, setup).value();
    membership.generation = Generation(1);
    membership.mode.mode = mode;
    for (uint32_t i = 1; i <= 3; ++i) {
      membership.members.push_back({WorkerId(i - 1), Incarnation(i), true});
    }
    roster.Update(membership);
    rounds.TakeMode(membership, roster.members().size());
  }

  Call From(proto::PeerId peer, uint64_t request_id = 7) {
    return {peer, request_id, now, &sent, std::chrono::milliseconds(20)};
  }

  Member& MemberOf(uint64_t incarnation) { return *roster.Find(Incarnation(incarnation)); }

  /// A frame with every element of `chunks` equal to `gradient`.
  proto::PushRequest Frame(
      uint64_t incarnation, Step step, const std::vector<ChunkKey>& chunks, float gradient) const {
    proto::PushRequest push;
    push.worker = WorkerId(static_cast<uint32_t>(incarnation - 1));
    push.incarnation = Incarnation(incarnation);
    push.step = step;
    push.samples = 1;
    push.round = rounds.is_bsp() ? rounds.newest() + 1 : 0;
    push.chunk_count = static_cast<uint32_t>(store.size());
    push.placement = store.placement();
    size_t count = 0;
    for (const ChunkKey key : chunks) {
      const Chunk& chunk = store.chunks()[*store.IndexOf(key)];
      push.chunks.push_back({key, static_cast<uint32_t>(chunk.element_count), 0});
      count += static_cast<size_t>(chunk.element_count);
    }
    auto values = std::make_shared<Buffer>(count * sizeof(float));
    std::ranges::fill(values->floats(), gradient);
    push.payload = proto::Payload::Own(std::move(values), count * sizeof(float));
    return push;
  }

  /// Every message of one kind that was sent since the last look, in order; all others are
  /// forgotten.
  template <typename T>
  std::vector<T> Take() {
    std::vector<T> taken;
    for (SentMessages::Sent& s : std::exchange(sent.all, {})) {
      if (T* message = std::get_if<T>(&s.message)) {
        taken.push_back(std::move(*message));
      }
    }
    return taken;
  }

  float FirstOf(ChunkKey key) const { return store.ValuesOf(*store.IndexOf(key))[0]; }

  Life life;
  ChunkStore store;
  Roster roster;
  Staging staging;
  LrSchedule schedule;
  proto::ShardStats counters;
  proto::Membership membership;
  TimePoint now{std::chrono::seconds(100)};
  SentMessages sent;
  Rounds rounds{life, store, staging, schedule, counters, NullLogger()};
  AppliedSteps steps{store, roster, staging, rounds};
  PullQueue pulls{life, store, roster, rounds, counters};
  PushIntake pushes{life, store, roster, staging, rounds, schedule, steps, pulls, counters};
};

}  // namespace ps::server
