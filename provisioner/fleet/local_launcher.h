#pragma once

#include <memory>

#include "provisioner/fleet/launcher.h"

namespace ps::provisioner {

/// Processes on this machine. Each child
///  - leads a process group of its own, so that Ctrl-C on the terminal reaches psctl alone,
///  - dies when the thread that started it dies (PR_SET_PDEATHSIG), unless LaunchSpec::note says
///    that somebody else goes on with it,
///  - inherits no variable with a secret in it, unless LaunchSpec says so (environment.h),
///  - inherits no descriptor but stdin (/dev/null), stdout and stderr (the log file),
///  - starts with default signal actions and nothing blocked.
/// Destroying the launcher kills what still runs, adopted or not, and waits until it is gone.
std::unique_ptr<Launcher> MakeLocalLauncher();

}  // namespace ps::provisioner
