#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/server/applied_steps.h"
#include "ps/server/call.h"
#include "ps/server/chunks/chunk_store.h"
#include "ps/server/life.h"
#include "ps/server/lr_schedule.h"
#include "ps/server/pull_queue.h"
#include "ps/server/push_frame.h"
#include "ps/server/roster.h"
#include "ps/server/rounds.h"
#include "ps/server/staging.h"

namespace ps::server {

/// Pushes. A step of an incarnation comes in as frames of chunks, large ones in parts, in any
/// order, perhaps repeatedly and over several connections. A chunk is applied when all of it is
/// here (bsp: staged). The answer goes out when the last one is here, over the connection that
/// brought it.
///
/// Invariants:
/// - Nothing of a frame is taken unless all of it is valid. A chunk with NaN or infinity is left
///   out (bsp: the whole contribution is).
/// - A chunk of a step is applied (staged) at most once, whatever is repeated, lost or reordered.
/// - A step is acknowledged once all of it is here; what is left of its update is made within the
///   same event.
class PushIntake {
 public:
  /// All outlive it.
  PushIntake(
      const Life& life,
      ChunkStore& store,
      Roster& roster,
      Staging& staging,
      const Rounds& rounds,
      LrSchedule& schedule,
      AppliedSteps& steps,
      PullQueue& pulls,
      proto::ShardStats& counters);

  void OnPush(const Call& call, proto::PushRequest& push);
  void OnPeerClosed(proto::PeerId peer);
  /// Chunks have left: a step that lacked only those is complete.
  void CompleteSteps(TimePoint now, proto::Outbox* out);

  /// async, ssp: of chunks of which some parts are here.
  uint64_t unfinished_bytes() const;

 private:
  /// A chunk of which everything is here.
  struct ReadyChunk {
    size_t index = 0;
    std::span<const float> values;  // empty: in the intake's unfinished
  };

  Status Take(const Call& call, proto::PushRequest& push);
  void BeginStep(const proto::PushRequest& push, Member* member);
  void TakeFrame(const proto::PushRequest& push, Member* member);
  void Stage(
      const proto::PushRequest& push,
      Intake* intake,
      const PushFrame::Part& part,
      const std::shared_ptr<const void>& owner);
  void Assemble(
      Intake* intake,
      const PushFrame::Part& part,
      bool is_whole,
      const std::shared_ptr<const void>& owner);
  void ApplyReady(Member* member);
  void Acknowledge(const Call& call, Member* member);
  void Answer(const Call& call, const Member& member) const;
  void RepeatAnswer(const Call& call, proto::PushRequest& push, Member* member);
  void CompleteStep(const Call& call, Member* member);
  void CompleteRestored(Member* member, proto::Outbox* out);
  void Count(Step step, uint32_t samples, Member* member);

  const Life& life_;
  ChunkStore& store_;
  Roster& roster_;
  Staging& staging_;
  const Rounds& rounds_;
  LrSchedule& schedule_;
  AppliedSteps& steps_;
  PullQueue& pulls_;
  proto::ShardStats& counters_;

  PushFrame frame_;                            // in hand
  std::vector<ReadyChunk> ready_;              // with the frame in hand
  std::vector<std::span<const float>> parts_;  // scratch
};

}  // namespace ps::server
