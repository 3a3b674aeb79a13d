#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/tensor_spec.h"
#include "ps/base/time.h"
#include "ps/proto/job_config.h"
#include "tests/sim/network.h"

namespace ps::sim {

inline constexpr Duration kSimulatedMaxDetect = std::chrono::milliseconds(1200);
inline constexpr uint32_t kSimulatedFrameKib = 1;

/// What Outcome.log is to have.
enum class LogDetail : uint8_t { kNone, kEvents, kMessages };

/// What a simulated run is and what happens to it. Everything follows from the seed.
struct Scenario {
  uint64_t seed = 1;
  proto::Mode mode = proto::Mode::kAsync;
  uint32_t staleness_max = 2;
  bool overlap = true;
  uint32_t shards = 2;
  uint32_t workers = 3;
  uint32_t epochs = 2;
  uint64_t train_samples = 240;
  uint32_t chunk_kib = 1;  // more than a frame travels in parts
  NetworkFaults network;
  uint32_t kills = 0;             // without notice, at random times
  uint32_t kills_at_message = 0;  // in the act of sending or receiving a random message
  uint32_t multi_kills = 0;       // instants at which a random number of workers dies together
  uint32_t notices = 0;
  uint32_t partitions = 0;  // between random nodes, shorter or longer than max_detect
  uint32_t hangs = 0;       // a worker is cut off from everybody, then comes back
  Duration disturbed_for = std::chrono::seconds(4);  // all of the above happen within
  LogDetail log_detail = LogDetail::kEvents;
  Duration time_limit = std::chrono::seconds(600);  // virtual
};

/// One line that repeats a run.
std::string Describe(const Scenario& scenario);

/// A scenario drawn from the seed: any mode, any mix of faults.
Scenario RandomScenario(uint64_t seed);

/// The job that a scenario trains: small integer values.
proto::JobConfig SimulatedJob(const Scenario& scenario);
/// Its model.
std::vector<TensorSpec> SimulatedTensors();

}  // namespace ps::sim
