#include "tests/sim/scenario.h"

#include <sstream>

#include "ps/base/random.h"

namespace ps::sim {
namespace {

constexpr uint32_t kMinibatches[] = {4, 6, 3, 8};

}  // namespace

std::vector<TensorSpec> SimulatedTensors() {
  // In KiB: not quite three, more than one, and less than one.
  TensorSpec a{"a", {700}, InitKind::kConstant, 5};
  TensorSpec b{"b", {10, 30}, InitKind::kConstant, -2};
  TensorSpec c{"c", {7}, InitKind::kConstant, 0};
  return {a, b, c};
}

proto::JobConfig SimulatedJob(const Scenario& scenario) {
  proto::JobConfig config;
  config.name = "simulation";
  config.model.name = "mlp";
  config.data.directory = ".";
  config.optimizer.kind = proto::OptimizerKind::kSgd;
  config.optimizer.lr = 1;
  config.train.epochs = scenario.epochs;
  config.train.seed = scenario.seed;
  config.train.mode = scenario.mode;
  config.train.staleness_max = scenario.staleness_max;
  config.train.minibatch = 1;  // so that a push weighs its samples, and sums stay exact
  config.train.lease_steps = 3;
  config.train.overlap = scenario.overlap;
  config.servers.count = scenario.shards;
  config.servers.chunk_kib = scenario.chunk_kib;
  config.servers.frame_kib = kSimulatedFrameKib;
  config.fleet.max_detect_s = static_cast<float>(Seconds(kSimulatedMaxDetect));
  for (uint32_t i = 0; i < scenario.workers; ++i) {
    config.workers.push_back({1, kMinibatches[i % std::size(kMinibatches)], 1, 1});
  }
  return config;
}

Scenario RandomScenario(uint64_t seed) {
  Random random(seed ^ 0x5ca1ab1e);
  Scenario s;
  s.seed = seed;
  s.mode = static_cast<proto::Mode>(random.Below(3));
  s.staleness_max = static_cast<uint32_t>(random.Below(4));
  s.overlap = random.Chance(0.5);
  s.shards = 1 + static_cast<uint32_t>(random.Below(3));
  s.workers = 1 + static_cast<uint32_t>(random.Below(5));
  s.epochs = 1 + static_cast<uint32_t>(random.Below(2));
  s.train_samples = 100 + random.Below(500);
  s.chunk_kib = 1 + static_cast<uint32_t>(random.Below(3));
  if (random.Chance(0.6)) {
    s.network.loss = random.Unit() * 0.03;
    s.network.duplication = random.Unit() * 0.1;
    s.network.reorder = random.Unit() * 0.3;
    s.network.stall = random.Unit() * 0.05;
    s.network.stall_max = std::chrono::milliseconds(250);
  }
  if (random.Chance(0.4)) {
    s.network.break_connection = random.Unit() * 0.01;
  }
  const auto some = [&random](double chance, uint64_t most) {
    return random.Chance(chance) ? 1 + static_cast<uint32_t>(random.Below(most)) : 0;
  };
  // Most jobs take one to five virtual seconds undisturbed; faults fall into their first part.
  s.disturbed_for = std::chrono::milliseconds(300 + random.Below(3000));
  s.kills = some(0.5, 4);
  s.kills_at_message = some(0.5, 4);
  s.multi_kills = some(0.3, 2);
  s.notices = some(0.4, 3);
  s.partitions = some(0.3, 3);
  s.hangs = some(0.3, 2);
  return s;
}

std::string Describe(const Scenario& s) {
  std::ostringstream text;
  constexpr const char* kModes[] = {"async", "ssp", "bsp"};
  text << "seed=" << s.seed << " mode=" << kModes[static_cast<int>(s.mode)]
       << " staleness_max=" << s.staleness_max << " overlap=" << s.overlap << " shards=" << s.shards
       << " workers=" << s.workers << " epochs=" << s.epochs << " samples=" << s.train_samples
       << " chunk_kib=" << s.chunk_kib << " kills=" << s.kills
       << " kills_at_message=" << s.kills_at_message << " multi_kills=" << s.multi_kills
       << " notices=" << s.notices << " partitions=" << s.partitions << " hangs=" << s.hangs
       << " loss=" << s.network.loss << " reorder=" << s.network.reorder
       << " breaks=" << s.network.break_connection;
  return text.str();
}

}  // namespace ps::sim
