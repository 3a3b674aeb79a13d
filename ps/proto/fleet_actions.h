#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ps/base/ids.h"
#include "ps/proto/job/job_config.h"

namespace ps::proto {

/// What the coordinator asks of the owner of the job's processes: a fleet with a launcher, or the
/// simulation. The coordinator's core calls it and must not be called back before the call returns.
/// A failure to start is told later, like any other end, as a ProcessEnd.
class FleetActions {
 public:
  virtual ~FleetActions() = default;
  /// Start server process `server` of 0 .. servers.count - 1 as `launch`; it hosts the shards
  /// server * shards_per_server and following. Earlier processes of it are left alone: one that is
  /// frozen has the lock of its store, its port and its slot, so whoever starts another one in its
  /// place kills it first.
  virtual void StartServer(uint32_t server, LaunchId launch) = 0;
  /// Start a worker that asks for `seat`, as `launch`. `group.count` is 1, `group.minibatch` is
  /// resolved, and `group.zones` has the zone to start it in, or none: the one without a name. A
  /// process that still runs in the seat is killed first.
  virtual void StartWorker(WorkerId seat, LaunchId launch, const WorkerGroup& group) = 0;
  /// Kill the process in `seat` at once. Nothing happens when there is none.
  virtual void KillWorker(WorkerId seat) = 0;
  /// Kill the processes of the server that it has started, at once, but for the launch `keep`
  /// (none: all). Nothing happens when there are none. One that can't die, in the kernel or on a
  /// machine that nobody reaches, is not waited for.
  virtual void KillServer(uint32_t server, LaunchId keep) = 0;
  /// Whether a process of the server that it has started, or adopted, is there.
  virtual bool HasServer(uint32_t server) const = 0;

  /// Where the machine of the process in `seat` is; empty: not known, or there is none.
  virtual std::string ZoneOf(WorkerId /*seat*/) const { return ""; }
};

enum class ProcessKind : uint8_t { kServer, kWorker };

/// "server" or "worker".
constexpr std::string_view ProcessKindName(ProcessKind kind) {
  return kind == ProcessKind::kServer ? "server" : "worker";
}

/// A process that FleetActions started has ended, or could not be started.
struct ProcessEnd {
  ProcessKind kind = ProcessKind::kWorker;
  uint32_t index = 0;       // server number or worker seat
  LaunchId launch;          // which of its processes
  std::string description;  // "killed by signal 9 (Killed)", "exited with code 1"
  // It ended by itself with an error, or could not be started: another one would do the same.
  bool is_failure = false;
  std::string last_words;  // of one that ended by itself or found no place: its log's last line
  // Its host or zone could not start it, or has lost it: another place may do better.
  bool is_place = false;
  bool is_clean = false;  // it exited with code 0
};

}  // namespace ps::proto
