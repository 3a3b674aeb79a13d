#include "tests/sim/scenario.h"

#include <array>
#include <cstdio>
#include <span>
#include <type_traits>
#include <utility>

#include "ps/base/random.h"

namespace ps::sim {
namespace {

constexpr uint32_t kMinibatches[] = {4, 6, 3, 8};
/// Initial values, by tensor.
constexpr float kConstants[] = {5, -2, 0, 1};
/// Of a shard, servers.queue_mib: in bsp it takes so much of gradients that wait for their round.
constexpr uint32_t kQueueKib = 1024;
/// What seeds of returns are drawn with.
constexpr uint64_t kReturns = uint64_t{0x1a} << 32U;
/// The same for the fleet that is wanted.
constexpr uint64_t kFleets = uint64_t{0x2b} << 32U;
/// The same for the servers that are wanted.
constexpr uint64_t kServerScales = uint64_t{0x3c} << 32U;
/// The same for modes that change, and for jobs that are paused.
constexpr uint64_t kModeChanges = uint64_t{0x4d} << 32U;
/// The same for what steps have.
constexpr uint64_t kSets = uint64_t{0x115} << 32U;
/// The same for changes that come together.
constexpr uint64_t kJointChanges = uint64_t{0x5e} << 32U;
/// The same for notices to servers.
constexpr uint64_t kServerNotices = uint64_t{0x6f} << 32U;
/// The same for servers that end without workers, and for chunks that people move.
constexpr uint64_t kParks = uint64_t{0x7a} << 32U;
/// The same for who dies in the act of a move.
constexpr uint64_t kMoveKills = uint64_t{0x8b} << 32U;
/// The same for who becomes slower.
constexpr uint64_t kStragglers = uint64_t{0x9c} << 32U;
/// The same for links that are cut.
constexpr uint64_t kCuts = uint64_t{0xad} << 32U;
/// The same for gradients that are not finite.
constexpr uint64_t kNotFinite = uint64_t{0xbe} << 32U;
/// The same for processes of several shards.
constexpr uint64_t kProcesses = uint64_t{0xcf} << 32U;
/// The same for optimizers.
constexpr uint64_t kOptimizers = uint64_t{0xd1} << 32U;
/// The same for clocks, processes that stand still for ever, and disks that fail.
constexpr uint64_t kClocks = uint64_t{0xe2} << 32U;
constexpr uint64_t kFreezes = uint64_t{0xf3} << 32U;
constexpr uint64_t kDisks = uint64_t{0x104} << 32U;
/// The same for runs that are resumed, and for scenarios that all have one thing.
constexpr uint64_t kResumes = uint64_t{0x115} << 32U;
constexpr uint64_t kForced = uint64_t{0x126} << 32U;
/// The same for pulls as differences.
constexpr uint64_t kDifferences = uint64_t{0x127} << 32U;
/// The same for gradients of which encoding holds something back.
constexpr uint64_t kHeldBack = uint64_t{0x128} << 32U;
/// The same for rates that follow the workers.
constexpr uint64_t kListed = uint64_t{0x129} << 32U;
/// The small tensors, rounded up.
constexpr uint32_t kSmallTensorsKib = 5;

template <typename T>
std::string ToCode(const T& value) {
  if constexpr (std::is_same_v<T, proto::Mode>) {
    constexpr const char* kModes[] = {
        "proto::Mode::kAsync", "proto::Mode::kSsp", "proto::Mode::kBsp"};
    return kModes[static_cast<int>(value)];
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, Duration>) {
    return "Duration(" + std::to_string(value.count()) + ")";
  } else if constexpr (std::is_floating_point_v<T>) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.17g", value);
    return text;
  } else {
    return std::to_string(value);
  }
}

void DrawFaults(Random* random, Scenario* s) {
  const auto some = [random](double chance, uint64_t most) {
    return random->Chance(chance) ? 1 + static_cast<uint32_t>(random->Below(most)) : 0;
  };
  // Most jobs take one to five virtual seconds undisturbed; faults fall into their first part.
  s->disturbed_for = std::chrono::milliseconds(300 + random->Below(3000));
  s->kills = some(0.5, 4);
  s->kills_at_message = some(0.5, 4);
  s->multi_kills = some(0.3, 2);
  s->notices = some(0.4, 3);
  s->partitions = some(0.3, 3);
  s->hangs = some(0.3, 2);
  s->pauses = some(0.3, 3);
  s->faults_at_join = some(0.3, 4);
  s->faults_at_leave = some(0.3, 3);
  s->extra_joins = some(0.2, 3);
  s->planned_faults = some(0.2, 3);
  s->restarts = some(0.25, 3);
}

void DrawNetwork(Random* random, NetworkFaults* network) {
  if (random->Chance(0.6)) {
    network->loss = random->Unit() * 0.03;
    network->duplication = random->Unit() * 0.1;
    network->reorder = random->Unit() * 0.3;
    network->stall = random->Unit() * 0.05;
    network->stall_max = std::chrono::milliseconds(250);
  }
  if (random->Chance(0.4)) {
    network->break_connection = random->Unit() * 0.01;
  }
}

/// Servers are killed at most so often that they always come back.
void DrawServerFaults(Random* random, Scenario* s) {
  s->server_detect = std::chrono::milliseconds(random->Chance(0.5) ? 2400 : 0);
  if (random->Chance(0.3)) {
    return;
  }
  for (uint64_t n = 1 + random->Below(3); n > 0; --n) {
    uint32_t* const kinds[] = {
        &s->server_kills,
        &s->server_kills_at_checkpoint,
        &s->server_kills_at_restore,
        &s->server_stalls,
        &s->server_multi_kills,
        &s->server_kills_with_coordinator,
        &s->server_kills_with_damage};
    ++*kinds[random->Below(std::size(kinds))];
  }
}

/// So few that, with what else happens to servers, each comes back.
void DrawServerNotices(Random* random, Scenario* s) {
  s->server_revocations = random->Chance(0.4) ? 1 + static_cast<uint32_t>(random->Below(2)) : 0;
  s->server_notices = random->Chance(0.2) ? 1 : 0;
}

/// All servers go back together when one is lost: mostly when there is a checkpoint to go back to,
/// and often so slowly that something happens meanwhile.
void DrawReturns(Random* random, Scenario* s) {
  s->is_consistent = s->mode != proto::Mode::kBsp && random->Chance(0.3);
  if (!s->goes_back() || !s->may_lose_servers()) {
    return;
  }
  if (random->Chance(0.8)) {
    s->checkpoint_every = std::chrono::milliseconds(50 + random->Below(200));
    s->disturbed_for += std::chrono::milliseconds(500);
  }
  if (random->Chance(0.3)) {
    s->disk_delay_max = std::chrono::milliseconds(50 + random->Below(200));
  }
  s->faults_at_return = static_cast<uint32_t>(random->Below(3));
}

/// Nobody need be lost for it, so there are gentle runs of it, too.
void DrawFleet(Random* random, Scenario* s) {
  s->is_replacing = random->Chance(0.4);
  if (s->is_replacing && random->Chance(0.7)) {
    s->scales = 1 + static_cast<uint32_t>(random->Below(4));
  }
  s->has_few_seats = random->Chance(0.15);
}

void DrawModes(Random* random, Scenario* s) {
  s->mode_switches = random->Chance(0.4) ? 1 + static_cast<uint32_t>(random->Below(4)) : 0;
  s->job_pauses = random->Chance(0.25) ? 1 + static_cast<uint32_t>(random->Below(3)) : 0;
}

/// Only where a policy looks at who is slow, in a job that is long enough for that.
void DrawStragglers(Random* random, Scenario* s) {
  if (s->mode != proto::Mode::kBsp || s->workers < 3 || !random->Chance(0.4)) {
    return;
  }
  (random->Chance(0.5) ? s->sits_out : s->is_greedy) = true;
  s->straggles = 1 + static_cast<uint32_t>(random->Below(3));
  s->train_samples += uint64_t{200} * s->workers;
}

/// Servers are cut off only where they can come back.
void DrawCuts(Random* random, Scenario* s) {
  s->one_way_cuts = random->Chance(0.25) ? 1 + static_cast<uint32_t>(random->Below(3)) : 0;
  if (s->has_checkpoints()) {
    s->server_cuts = random->Chance(0.15) ? 1 + static_cast<uint32_t>(random->Below(2)) : 0;
    s->server_one_way_cuts = random->Chance(0.15) ? 1 + static_cast<uint32_t>(random->Below(2)) : 0;
  }
}

/// Processes that stand still for ever, and disks that fail.
void DrawBrokenMachines(uint64_t seed, Scenario* s) {
  Random freezes(seed ^ kFreezes);
  Random disks(seed ^ kDisks);
  if (s->is_gentle()) {
    return;
  }
  s->freezes = freezes.Chance(0.15) ? 1 + static_cast<uint32_t>(freezes.Below(2)) : 0;
  s->journal_faults = disks.Chance(0.1) ? 1 : 0;
  if (s->has_checkpoints()) {
    s->server_freezes = freezes.Chance(0.15) ? 1 : 0;
    s->store_losses = disks.Chance(0.3) ? 1 + static_cast<uint32_t>(disks.Below(3)) : 0;
  }
}

/// Chunks that people move, servers that end without workers, and who dies in the act of a move.
void DrawMoves(uint64_t seed, Scenario* s) {
  Random parks(seed ^ kParks);
  if (s->has_checkpoints()) {
    s->chunk_moves = parks.Chance(0.25) ? 1 + static_cast<uint32_t>(parks.Below(3)) : 0;
    s->park_after = std::chrono::milliseconds(parks.Chance(0.5) ? 20 + parks.Below(400) : 0);
    if (s->is_replacing && s->park_after > Duration::zero()) {
      s->scales_to_none = 1 + static_cast<uint32_t>(parks.Below(2));
    }
  }
  Random move_kills(seed ^ kMoveKills);
  if (s->chunk_moves + s->server_scales > 0 && !s->is_gentle() && move_kills.Chance(0.3)) {
    s->kills_at_move = 1 + static_cast<uint32_t>(move_kills.Below(2));
  }
}

/// What the servers compute.
void DrawArithmetic(uint64_t seed, Scenario* s) {
  Random not_finite(seed ^ kNotFinite);
  // So few that the job does not count as diverged.
  s->not_finite_every =
      not_finite.Chance(0.15) ? 10 + static_cast<uint32_t>(not_finite.Below(50)) : 0;
  Random optimizers(seed ^ kOptimizers);
  if (optimizers.Chance(0.4)) {
    s->optimizer = static_cast<uint32_t>(optimizers.Below(5));
    s->has_schedule = optimizers.Chance(0.5);
    s->has_bf16_slots = optimizers.Chance(0.5);
  }
  s->is_listed = Random(seed ^ kListed).Chance(0.3);
}

void DrawCheckpoints(Random* random, Scenario* s) {
  s->checkpoint_every = std::chrono::milliseconds(100 + random->Below(900));
  s->checkpoint_keep = 1 + static_cast<uint32_t>(random->Below(3));
  s->is_compressed = random->Chance(0.5);
  s->disk_delay_max = std::chrono::milliseconds(random->Chance(0.8) ? 1 + random->Below(10) : 200);
  s->disk_faults = random->Chance(0.2) ? 1 + static_cast<uint32_t>(random->Below(3)) : 0;
}

/// Nobody is lost: see Scenario::is_gentle.
void DrawGentleFaults(Random* random, Scenario* s) {
  s->disturbed_for = std::chrono::milliseconds(300 + random->Below(3000));
  s->network.loss = 0;
  s->extra_joins = static_cast<uint32_t>(random->Below(5));
  s->restarts = static_cast<uint32_t>(random->Below(3));
}

/// bsp with a model so large that a shard has room for the gradients of the job's workers, and of
/// hardly one more.
void DrawFullQueue(Random* random, Scenario* s) {
  s->mode = proto::Mode::kBsp;
  s->shards = 1;
  s->workers = 2 + static_cast<uint32_t>(random->Below(3));
  const auto room = s->workers + static_cast<uint32_t>(random->Below(2));
  s->model_kib = kQueueKib / room - kSmallTensorsKib;
  s->frame_kib = 32;
  s->chunk_kib = 32 * (1 + static_cast<uint32_t>(random->Below(2)));
  s->train_samples = 60 + random->Below(60);
  s->epochs = 1;
}

/// In some runs a shard has room for a worker or two.
void DrawDifferences(Random* random, Scenario* s) {
  s->difference_bits = random->Chance(0.5) ? 8 : 4;
  s->held_kib = random->Chance(0.2) ? 1 + static_cast<uint32_t>(random->Below(8)) : 0;
}

void DrawResumes(uint64_t seed, Scenario* s) {
  Random resumes(seed ^ kResumes);
  if (s->has_checkpoints() && !s->is_gentle() && resumes.Chance(0.2)) {
    s->resumes = 1 + static_cast<uint32_t>(resumes.Below(2));
  }
  if (!s->is_gentle() && resumes.Chance(0.1)) {
    s->coordinator_freezes = 1 + static_cast<uint32_t>(resumes.Below(2));
  }
}

void Force(Random* random, Only only, Scenario* s) {
  if (only == Only::kAny) {
    return;
  }
  if (only == Only::kMoves && random->Chance(0.3)) {
    DrawFullQueue(random, s);
    s->shards = 2 + static_cast<uint32_t>(random->Below(2));  // that have room for more workers
    s->train_samples *= 8;
  }
  if (!s->has_checkpoints()) {
    DrawCheckpoints(random, s);
  }
  switch (only) {
    case Only::kMoves:
      s->chunk_moves = 4 + static_cast<uint32_t>(random->Below(5));
      s->server_scales = 1 + static_cast<uint32_t>(random->Below(3));
      s->extra_joins = static_cast<uint32_t>(random->Below(4));
      break;
    case Only::kResumes:
      s->checkpoint_every = std::chrono::milliseconds(50 + random->Below(250));
      s->train_samples *= 2;
      s->kills += 1;
      s->resumes = 1 + static_cast<uint32_t>(random->Below(3));
      s->stops = random->Chance(0.3) ? 1 : 0;
      break;
    case Only::kFrozen:
      s->kills += 1;
      s->coordinator_freezes = 1 + static_cast<uint32_t>(random->Below(3));
      break;
    case Only::kLocal:
      s->local_steps = 2U << random->Below(2);
      s->optimizer = static_cast<uint32_t>(random->Below(4));
      s->has_schedule = false;
      s->is_encoded = random->Chance(0.3);
      s->overlap = false;
      s->train_samples *= 3;
      s->notices += 1 + static_cast<uint32_t>(random->Below(3));
      s->sets += static_cast<uint32_t>(random->Below(4));
      s->is_held_back = random->Chance(0.6);
      s->is_listed = random->Chance(0.5);
      break;
    case Only::kDifferences:
      s->model_kib = 0;
      DrawDifferences(random, s);
      s->chunk_moves = static_cast<uint32_t>(random->Below(3));
      s->server_kills += static_cast<uint32_t>(random->Below(2));
      s->kills += 1;
      s->sets = static_cast<uint32_t>(random->Below(4));
      s->sets_pulls = true;
      break;
    case Only::kAny:
      break;
  }
}

}  // namespace

