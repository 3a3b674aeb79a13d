#pragma once

#include <csignal>
#include <functional>
#include <string>

#include "ps/base/status.h"
#include "ps/base/unique_fd.h"
#include "run/directory/files.h"
#include "run/directory/run_directory.h"
#include "run/report/console.h"
#include "run/shared_state.h"

namespace ps::run {

/// Tells the process of a coordinator that its supervisor was killed.
inline constexpr int kSupervisorLost = SIGUSR1;

/// What the process of a coordinator tells the one that watches over it.
class SupervisorLink {
 public:
  /// `socket` of Supervise; none: nobody watches.
  explicit SupervisorLink(
      UniqueFd socket = UniqueFd(), bool is_detached = false, SharedState* shared = nullptr)
      : socket_(std::move(socket)), is_detached_(is_detached), shared_(shared) {}

  /// The run listens, and another process could go on with it from now on: the supervisor shares
  /// the directory's lock. A detached run leaves the terminal for its log. Errors: kIo.
  Status TellRun(const RunDirectory& directory);

  /// What the supervisor knows of this process when it is killed. Null: nobody watches.
  SharedState* shared() const { return shared_; }

 private:
  UniqueFd socket_;
  bool is_detached_;
  SharedState* shared_;
};

/// A run that the supervisor knows of.
struct SupervisedRun {
  RunPaths paths;
  FileLock lock;
  bool is_journal_behind = false;  // as its last coordinator has said
};

/// What a coordinator's process does. Each returns the exit code.
struct CoordinatorProcess {
  /// The first one, from the beginning.
  std::function<int(const Console& console, SupervisorLink* link)> begin;
  /// One that goes on with the run of another that was killed. Requests to stop are blocked until
  /// it takes them (AcceptStopSignals); one that its predecessor had got comes again.
  std::function<int(SupervisedRun run, const Console& console, SupervisorLink* link)> go_on;
};

/// The coordinator's process handles SIGINT, SIGTERM and SIGHUP from now on.
void AcceptStopSignals();

/// Has a process of its own coordinate the run, and starts another one when it is killed, so that
/// the run goes on. Ctrl-C and other requests to stop are handed on; when this process is killed,
/// the run ends cleanly. SIGHUP and SIGINT that are ignored now, as after `nohup`, end nothing.
/// Detached: returns as soon as the run listens, and the run needs neither the terminal nor its
/// supervisor. Returns the exit code, in the coordinator's process too. Requires: this process has
/// one thread.
int Supervise(const CoordinatorProcess& process, bool is_detached, const Console& console);

}  // namespace ps::run
