#include "provisioner/model/memory_need.h"

namespace ps::provisioner {
namespace {

// A server's process, with the write buffers of its checkpoints' storage (four of 32 MiB).
constexpr double kServerProcessBytes = 256.0 * 1024 * 1024;

// Whatever computes a gradient has the parameters and room for the gradient, in f32.
constexpr double kCopiesLeast = 2;

}  // namespace

WorkerNeed WorkerNeedOf(
    const proto::JobProfile& profile, const proto::WorkerProfile& worker, bool has_devices) {
  const double least = kCopiesLeast * profile.parameter_bytes;
  WorkerNeed need;
  need.is_all = worker.host_bytes > 0 && (!has_devices || worker.device_bytes > 0);
  need.host_bytes = worker.host_bytes > 0 ? worker.host_bytes : least;
  if (has_devices) {
    need.device_bytes = worker.device_bytes > 0 ? worker.device_bytes : least;
  }
  return need;
}

ServerNeed ServerNeedOf(const proto::JobProfile& profile, double held_bytes_max) {
  ServerNeed need;
  need.is_all = profile.server_bytes > 0;
  need.shared_bytes = need.is_all ? profile.server_bytes : profile.parameter_bytes;
  need.worker_bytes = profile.server_bytes_per_worker;
  need.held_bytes = held_bytes_max > 0 ? profile.parameter_bytes : 0;
  need.held_bytes_max = held_bytes_max;
  need.host_bytes = kServerProcessBytes;
  return need;
}

}  // namespace ps::provisioner