std::vector<TensorSpec> SimulatedTensors(const Scenario& scenario) {
  // In KiB: not quite three, more than one, and less than one.
  std::vector<TensorSpec> tensors = {
      {"a", {700}, InitKind::kConstant, kConstants[0]},
      {"b", {10, 30}, InitKind::kConstant, kConstants[1]},
      {"c", {7}, InitKind::kConstant, kConstants[2]}};
  if (scenario.model_kib > 0) {
    tensors.push_back(
        {"d", {int64_t{scenario.model_kib} * 256}, InitKind::kConstant, kConstants[3]});
  }
  return tensors;
}

float SimulatedValue(const Scenario& scenario, uint32_t tensor, int64_t element) {
  if (scenario.has_values) {
    return static_cast<float>(10 * tensor + element % 7);
  }
  return kConstants[tensor];
}

Duration ClockAheadOf(const Scenario& scenario, uint64_t number) {
  Random random(scenario.seed * 1000 + number);
  return FromSeconds(random.Unit() * Seconds(scenario.clock_skew));
}

std::vector<std::string> SimulatedZones(uint32_t count) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < count; ++i) {
    names.push_back("zone" + std::to_string(i));
  }
  return names;
}

namespace {

/// Plain sgd keeps small integers. The others need not: every operation is made in one order.
proto::OptimizerConfig SimulatedOptimizer(const Scenario& scenario) {
  constexpr proto::OptimizerKind kKinds[] = {
      proto::OptimizerKind::kSgd,
      proto::OptimizerKind::kSgd,
      proto::OptimizerKind::kSgd,
      proto::OptimizerKind::kAdam,
      proto::OptimizerKind::kAdagrad};
  proto::OptimizerConfig config;
  config.kind = kKinds[scenario.optimizer];
  config.lr = 1;
  config.momentum = scenario.optimizer == 1 || scenario.optimizer == 2 ? 0.5F : 0;
  config.nesterov = scenario.optimizer == 2;
  if (scenario.has_schedule) {
    config.schedule.kind = proto::ScheduleKind::kLinear;
    config.schedule.final_factor = 0.1F;
  }
  return config;
}

proto::OuterKind OuterOf(const Scenario& scenario) {
  if (scenario.optimizer == 3) {
    return proto::OuterKind::kHeloco;
  }
  return scenario.optimizer != 2              ? proto::OuterKind::kSgd
         : scenario.mode == proto::Mode::kBsp ? proto::OuterKind::kNesterov
                                              : proto::OuterKind::kDelayedNesterov;
}

}  // namespace

