#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "ps/base/status.h"

namespace ps::run {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitMisused = 2;

/// Where the program's text goes.
struct Console {
  std::function<void(std::string_view)> out;  // results
  std::function<Status()> out_status;         // of what was written to `out` so far
  std::function<void(std::string_view)> err;  // progress, errors
  size_t out_width = 0;                       // columns of stdout; 0: no terminal
  bool is_err_terminal = false;
  bool is_joined = false;             // both go to one terminal or file
  std::function<size_t()> err_width;  // columns of stderr, now
  // A line that was typed, without its end; empty at the end of input. Null: nobody can be asked.
  std::function<std::string()> read_line;
};

/// Says on stderr what went wrong. Returns kExitFailed.
int Fail(const Console& console, const Status& status);

/// The same about what the user typed, the files that were named included. Returns kExitMisused.
int Misuse(const Console& console, const Status& status);

/// On the process's own stdout and stderr. What a closed pipe or stderr does not take is dropped.
Console ProcessConsole();

}  // namespace ps::run
