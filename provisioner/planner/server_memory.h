#pragma once

#include <limits>

#include "provisioner/model/memory_need.h"

namespace ps::provisioner {

/// Main memory of a server host, and what a job's servers take of it. Limits nothing by default.
struct ServerMemory {
  double room_bytes = std::numeric_limits<double>::infinity();  // of a host, for its server
  ServerNeed need = {};

  /// What each of so many hosts takes, for so many workers.
  double BytesOf(int workers, int hosts) const;

  /// Most workers that so many hosts have memory for. 0: they do not hold the job. Never falls with
  /// `hosts`.
  int WorkersMax(int hosts) const;
};

}  // namespace ps::provisioner