proto::JobConfig SimulatedJob(const Scenario& scenario) {
  proto::JobConfig config;
  config.name = "simulation";
  config.model.name = "mlp";
  config.data.directory = ".";
  config.optimizer = SimulatedOptimizer(scenario);
  config.train.local_steps = scenario.local_steps;
  if (scenario.local_steps > 1) {
    config.outer.kind = OuterOf(scenario);
    const bool is_delayed = config.outer.kind == proto::OuterKind::kDelayedNesterov;
    config.outer.every = is_delayed && !scenario.has_live_every() ? 2 : 0;
    config.outer.lr = config.optimizer.lr;
    config.outer.momentum =
        config.outer.kind == proto::OuterKind::kHeloco ? 0.5F : config.optimizer.momentum;
  }
  config.train.epochs = scenario.epochs;
  config.train.seed = scenario.seed;
  config.train.mode = scenario.mode;
  config.train.mode_policy = scenario.sits_out    ? proto::ModePolicy::kSyncSwitchElastic
                             : scenario.is_greedy ? proto::ModePolicy::kSyncSwitchGreedy
                                                  : proto::ModePolicy::kFixed;
  config.train.switch_at = 0.9F;
  config.train.staleness_max = scenario.staleness_max;
  config.train.minibatch = 1;  // so that a push weighs its samples, and sums stay exact
  config.train.lease_steps = 3;
  config.train.overlap = scenario.overlap;
  config.train.gradient_dtype =
      scenario.is_rounded ? proto::GradientDtype::kBf16 : proto::GradientDtype::kF32;
  config.exchange.push = scenario.is_encoded ? "int4" : scenario.is_held_back ? "topk:0.25" : "f32";
  config.exchange.pull = scenario.difference_bits == 8   ? "int8"
                         : scenario.difference_bits == 4 ? "int4"
                                                         : "f32";
  config.train.switch_lr_factor = 1;  // likewise
  config.train.lr_policy = scenario.is_listed ? proto::LrPolicy::kListed : proto::LrPolicy::kFixed;
  config.servers.count = scenario.shards;
  config.servers.shards_per_server = scenario.shards_per_server;
  config.servers.chunk_kib = scenario.chunk_kib;
  config.servers.frame_kib = scenario.frame_kib;
  config.servers.queue_mib = kQueueKib / 1024;
  config.servers.max_detect_s = static_cast<float>(Seconds(scenario.server_detect));
  config.fleet.max_detect_s = static_cast<float>(
      Seconds(scenario.sabotage == Sabotage::kEndlessPatience ? kForEver : kSimulatedMaxDetect));
  config.fleet.replace = scenario.is_replacing;
  config.fleet.park_servers_after_s = static_cast<float>(Seconds(scenario.park_after));
  for (const std::string& zone : SimulatedZones(scenario.zones)) {
    config.launch.zones.push_back({zone, ""});
  }
  config.checkpoint.enabled = scenario.has_checkpoints();
  if (scenario.has_checkpoints()) {  // else the job stays one that a file could say
    config.checkpoint.every_s = static_cast<float>(Seconds(scenario.checkpoint_every));
  }
  config.checkpoint.path = kCheckpointPath;
  config.checkpoint.keep = scenario.checkpoint_keep;
  config.checkpoint.recovery =
      scenario.is_consistent ? proto::RecoveryKind::kConsistent : proto::RecoveryKind::kAuto;
  config.checkpoint.slots =
      scenario.has_bf16_slots ? proto::CheckpointSlots::kBf16 : proto::CheckpointSlots::kF32;
  config.checkpoint.codec =
      scenario.is_compressed ? proto::CheckpointCodec::kZstd : proto::CheckpointCodec::kNone;
  for (uint32_t i = 0; i < scenario.workers; ++i) {
    config.workers.push_back({1, kMinibatches[i % std::size(kMinibatches)], 1, 1});
  }
  Random random(scenario.seed ^ 0xfa017);
  for (uint32_t i = 0; i < scenario.planned_faults; ++i) {
    proto::FaultConfig fault;
    fault.at = static_cast<float>(random.Unit());
    fault.kind = static_cast<proto::FaultKind>(random.Below(3));
    fault.worker = static_cast<uint32_t>(random.Below(scenario.workers));
    fault.grace_s = static_cast<float>(random.Unit() * 0.4);
    fault.add = {1, kMinibatches[random.Below(std::size(kMinibatches))], 1, 1};
    config.faults.push_back(fault);
  }
  return config;
}

