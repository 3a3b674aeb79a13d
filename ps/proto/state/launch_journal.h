#pragma once

#include <cstdint>

#include "ps/base/status.h"
#include "ps/proto/fleet_actions.h"

namespace ps::proto {

/// A process that the fleet has started and that is not over, as far as is known. The pid and the
/// start time together find it on this machine: the kernel uses pids again.
struct LaunchRecord {
  ProcessKind kind = ProcessKind::kWorker;
  uint32_t index = 0;        // server number or worker seat
  LaunchId launch;           // the start, by which the job knows it
  int64_t pid = 0;           // on this machine: its own, or its agent's
  uint64_t start_ticks = 0;  // field starttime of /proc/PID/stat: clock ticks since the boot

  friend auto operator<=>(const LaunchRecord&, const LaunchRecord&) = default;
};

/// Where the fleet notes its processes, so that the fleet of a coordinator that comes back can
/// adopt them. What was noted survives a SIGKILL of this process once the call has returned. A note
/// that can't be written is counted and told by the journal; the fleet goes on.
class LaunchJournal {
 public:
  virtual ~LaunchJournal() = default;
  virtual void NoteStarted(const LaunchRecord& launch) = 0;
  /// Nothing happens when it was not noted.
  virtual void NoteEnded(const LaunchRecord& launch) = 0;
};

}  // namespace ps::proto
