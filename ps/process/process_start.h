#pragma once

#include <vector>

namespace ps {

// What a process takes over from whoever starts it, and must not break.

/// Opens on /dev/null each of stdin, stdout and stderr that is closed. The first statement of every
/// main of ours: without it the next file that is opened gets the free number, and what is written
/// to stdout or stderr lands in that file. Requires: no other thread, no file opened so far.
void OpenStandardStreams();

/// Those of `signals` that this process is to handle: all but SIGHUP and SIGINT where they are
/// ignored now. `nohup` and a shell's `&` start programs so, and what was ignored at the start
/// stays ignored. Whoever handles one of the two asks here first; Loop::OnSignal does.
std::vector<int> SignalsToHandle(std::vector<int> signals);

}  // namespace ps
