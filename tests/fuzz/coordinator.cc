#include <chrono>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "ps/base/check.h"
#include "ps/base/logger.h"
#include "ps/coordinator/coordinator_core.h"
#include "tests/coordinator/harness.h"
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

using coordinator::Harness;
using coordinator::SmallJob;

struct SavedCoordinator {
  coordinator::CoordinatorOptions options;
  std::vector<std::byte> state;
};

/// Coordinators of small jobs at some of their moments. They are made here: states in files would
/// be of another version before long, and all that is made of them refused at the first look.
std::vector<SavedCoordinator> SavedCoordinators() {
  std::vector<SavedCoordinator> all;
  for (const proto::Mode mode : {proto::Mode::kAsync, proto::Mode::kBsp}) {
    Harness harness(SmallJob(mode));
    const auto save = [&] {
      all.push_back({harness.options, proto::EncodeJobState(harness.core->StateAt(harness.now))});
    };
    save();
    std::vector<coordinator::FakeWorker> workers = harness.StartWithWorkers();
    save();
    const std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
    save();
    harness.Work(&workers[0], grants[0]);
    harness.Wait(harness.timing.detect + harness.timing.heartbeat, {workers[0], workers[1]});
    save();
  }
  return all;
}

}  // namespace

/// The first byte says which one, each three after it what a byte of its state becomes.
bool FuzzCoordinator(std::span<const uint8_t> input) {
  static const std::vector<SavedCoordinator> all = SavedCoordinators();
  if (input.empty()) {
    return false;
  }
  const SavedCoordinator& one = all[input[0] % all.size()];
  std::vector<uint8_t> bytes(one.state.size());
  std::memcpy(bytes.data(), one.state.data(), one.state.size());
  for (size_t i = 1; i + 2 < input.size(); i += 3) {
    bytes[(input[i] + 256U * input[i + 1]) % bytes.size()] = input[i + 2];
  }
  Result<proto::JobState> state = proto::DecodeJobState(WithStateChecksum(bytes));
  if (!state.ok()) {
    return false;  // what job_state looks at
  }
  NoFleet fleet;
  NoOutbox out;
  TimePoint now{};
  const Result<std::unique_ptr<coordinator::CoordinatorCore>> core =
      coordinator::CoordinatorCore::Load(
          std::move(state).value(), one.options, &fleet, &NullLogger(), now);
  if (!core.ok()) {
    PS_CHECK(
        core.status().code() == StatusCode::kCorruption ||
        core.status().code() == StatusCode::kInvalidArgument)
        << core.status();
    return false;
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
  return true;
}

}  // namespace ps::fuzz
