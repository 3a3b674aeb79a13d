#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/proto/fleet_actions.h"
#include "ps/proto/state/launch_journal.h"

namespace ps::provisioner {

/// One process of a job, wherever it is to run.
struct LaunchSpec {
  proto::ProcessKind kind = proto::ProcessKind::kWorker;
  uint32_t index = 0;                  // server number or worker seat
  LaunchId launch;                     // of this start
  std::string program;                 // path of the executable, or a name to look for in PATH
  std::vector<std::string> arguments;  // without the program's own name
  std::string log_path;                // stdout and stderr are appended here
  bool gets_credentials = false;       // of this process's environment: see environment.h
  /// Given: the process outlives the one that starts it, for a successor to adopt. It is called
  /// from Start, before the program runs: a process that was not noted never runs. None: the
  /// process dies with the thread that starts it.
  std::function<void(const proto::LaunchRecord&)> note;
};

/// Grows with every start of one launcher, never reused; 0 means none.
using ProcessHandle = Id<struct ProcessHandleTag, uint64_t>;

struct ProcessExit {
  ProcessHandle handle;
  proto::ProcessKind kind = proto::ProcessKind::kWorker;
  uint32_t index = 0;
  bool is_clean = false;    // exited with code 0
  bool is_failure = false;  // exited with another code, or by a fault such as SIGSEGV
  std::string description;  // "exited with code 1", "killed by signal 9 (Killed)"
  int code = -1;            // -1: it did not exit by itself, or nobody knows
  bool has_run = true;      // false: its program could not be run here, which is a failure
};

/// Starts and ends the processes of a job: on this machine, or later on a batch system or a cloud.
/// Every process that Start or Adopt returned a handle for is reported by PollExits exactly once.
/// Thread: one, the same for every call; for local processes it has to outlive them.
class Launcher {
 public:
  virtual ~Launcher() = default;
  /// Does not wait for the program to run: that it can't be run is told by PollExits, like an end.
  /// Errors: kIo (no process, no log file).
  virtual Result<ProcessHandle> Start(const LaunchSpec& spec) = 0;
  /// Takes over a process that another launcher has started and noted. How it ends can't be known.
  /// Errors: kNotFound (it is over), kIo.
  virtual Result<ProcessHandle> Adopt(const proto::LaunchRecord& launch) = 0;
  /// Ends it at once (SIGKILL). Errors: kNotFound (it is gone).
  virtual Status Kill(ProcessHandle handle) = 0;
  /// The processes that have ended since the last call. Never blocks.
  virtual std::vector<ProcessExit> PollExits() = 0;
  /// 0 for launchers whose processes have no number on this machine, or when it is gone.
  virtual int64_t pid(ProcessHandle handle) const = 0;
};

}  // namespace ps::provisioner
