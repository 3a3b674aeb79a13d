#include "ps/emulation/emulation.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace ps::emulation {
namespace {

double BytesPerSecond(double mbit_per_s) {
  return mbit_per_s > 0 ? std::max(1.0, mbit_per_s * 1e6 / 8) : 0;
}

}  // namespace

Emulation OfWorker(const proto::WorkerGroup& group) {
  return {BytesPerSecond(group.link_mbit_per_s), FromSeconds(double{group.step_ms} / 1000)};
}

Emulation OfServer(const proto::ServerConfig& servers) {
  return {BytesPerSecond(servers.link_mbit_per_s), Duration()};
}

std::vector<std::string> ArgumentsOf(const Emulation& emulation) {
  std::vector<std::string> arguments;
  if (emulation.step_least > Duration::zero()) {
    const auto micros = std::chrono::round<std::chrono::microseconds>(emulation.step_least).count();
    arguments.insert(arguments.end(), {kStepFlag, std::to_string(micros)});
  }
  if (emulation.link_bytes_per_s > 0) {
    arguments.insert(
        arguments.end(), {kLinkFlag, std::to_string(std::llround(emulation.link_bytes_per_s))});
  }
  return arguments;
}

std::optional<Link> MakeLink(double bytes_per_s) {
  return bytes_per_s > 0 ? std::optional<Link>(bytes_per_s) : std::nullopt;
}

std::optional<Device> MakeDevice(double slowdown, Duration step_least) {
  return slowdown > 1 || step_least > Duration::zero()
             ? std::optional<Device>(std::in_place, slowdown, step_least)
             : std::nullopt;
}

}  // namespace ps::emulation
