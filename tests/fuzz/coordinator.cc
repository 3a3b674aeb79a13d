#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "ps/base/check.h"
#include "ps/base/logger.h"
#include "ps/coordinator/coordinator_core.h"
#include "tests/fuzz/targets.h"

namespace ps::fuzz {
namespace {

class NoFleet final : public proto::FleetActions {
 public:
  void StartServer(uint32_t /*server*/, LaunchId /*launch*/) override {}

  void StartWorker(
      WorkerId /*seat*/, LaunchId /*launch*/, const proto::WorkerGroup& /*group*/) override {}

  void KillWorker(WorkerId /*seat*/) override {}

  void KillServer(uint32_t /*server*/, LaunchId /*keep*/) override {}

  bool HasServer(uint32_t /*server*/) const override { return true; }
};

class NoOutbox final : public proto::Outbox {
 public:
  void Send(proto::PeerId /*to*/, uint64_t /*request_id*/, proto::Message /*message*/) override {}

  void Close(proto::PeerId /*peer*/) override {}
};

/// The job of the corpus's states.
coordinator::CoordinatorOptions Job() {
  coordinator::CoordinatorOptions options;
  options.config.name = "small";
  options.config.train.epochs = 1;
  options.config.train.minibatch = 10;
  options.config.train.lease_steps = 2;
  options.config.servers.count = 2;
  options.config.servers.chunk_kib = 1;
  options.config.workers = {{3, 0, 1, 1}};
  options.config.fleet.max_detect_s = 2.4F;
  options.config.fleet.join_timeout_s = 30;
  options.tensors = {{"w", {1000}}, {"b", {10}}};
  options.train_samples = 200;
  return options;
}

}  // namespace

void FuzzCoordinator(std::span<const uint8_t> input) {
  Result<proto::JobState> state = proto::DecodeJobState(WithStateChecksum(input));
  if (!state.ok()) {
    return;  // what job_state looks at
  }
  NoFleet fleet;
  NoOutbox out;
  TimePoint now{};
  const Result<std::unique_ptr<coordinator::CoordinatorCore>> core =
      coordinator::CoordinatorCore::Load(
          std::move(state).value(), Job(), &fleet, &NullLogger(), now);
  if (!core.ok()) {
    PS_CHECK(
        core.status().code() == StatusCode::kCorruption ||
        core.status().code() == StatusCode::kInvalidArgument)
        << core.status();
    return;
  }
  // Nobody comes back: everybody is lost in time.
  for (int i = 0; i < 20; ++i) {
    now += std::chrono::seconds(i);
    (*core)->OnTick(now, &out);
  }
  const Status sound = (*core)->Check();
  PS_CHECK(sound.ok()) << sound;
  const std::vector<std::byte> saved = proto::EncodeJobState((*core)->StateAt(now));
  const Result<proto::JobState> again = proto::DecodeJobState(saved);
  PS_CHECK(again.ok()) << again.status();
}

}  // namespace ps::fuzz