std::vector<proto::ConfigOverride> DrawSettings(const Scenario& scenario, Random* random) {
  using Setting = std::pair<const char*, std::array<const char*, 4>>;
  constexpr Setting kSettings[] = {
      {"exchange.push", {"f32", "int4", "topk:0.25", "bf16"}},
      {"exchange.error_feedback", {"true", "true", "true", "false"}},
      {"train.local_steps", {"2", "4", "8", "1"}},
      {"train.local_steps_by_speed", {"false", "false", "false", "true"}}};
  constexpr Setting kPull = {"exchange.pull", {"f32", "int8", "int4", "bf16"}};
  constexpr size_t kByLinks[] = {0, 2};  // which can be auto
  std::vector<proto::ConfigOverride> changes;
  const auto draw = [&](const Setting& setting) {
    changes.push_back({setting.first, setting.second[random->Below(setting.second.size())]});
  };
  for (const Setting& setting : std::span(kSettings, scenario.local_steps > 1 ? 4 : 2)) {
    draw(setting);
  }
  if (!scenario.sets_pulls) {
    return changes;
  }
  for (const size_t i : kByLinks) {
    if (random->Chance(0.3) && i < changes.size()) {
      changes[i].value = "auto";
    }
  }
  draw(kPull);
  if (random->Chance(0.3)) {  // nothing else changes
    changes.erase(changes.begin(), changes.end() - 1);
  }
  return changes;
}

