#pragma once

#include <cstdint>

#include "ps/base/ids.h"
#include "ps/client/worker_host.h"

namespace ps::client {

/// A worker's membership, and what is constant in it. WorkerCore alone writes it.
struct Session {
  uint64_t number = 0;  // marks arithmetic: what was begun in an earlier session is void
  WorkerId worker;
  Incarnation incarnation;  // none: no member
  Generation generation;
  uint32_t minibatch = 1;
  WorkerSettings settings;

  bool is_member() const { return incarnation != Incarnation(); }

  /// Whether a step is computed while the one before it travels.
  bool is_overlapping(proto::Mode mode) const {
    return settings.overlap && mode == proto::Mode::kAsync;
  }
};

}  // namespace ps::client
