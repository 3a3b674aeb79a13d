#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace ps::psctl {

/// Where the program's text goes.
struct Console {
  std::function<void(std::string_view)> out;  // results
  std::function<void(std::string_view)> err;  // progress, errors
  size_t out_width = 0;                       // columns of stdout; 0: no terminal
  bool is_err_terminal = false;
  std::function<size_t()> err_width;  // columns of stderr, now
};

/// On the process's own stdout and stderr. Failed writes (a closed pipe) are dropped.
Console ProcessConsole();

}  // namespace ps::psctl
