#pragma once

#include <cstdint>
#include <string>

#include "ps/coordinator/state/job.h"

namespace ps::coordinator {

/// Servers that are silent or gone: whether they can come back, and that they do.
///
/// A lost server comes back or the run ends: every wait for it has a limit, to be heard, to
/// register, to be set up, and it is started again so often and no more. The first time that is at
/// once; then what ends it may pass, so the starts wait (StartPace), some two minutes in all.
/// Whatever runs of it still is killed before the next process is started.
class ServerWatch {
 public:
  explicit ServerWatch(Job* job) : job_(job) {}

  /// Starts whose time has come, and looks for who is silent. Errors: a shard is silent for too
  /// long, and can't be brought back.
  Status OnTick(const Call& call);
  /// A server is gone: it is started again, unless its successor is, and comes back from the newest
  /// checkpoint, alone or with all others (CheckpointsState::is_going_back). Errors: why that is
  /// not possible.
  Status OnServerLost(uint32_t server, const std::string& why, const Call& call);

  /// Training has begun, there are checkpoints, and the server has not been lost too often.
  bool CanComeBack(uint32_t server) const {
    return job_->training_began && WhyNotBack(server).empty();
  }

 private:
  Status CheckSilence(const Call& call);
  Duration SetUpLimit(const Shard& shard) const;
  Status OnSilence(const Shard& shard, const Call& call);
  Status LostForGood(uint32_t server, const std::string& why) const;
  std::string WhyNotBack(uint32_t server) const;
  bool MayStartAgain(uint32_t server) const;
  Status StartAgain(uint32_t server, const std::string& why, TimePoint now);
  std::string WhatIsLeft() const;

  Job* const job_;
};

}  // namespace ps::coordinator
