#pragma once

#include <string>
#include <vector>

#include "ps/coordinator/state/job.h"
#include "ps/coordinator/workers/lease_desk.h"

namespace ps::coordinator {

/// "w3", "shard 1".
std::string Name(WorkerId seat);
std::string Name(ShardId shard);

/// "w1, w2 and 4,000 more": a text of a frame has a limit, and a reader has one, too.
class NameList {
 public:
  void Add(const std::string& name);

  bool empty() const { return count_ == 0; }

  std::string text() const;

 private:
  static constexpr size_t kShownMax = 32;

  std::string text_;
  size_t count_ = 0;
};

/// Who waits for whom, since when. Changes nothing.
class WaitReport {
 public:
  WaitReport(const Job* job, const LeaseDesk* leases) : job_(job), leases_(leases) {}

  /// The coordinator's own waits first, then those of workers and shards. Cost: members x shards.
  std::vector<proto::Wait> At(TimePoint now) const;

 private:
  void AddOwnWaits(TimePoint now, std::vector<proto::Wait>* waits) const;
  void AddMemberWaits(TimePoint now, std::vector<proto::Wait>* waits) const;
  void AddLeaseWait(
      const Member& member,
      const std::string& working,
      TimePoint now,
      std::vector<proto::Wait>* waits) const;
  std::string WhoIsWorking() const;
  std::string ShardsBehind(Generation generation) const;

  const Job* const job_;
  const LeaseDesk* const leases_;
};

}  // namespace ps::coordinator
