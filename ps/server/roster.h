#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/codec/encoding.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/server/staging.h"

namespace ps::server {

/// A worker's, or the coordinator's, question for values.
struct Pull {
  proto::PeerId peer;
  uint64_t request_id = 0;
  uint64_t min_round = 0;
  bool is_evaluation = false;
  std::vector<proto::ChunkVersion> held;
  uint64_t held_life = 0;
  codec::Encoding encoding;  // of the answer
  TimePoint since{};         // when it began to wait
  Generation generation;     // and by which membership

  static Pull Of(
      proto::PeerId peer,
      uint64_t request_id,
      std::vector<proto::ChunkVersion> held,
      uint64_t held_life) {
    Pull pull;
    pull.peer = peer;
    pull.request_id = request_id;
    pull.held = std::move(held);
    pull.held_life = held_life;
    return pull;
  }
};

/// The step that is coming in from one incarnation: what of its chunks is here.
struct Intake {
  Step step = 0;       // 0: none begun
  proto::PeerId peer;  // that the newest frame came from; none: its connection is gone
  uint64_t request_id = 0;
  LeaseId lease;
  uint64_t round = 0;
  uint32_t samples = 0;
  uint32_t chunk_count = 0;
  uint32_t local_steps = 1;          // as PushRequest has them
  float lr = 0;                      // of the whole step, fixed when its first chunk came
  std::vector<bool> has_come;        // by part of all chunks
  std::vector<uint32_t> parts_left;  // by chunk
  std::vector<bool> is_rejected;     // by chunk
  uint32_t begun_count = 0;          // chunks of which something is here
  uint32_t complete_count = 0;       // and all
  uint32_t rejected_count = 0;
  bool is_void = false;  // bsp: a chunk was not finite; it may have left since
  // async, ssp: the parts that are here of chunks that are not whole yet, by chunk.
  std::map<size_t, std::vector<StagedPart>> unfinished;
  std::optional<Pull> fused;  // to be answered when the step is complete
};

/// One incarnation that takes part. What a shard remembers of its steps is bounded by members times
/// chunks: steps come in order, hence the last complete one and the one under way say which chunks
/// of which steps were applied.
struct Member {
  WorkerId worker;
  Incarnation incarnation;
  bool is_active = true;
  uint64_t clock = 0;  // steps completed here, as the staleness bound counts them
  Step last_step = 0;  // complete here
  // The newest step that `clock` counts. A chunk that comes may lack it: then that step is under
  // way again, and is not counted twice.
  Step counted_step = 0;
  // async, ssp: samples of it that the schedule's clock has; 0: none, or an earlier life counted
  // it.
  uint32_t counted_samples = 0;
  // Steps after last_step may have been made in an earlier life of the shard, so the next one that
  // comes may be any later one.
  bool may_skip = false;
  proto::PushOutcome last_outcome = proto::PushOutcome::kApplied;
  uint32_t last_rejected_chunks = 0;
  uint64_t last_round = 0;
  float staleness = 0;  // as proto::WorkerAtShard
  Intake intake;
  // Chunks, by index, that already had the step after last_step when they were restored or came.
  std::vector<size_t> restored;
  uint32_t restored_samples = 0;  // of that step, if whoever gave the chunks knew

  bool is_step_under_way() const { return intake.step > last_step; }

  /// The worker has made all steps up to this one, on every shard; some perhaps in an earlier life.
  Step settled_step() const { return is_step_under_way() ? intake.step - 1 : last_step; }

  /// The step after the settled one is under way for chunks that came without it, and is counted.
  bool is_step_again() const { return counted_step > settled_step(); }
};

/// Who takes part, by the newest membership. Thread: the shard's.
class Roster {
 public:
  /// What a membership ended.
  struct Change {
    std::vector<Member> fenced;          // members that it does not list
    std::vector<Incarnation> forgotten;  // fenced, and not asked for any more
  };

  /// Takes over a newer membership; nullopt when it is not newer. `has_chunks`: the shard has some,
  /// so fenced members have steps here. Requires: the present membership is not older than its
  /// base.
  std::optional<Change> Update(const proto::Membership& later, bool has_chunks = true);

  Member* Find(Incarnation incarnation);

  /// The member, or the reason why this incarnation is not one. Errors: kUnavailable (it is newer
  /// than the membership), kStale (fenced), kInvalidArgument.
  Result<Member*> Admit(WorkerId worker, Incarnation incarnation);

  /// What the present membership asks for in `resolve`.
  std::vector<proto::MembershipAck::Resolved> Resolved() const;

  /// Sets every clock to that of the fastest. Requires: nobody has a train lease.
  void Level();

  /// A member's clock elsewhere.
  struct Clock {
    uint64_t clock = 0;
    bool is_active = false;  // there
  };

  /// For another shard: where the member is by its settled step, or would start if it became
  /// active. A step that is under way again is counted there when that shard has it.
  Clock ClockOf(const Member& member) const {
    const Step again = member.counted_step - std::min(member.counted_step, member.settled_step());
    const uint64_t clock = member.clock - std::min(member.clock, again);
    return {member.is_active ? clock : std::max(clock, floor_), member.is_active};
  }

  /// Each member goes on with its clock elsewhere (ClockOf). A member that is active here and not
  /// there starts level with the slowest one that is active in both places, or, when there is none,
  /// with the slowest of all. Requires: there are no chunks here whose steps were counted.
  void SetClocks(const std::map<Incarnation, Clock>& clocks);

  /// The member has completed one more step. Returns whether the clock of the slowest active member
  /// has grown.
  bool Advance(Member* member);

  /// How many steps the member is ahead of the slowest active one, at least 0. While nobody is
  /// active: ahead of where the slowest was, since the next one to become active may start there.
  uint64_t LeadOf(const Member& member) const;

  std::map<Incarnation, Member>& members() { return members_; }

  const std::map<Incarnation, Member>& members() const { return members_; }

  Generation generation() const { return generation_; }

 private:
  /// The whole membership that results from `later`, which may name only what changes.
  proto::Membership Merge(const proto::Membership& later) const;
  /// The clock of the slowest active member; nullopt when nobody is active.
  std::optional<uint64_t> SlowestActive() const;
  void LevelClocks(const std::vector<Incarnation>& were_active);
  void CountClocks();

  Generation generation_;
  // ssp: the clock of the slowest active member at the newest membership. It never goes back, even
  // while nobody is active, so no membership makes a lead longer. A shard without chunks that gets
  // some takes it from their clocks.
  uint64_t floor_ = 0;
  Incarnation incarnation_max_;
  std::map<Incarnation, Member> members_;
  std::map<uint64_t, uint32_t> active_clocks_;  // how many active members are at each clock
  std::vector<Incarnation> resolve_;
  // Fenced ones that are still asked for; their answers can't change any more.
  std::map<Incarnation, proto::MembershipAck::Resolved> fenced_;
};

}  // namespace ps::server
