#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ps/coordinator/state/call.h"
#include "ps/coordinator/state/job_state.h"
#include "ps/coordinator/state/shard_table.h"
#include "ps/proto/chunks.h"

namespace ps::coordinator {

/// Gives shards the initial values that the job has in a file, chunk by chunk as fast as each takes
/// them: of a file that is larger than memory, one frame a shard is in memory at a time.
class InitialValues {
 public:
  /// All outlive it.
  InitialValues(
      const CoordinatorOptions& options,
      const proto::Placement& placement,
      Peers* peers,
      ShardTable* shards)
      : source_(options.model_source),
        frame_bytes_(uint64_t{options.config.servers.frame_kib} << 10),
        parts_(frame_bytes_),
        placement_(placement),
        peers_(peers),
        shards_(shards) {}

  /// A shard that is being set up asks for what it does not hold. Errors: the file can't be read
  /// (any more), and without it the job can't begin.
  Status On(const Call& call, const proto::PullRequest& message);
  /// The shard, which was backlogged, takes more. Errors: as above.
  Status OnDrained(const Call& call);

  void OnClosed(proto::PeerId peer) { answers_.erase(peer); }

 private:
  struct Answer {
    uint64_t request_id = 0;
    std::vector<uint32_t> chunks;  // by place in the placement
    size_t next = 0;               // the first of them that was not sent in full
    uint32_t next_part = 0;        // the first part of it that was not sent
  };

  Status Continue(const Call& call, Answer* answer);
  Status SendFrame(const Call& call, Answer* answer);

  ModelSource* const source_;  // null: the job has none
  const uint64_t frame_bytes_;
  const proto::ChunkParts parts_;
  const proto::Placement& placement_;
  Peers* const peers_;
  ShardTable* const shards_;
  std::map<proto::PeerId, Answer> answers_;  // not sent in full
};

}  // namespace ps::coordinator
