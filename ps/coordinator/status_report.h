#pragma once

#include <map>
#include <string>

#include "ps/coordinator/checkpoint_desk.h"
#include "ps/coordinator/job.h"
#include "ps/coordinator/lease_desk.h"

namespace ps::coordinator {

/// What a person may want to know: the job's state in one structure. Changes nothing.
class StatusReport {
 public:
  StatusReport(const Job* job, const LeaseDesk* leases, const CheckpointDesk* checkpoints)
      : job_(job), leases_(leases), checkpoints_(checkpoints) {}

  /// Everything. Cost: members x shards.
  proto::JobStatus At(TimePoint now) const;
  /// Without workers, shards and waits. Cost: epochs.
  proto::JobStatus TotalsAt(TimePoint now) const;

 private:
  using Clocks = std::map<Incarnation, uint64_t>;

  const Shard* SilentShard(TimePoint now) const;
  std::string StateName(TimePoint now) const;
  std::string Detail(TimePoint now) const;
  proto::WorkerRow RowOf(const MemberRecord& member, const Clocks& clocks) const;
  void AddWorkerRows(TimePoint now, proto::JobStatus* status) const;
  void AddShardRows(proto::JobStatus* status) const;
  std::string Failures() const;
  std::string NextStart(TimePoint now) const;
  std::string GoingBack() const;
  std::string Pause() const;
  std::string PauseCheckpoint() const;

  const Job* const job_;
  const LeaseDesk* const leases_;
  const CheckpointDesk* const checkpoints_;
};

}  // namespace ps::coordinator
