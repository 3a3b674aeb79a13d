#pragma once

#include <map>
#include <string>
#include <vector>

#include "ps/coordinator/checkpoints/best_desk.h"
#include "ps/coordinator/checkpoints/checkpoint_desk.h"
#include "ps/coordinator/state/job.h"
#include "ps/coordinator/workers/lease_desk.h"

namespace ps::coordinator {

/// What a person may want to know: the job's state in one structure. Changes nothing.
class StatusReport {
 public:
  StatusReport(
      const Job* job,
      const LeaseDesk* leases,
      const CheckpointDesk* checkpoints,
      const BestDesk* best)
      : job_(job), leases_(leases), checkpoints_(checkpoints), best_(best) {}

  /// Everything. Cost: members x shards.
  proto::JobStatus At(TimePoint now) const;
  /// Without workers, shards and waits. Cost: epochs, and members with figures.
  proto::JobStatus TotalsAt(TimePoint now) const;

 private:
  /// What the shards say of a worker, of each figure the highest.
  struct AtShards {
    uint64_t clock = 0;
    float staleness = 0;
  };

  using Shown = std::map<Incarnation, AtShards>;

  const Shard* SilentShard(TimePoint now) const;
  proto::RunState StateNow(TimePoint now) const;
  std::string Detail(TimePoint now) const;
  proto::WorkerRow RowOf(const MemberRecord& member, const Shown& at_shards) const;
  void AddWorkerRows(TimePoint now, proto::JobStatus* status) const;
  std::vector<proto::Figure> Figures() const;
  void AddShardRows(proto::JobStatus* status) const;
  std::string Failures() const;
  std::string NextStart(TimePoint now) const;
  std::string GoingBack() const;
  std::string WhoSitsOut(TimePoint now) const;
  std::string Pause() const;
  std::string Finishing() const;
  std::string PauseCheckpoint() const;

  const Job* const job_;
  const LeaseDesk* const leases_;
  const CheckpointDesk* const checkpoints_;
  const BestDesk* const best_;
};

}  // namespace ps::coordinator
