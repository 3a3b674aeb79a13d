#pragma once

namespace ps {

/// From now on exit() and the end of main end this process at once, with their status: what was
/// written to stdout and stderr is flushed, and nothing else is waited for. For a process with a
/// thread that may never come back from the disk: what runs after main waits for the threads of
/// libraries, and takes away what that thread may still use.
void EndWithoutCleanup();

}  // namespace ps
