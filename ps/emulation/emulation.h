#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ps/base/time.h"
#include "ps/emulation/device.h"
#include "ps/emulation/link.h"
#include "ps/proto/job/job_config.h"

namespace ps::emulation {

/// What a process is told to look like when it starts. By default nothing.
struct Emulation {
  double link_bytes_per_s = 0;  // each way; 0: as fast as it goes
  Duration step_least{};        // of a training step
};

Emulation OfWorker(const proto::WorkerGroup& group);
Emulation OfServer(const proto::ServerConfig& servers);

// The flags of ps_worker and ps_server that carry it.
inline constexpr char kLinkFlag[] = "--emulate-link-bytes-per-s";
inline constexpr char kStepFlag[] = "--emulate-step-us";

/// Flags and their values; empty when nothing is emulated.
std::vector<std::string> ArgumentsOf(const Emulation& emulation);

/// Nothing unless the rate is above 0.
std::optional<Link> MakeLink(double bytes_per_s);
/// Nothing unless it is slower than this machine.
std::optional<Device> MakeDevice(double slowdown, Duration step_least);

}  // namespace ps::emulation