Scenario RandomScenario(uint64_t seed, Only only) {
  Random random(seed ^ 0x5ca1ab1e);
  Scenario s;
  s.seed = seed;
  s.mode = static_cast<proto::Mode>(random.Below(3));
  s.staleness_max = static_cast<uint32_t>(random.Below(4));
  s.overlap = random.Chance(0.5);
  s.shards = 1 + static_cast<uint32_t>(random.Below(3));
  s.workers = 1 + static_cast<uint32_t>(random.Chance(0.06) ? random.Below(24) : random.Below(5));
  s.epochs = 1 + static_cast<uint32_t>(random.Below(2));
  s.train_samples = 100 + random.Below(500);
  s.chunk_kib = 1 + static_cast<uint32_t>(random.Below(3));
  if (random.Chance(0.02)) {
    DrawFullQueue(&random, &s);
  }
  DrawNetwork(&random, &s.network);
  if (random.Chance(0.1)) {
    DrawGentleFaults(&random, &s);
  } else {
    DrawFaults(&random, &s);
  }
  s.has_values = random.Chance(0.2);
  if (random.Chance(0.4)) {
    DrawCheckpoints(&random, &s);
    if (!s.is_gentle()) {
      DrawServerFaults(&random, &s);
      Random returns(seed ^ kReturns);
      DrawReturns(&returns, &s);
    }
  }
  Random server_notices(seed ^ kServerNotices);
  if (s.has_checkpoints() && !s.is_gentle()) {
    DrawServerNotices(&server_notices, &s);
  }
  Random fleets(seed ^ kFleets);
  DrawFleet(&fleets, &s);
  Random server_scales(seed ^ kServerScales);
  if (s.has_checkpoints() && server_scales.Chance(0.5)) {
    s.server_scales = 1 + static_cast<uint32_t>(server_scales.Below(3));
  }
  Random modes(seed ^ kModeChanges);
  DrawModes(&modes, &s);
  Random sets(seed ^ kSets);
  s.sets = sets.Chance(0.25) ? 1 + static_cast<uint32_t>(sets.Below(4)) : 0;
  s.sets_pulls = s.sets > 0 && s.model_kib == 0 && sets.Chance(0.5);
  Random joint(seed ^ kJointChanges);
  s.joint_changes = joint.Chance(0.2) ? 1 + static_cast<uint32_t>(joint.Below(3)) : 0;
  s.scales_to_none = s.is_replacing && joint.Chance(0.25) ? 1 : 0;
  DrawMoves(seed, &s);
  Random stragglers(seed ^ kStragglers);
  DrawStragglers(&stragglers, &s);
  if (!s.is_gentle()) {
    Random cuts(seed ^ kCuts);
    DrawCuts(&cuts, &s);
  }
  Random clocks(seed ^ kClocks);
  s.clock_skew = clocks.Chance(0.5) ? std::chrono::hours(1) : Duration();
  DrawBrokenMachines(seed, &s);
  DrawArithmetic(seed, &s);
  Random processes(seed ^ kProcesses);
  if (s.model_kib == 0 && processes.Chance(0.25)) {
    s.shards_per_server = 2;
    s.shards = 1 + static_cast<uint32_t>(processes.Below(2));
  }
  s.stops = !s.is_gentle() && random.Chance(0.05) ? 1 : 0;
  DrawResumes(seed, &s);
  Random differences(seed ^ kDifferences);
  if (s.model_kib == 0 && differences.Chance(0.2)) {
    DrawDifferences(&differences, &s);
  }
  Random held_back(seed ^ kHeldBack);
  s.is_held_back = s.model_kib == 0 && held_back.Chance(0.2);
  Random forced(seed ^ kForced);
  Force(&forced, only, &s);
  return s;
}

std::string Describe(const Scenario& scenario) {
  std::vector<std::string> defaults;
  const Scenario none;
  ForEachField(
      none, [&](const char* /*name*/, const auto& value) { defaults.push_back(ToCode(value)); });
  std::string text;
  size_t i = 0;
  ForEachField(scenario, [&](const char* name, const auto& value) {
    const std::string code = ToCode(value);
    if (code != defaults[i++]) {
      text += (text.empty() ? "s." : " s.") + std::string(name) + " = " + code + ";";
    }
  });
  return text;
}

}  // namespace ps::sim
