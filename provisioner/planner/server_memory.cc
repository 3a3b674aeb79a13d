#include "provisioner/planner/server_memory.h"

#include <algorithm>
#include <cmath>

namespace ps::provisioner {
namespace {

constexpr double kWorkersMost = std::numeric_limits<int>::max();

/// How many times `each` there is room for.
double TimesIn(double room, double each) {
  if (room < 0) {
    return 0;
  }
  return each > 0 ? std::floor(room / each) : kWorkersMost;
}

}  // namespace

double ServerMemory::BytesOf(int workers, int hosts) const {
  return need.host_bytes + (need.shared_bytes + workers * need.worker_bytes) / hosts +
         std::min(workers * need.held_bytes / hosts, need.held_bytes_max);
}

int ServerMemory::WorkersMax(int hosts) const {
  const double left = room_bytes - need.host_bytes - need.shared_bytes / hosts;
  const double waiting = need.worker_bytes / hosts;
  const double held = need.held_bytes / hosts;
  // What workers hold grows with each of them, or is at its most.
  const double workers =
      std::max(TimesIn(left, waiting + held), TimesIn(left - need.held_bytes_max, waiting));
  return static_cast<int>(std::min(workers, kWorkersMost));
}

}  // namespace ps::provisioner
