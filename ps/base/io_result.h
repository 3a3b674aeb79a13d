#pragma once

#include <cstddef>

#include "ps/base/status.h"

namespace ps {

/// What one non-blocking call did with a stream of bytes.
struct IoResult {
  size_t bytes = 0;
  bool would_block = false;
  bool is_end = false;      // receive only: the peer sends no more
  bool is_drained = false;  // receive only: nothing more is here now
  Status status;            // not OK: the connection is broken
};

}  // namespace ps
