#include "tests/sim/faults/faults.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace ps::sim {
namespace {

constexpr double kArmedChance = 0.02;      // of a fault that waits for any message
constexpr double kArmedKindChance = 0.25;  // of one that waits for a rare message
constexpr double kArmedMoveChance = 0.1;   // of one that waits for one of a move's messages
constexpr uint64_t kGraceMsMax = 400;      // from "already too late" to "plenty"
constexpr uint64_t kPartitionMsMax = 3000;
/// A server that is silent for less is never lost, if all that it says arrives.
constexpr Duration kShortPause = kSimulatedMaxDetect / 2;

/// From the first thing that a going back does to the first steps after it.
constexpr Duration kReturn = std::chrono::milliseconds(600);

/// A disk that is to be damaged is looked at again after this long.
constexpr Duration kUntilSomethingIsThere = std::chrono::milliseconds(50);

/// Until a store that has failed can be opened again.
constexpr uint64_t kFailedOpensMax = 6;

/// How long a journal's disk is full: shorter and longer than the time between two attempts.
constexpr uint64_t kFullJournalMsMax = 2500;

/// More than there are chunks in some jobs.
constexpr uint64_t kServersMax = 5;
constexpr uint64_t kShareMax = 3;

/// Of a job: long enough for a checkpoint, and for most that happens meanwhile.
constexpr uint64_t kPauseMsMax = 1500;

/// From one of several changes to another.
constexpr uint64_t kSoonMsMax = 150;

/// Of a notice after its worker's end: until the end is known, and until another one has the seat.
constexpr uint64_t kLateNoticeMsMax = 2000;

/// Of a worker that straggles.
constexpr int64_t kStraggleFactor = 10;
constexpr Duration kStraggleMin = std::chrono::seconds(6);
constexpr uint64_t kStraggleMsMax = 20'000;

/// Of a notice to a server: longer than any run.
constexpr uint32_t kServerGraceMs = 600'000;

/// Of the machine of a server that is taken back: from "already too late" to "plenty".
constexpr uint64_t kServerRevocationMsMax = 2500;

/// Shards and workers look for the coordinator for longer.
constexpr uint64_t kRestartMsMax = 400;

/// Until somebody kills a coordinator that stands still.
constexpr uint64_t kFreezeMsMax = 9000;
constexpr Duration kLongerThanServersWait = std::chrono::seconds(65);

bool IsOfJoining(const proto::Message& message) {
  return std::holds_alternative<proto::JoinRequest>(message) ||
         std::holds_alternative<proto::JoinReply>(message);
}

bool IsOfMove(const proto::Message& message) {
  return std::holds_alternative<proto::GiveChunks>(message) ||
         std::holds_alternative<proto::ChunksOffer>(message) ||
         std::holds_alternative<proto::ChunkPart>(message) ||
         std::holds_alternative<proto::ChunksTaken>(message) ||
         std::holds_alternative<proto::ChunksGiven>(message);
}

/// Of a move's message that a server sends or handles: it is the one that gives.
bool IsOfGiver(const proto::Message& message, bool is_sent) {
  const bool is_from_giver = std::holds_alternative<proto::ChunksOffer>(message) ||
                             std::holds_alternative<proto::ChunkPart>(message) ||
                             std::holds_alternative<proto::ChunksGiven>(message);
  return is_from_giver == is_sent;
}

bool IsOfLeaving(const proto::Message& message) {
  return std::holds_alternative<proto::Goodbye>(message) ||
         std::holds_alternative<proto::GoodbyeReply>(message) ||
         std::holds_alternative<proto::Drain>(message) ||
         std::holds_alternative<proto::Shutdown>(message);
}

}  // namespace

void Faults::Plan(uint32_t count, void (Faults::*fault)()) {
  for (uint32_t i = 0; i < count; ++i) {
    const Duration when =
        FromSeconds(world_.random->Unit() * Seconds(world_.scenario->disturbed_for));
    world_.queue->After(when, [this, fault] { (this->*fault)(); });
  }
}

void Faults::Begin() {
  const Scenario& scenario = *world_.scenario;
  Plan(scenario.kills, &Faults::KillOne);
  Plan(scenario.kills_at_message, &Faults::ArmKill);
  Plan(scenario.multi_kills, &Faults::KillSeveral);
  Plan(scenario.notices, &Faults::NoticeOne);
  Plan(scenario.partitions, &Faults::PartitionTwo);
  Plan(scenario.one_way_cuts, &Faults::CutOneWay);
  Plan(scenario.server_cuts, &Faults::CutServer);
  Plan(scenario.server_one_way_cuts, &Faults::CutServerOneWay);
  Plan(scenario.hangs, &Faults::HangOne);
  Plan(scenario.pauses, &Faults::PauseOne);
  Plan(scenario.faults_at_leave, &Faults::ArmAtLeave);
  Plan(scenario.extra_joins, &Faults::JoinOne);
  Plan(scenario.restarts, &Faults::RestartOrArm);
  Plan(scenario.stops, &Faults::Stop);
  Plan(scenario.resumes, &Faults::Crash);
  Plan(scenario.coordinator_freezes, &Faults::FreezeCoordinator);
  Plan(scenario.server_kills, &Faults::KillServer);
  Plan(scenario.server_stalls, &Faults::StallServer);
  Plan(scenario.disk_faults, &Faults::FillDisk);
  Plan(scenario.journal_faults, &Faults::FillJournal);
  Plan(scenario.store_losses, &Faults::FailStore);
  Plan(scenario.freezes, &Faults::FreezeOne);
  Plan(scenario.server_freezes, &Faults::FreezeServer);
  Plan(scenario.server_multi_kills, &Faults::KillServers);
  Plan(scenario.server_kills_with_coordinator, &Faults::KillServerAndCoordinator);
  Plan(scenario.server_kills_with_damage, &Faults::DamageAndKillServer);
  Plan(scenario.scales, &Faults::ScaleOne);
  Plan(scenario.server_scales, &Faults::ScaleServers);
  Plan(scenario.chunk_moves, &Faults::MoveChunks);
  Plan(scenario.mode_switches, &Faults::SwitchMode);
  Plan(scenario.sets, &Faults::SetSteps);
  Plan(scenario.job_pauses, &Faults::PauseJob);
  Plan(scenario.straggles, &Faults::SlowOne);
  Plan(scenario.joint_changes, &Faults::ChangeTogether);
  Plan(scenario.scales_to_none, &Faults::ScaleToNone);
  Plan(scenario.disasters, &Faults::KillAllWorkersAndAServer);
  Plan(scenario.late_notices, &Faults::NoticeADeadOne);
  Plan(scenario.server_notices, &Faults::NoticeServer);
  Plan(scenario.server_revocations, &Faults::RevokeServer);
  Plan(scenario.several_notices, &Faults::NoticeSeveral);
  Plan(scenario.zones_out > 0 ? 1 : 0, &Faults::LoseZones);
  if (scenario.scales + scenario.scales_at_checkpoint > 0) {
    world_.queue->After(scenario.disturbed_for, [this] { ScaleTo(world_.scenario->workers); });
  }
  armed_.servers_at_checkpoint = scenario.server_kills_at_checkpoint;
  armed_.servers_at_restore = scenario.server_kills_at_restore;
  armed_.at_return = scenario.faults_at_return;
  armed_.scales_at_checkpoint = scenario.scales_at_checkpoint;
  armed_.at_move = scenario.kills_at_move;
  armed_.at_join = scenario.faults_at_join;  // the first joins are the beginning
  world_.queue->After(scenario.disturbed_for, [this] { armed_ = {}; });
}

void Faults::KillOne() {
  if (Fleet::Process* process = world_.fleet->PickAlive(); process != nullptr) {
    world_.fleet->Kill(process);
  }
}

/// For long enough to sit out, and now and then to be tried while it lasts.
void Faults::SlowOne() {
  Fleet::Process* const process = world_.fleet->PickAlive();
  if (process == nullptr) {
    return;
  }
  process->node->SetSlowdown(kStraggleFactor);
  const Duration how_long =
      kStraggleMin + std::chrono::milliseconds(world_.random->Below(kStraggleMsMax));
  world_.queue->After(how_long, [process] { process->node->SetSlowdown(1); });
}

void Faults::KillSeveral() {
  for (uint64_t n = 2 + world_.random->Below(world_.scenario->workers); n > 0; --n) {
    KillOne();
  }
}

void Faults::NoticeOne() {
  Fleet::Process* const process = world_.fleet->PickAlive();
  if (process == nullptr) {
    return;
  }
  const Duration grace = std::chrono::milliseconds(world_.random->Below(kGraceMsMax));
  process->node->Notice(grace);
  world_.queue->After(grace + std::chrono::milliseconds(1), [this, process] {
    if (process->node->is_alive()) {
      world_.fleet->Kill(process);
    }
  });
}

/// Each with a grace of its own, and some of them twice.
void Faults::NoticeSeveral() {
  for (uint64_t n = 2 + world_.random->Below(world_.scenario->workers); n > 0; --n) {
    NoticeOne();
  }
}

void Faults::PartitionTwo() {
  Fleet::Process* const process = world_.fleet->PickAlive();
  if (process == nullptr) {
    return;
  }
  const Servers::Process* const server = world_.servers->PickAlive();
  const bool is_coordinator = server == nullptr || world_.random->Chance(0.4);
  const int node = is_coordinator ? world_.coordinator_node : server->node;
  const auto how_long = std::chrono::milliseconds(world_.random->Below(kPartitionMsMax));
  world_.network->Partition(process->node->node(), node, how_long);
}

/// Cuts one direction between a worker and a server, or the coordinator.
void Faults::CutOneWay() {
  Fleet::Process* const process = world_.fleet->PickAlive();
  if (process == nullptr) {
    return;
  }
  const Servers::Process* const server = world_.servers->PickAlive();
  const bool is_coordinator = server == nullptr || world_.random->Chance(0.4);
  int from = process->node->node();
  int to = is_coordinator ? world_.coordinator_node : server->node;
  if (world_.random->Chance(0.5)) {
    std::swap(from, to);
  }
  const auto how_long = std::chrono::milliseconds(world_.random->Below(kPartitionMsMax));
  world_.log->Info("cut", {{"from", from}, {"to", to}, {"seconds", Seconds(how_long)}});
  world_.network->CutOneWay(from, to, how_long);
}

void Faults::CutServer() {
  CutServerOff(false);
}

void Faults::CutServerOneWay() {
  CutServerOff(true);
}

/// Cuts a server from the coordinator, or from another server. Where a lost server can't come back,
/// the cut is too short for it to be given up.
void Faults::CutServerOff(bool is_one_way) {
  const Servers::Process* const server = world_.servers->PickAlive();
  const Servers::Process* const other = world_.servers->PickAlive();
  if (server == nullptr) {
    return;
  }
  const bool is_coordinator = other == server || world_.random->Chance(0.6);
  int from = server->node;
  int to = is_coordinator ? world_.coordinator_node : other->node;
  const Duration detect = proto::Timing::Of(SimulatedJob(*world_.scenario)).server_detect;
  Duration how_long = FromSeconds(Seconds(detect) * (0.2 + 1.6 * world_.random->Unit()));
  if (is_coordinator && !world_.can_lose_servers()) {
    how_long = FromSeconds(world_.random->Unit() * Seconds(kShortPause));
    may_lose_server_ = true;  // with what the network loses besides
  }
  if (is_one_way && world_.random->Chance(0.5)) {
    std::swap(from, to);
  }
  world_.log->Info(
      "server_cut",
      {{"from", from}, {"to", to}, {"one_way", is_one_way}, {"seconds", Seconds(how_long)}});
  if (is_one_way) {
    world_.network->CutOneWay(from, to, how_long);
  } else {
    world_.network->Partition(from, to, how_long);
  }
}

void Faults::HangOne() {
  Fleet::Process* const process = world_.fleet->PickAlive();
  if (process == nullptr) {
    return;
  }
  const Duration how_long = std::chrono::milliseconds(500 + world_.random->Below(4000));
  world_.network->Partition(process->node->node(), world_.coordinator_node, how_long);
  world_.servers->ForEachAlive([&](const Servers::Process& server) {
    world_.network->Partition(process->node->node(), server.node, how_long);
  });
}

/// Half of the pauses are a worker's, the others a server's or the coordinator's.
void Faults::PauseOne() {
  const Duration long_pause = std::chrono::milliseconds(world_.random->Below(4000));
  const Duration short_pause = FromSeconds(world_.random->Unit() * Seconds(kShortPause));
  const uint64_t who = world_.random->Below(6);
  const Servers::Process* const server = world_.servers->PickAlive();
  int node = world_.coordinator_node;
  Duration how_long = long_pause;
  const bool is_server = who < 2 && server != nullptr;
  if (is_server) {
    node = server->node;
    how_long = world_.random->Chance(0.75) ? short_pause : long_pause;
    may_lose_server_ = may_lose_server_ || how_long > kShortPause;
  } else if (who > 2) {
    Fleet::Process* const process = world_.fleet->PickAlive();
    if (process == nullptr) {
      return;
    }
    node = process->node->node();
  }
  // What else is lost or late adds up to longer silences.
  const NetworkFaults& network = world_.scenario->network;
  const bool is_bad = network.loss > 0 || network.stall > 0 || network.break_connection > 0;
  may_lose_server_ = may_lose_server_ || (is_bad && who <= 2);
  world_.log->Info("paused", {{"node", node}, {"seconds", Seconds(how_long)}});
  if (is_server) {
    world_.servers->Pause(*server, how_long);
  } else {
    world_.network->Pause(node, how_long);
  }
}

/// Half of the restarts are at any time, the others when the coordinator has just handled or sent
/// something.
void Faults::RestartOrArm() {
  if (world_.random->Chance(0.5)) {
    Restart();
  } else {
    ++armed_.restarts;
  }
}

void Faults::Restart() {
  const NetworkFaults& network = world_.scenario->network;
  may_lose_server_ =
      may_lose_server_ || network.loss > 0 || network.stall > 0 || network.break_connection > 0;
  world_.restart_coordinator(std::chrono::milliseconds(1 + world_.random->Below(kRestartMsMax)));
}

void Faults::Stop() {
  const bool is_immediate = world_.random->Chance(0.3);
  world_.log->Info("stop", {{"is_immediate", is_immediate}});
  world_.stop(is_immediate);
}

/// Longer than workers wait for it and, now and then, longer than servers do.
void Faults::FreezeCoordinator() {
  const bool is_long = world_.random->Chance(0.15);
  const Duration how_long = is_long ? kLongerThanServersWait
                                    : std::chrono::milliseconds(world_.random->Below(kFreezeMsMax));
  const NetworkFaults& network = world_.scenario->network;
  const bool is_bad = network.loss > 0 || network.stall > 0 || network.break_connection > 0;
  may_lose_server_ = may_lose_server_ || is_bad || is_long;
  may_lack_workers_ = may_lack_workers_ || is_long;
  world_.log->Info("coordinator_frozen", {{"seconds", Seconds(how_long)}});
  world_.freeze_coordinator(
      how_long, std::chrono::milliseconds(1 + world_.random->Below(kRestartMsMax)));
}

/// Before there is a checkpoint nothing can be resumed.
void Faults::Crash() {
  if (!has_checkpoint_) {
    world_.queue->After(kUntilSomethingIsThere, [this] { Crash(); });
    return;
  }
  world_.crash();
}

void Faults::KillServer() {
  if (!world_.can_lose_servers()) {
    return;
  }
  if (world_.scenario->goes_back() && !has_checkpoint_ && world_.random->Chance(0.8)) {
    ++armed_.servers_later;  // else most would go back to the beginning
    return;
  }
  if (Servers::Process* const process = world_.servers->PickAlive(); process != nullptr) {
    world_.servers->Kill(process);
  }
}

/// In which a disk does a few things.
Duration Faults::SomeDiskTime() {
  return FromSeconds(world_.random->Unit() * 8 * Seconds(world_.scenario->disk_delay_max));
}

bool Faults::KillServerNow(int node) {
  Servers::Process* const process = world_.servers->Find(node);
  if (!process->is_alive || !world_.can_lose_servers()) {
    return false;
  }
  world_.servers->Kill(process);
  return true;
}

void Faults::OnCheckpoint() {
  has_checkpoint_ = true;
  for (; armed_.servers_later > 0; --armed_.servers_later) {
    const auto delay = FromSeconds(world_.random->Unit() * Seconds(world_.scenario->disturbed_for));
    world_.queue->After(delay / 2, [this] { KillServer(); });
  }
}

void Faults::OnReturn() {
  for (; armed_.at_return > 0; --armed_.at_return) {
    const Duration longest = world_.random->Chance(0.5) ? kReturn : world_.scenario->disk_delay_max;
    world_.queue->After(
        FromSeconds(world_.random->Unit() * Seconds(longest)), [this] { DisturbReturn(); });
  }
}

/// While the manifest is read, shards restore, or workers come back.
void Faults::DisturbReturn() {
  const uint64_t what = world_.random->Below(7);
  world_.log->Info("return_disturbed", {{"what", what}});
  switch (what) {
    case 0:
    case 1:
      return KillServer();
    case 2:
    case 3:
      return Restart();
    case 4:
      return KillOne();
    case 5:
      return JoinOne();
    default:
      return HangOne();
  }
}

void Faults::KillServers() {
  for (uint64_t n = 2 + world_.random->Below(world_.scenario->shards); n > 0; --n) {
    KillServer();
  }
}

void Faults::KillServerAndCoordinator() {
  KillServer();
  Restart();
}

/// A zone is gone, and a server with it.
void Faults::KillAllWorkersAndAServer() {
  world_.fleet->ForEachAlive([this](Fleet::Process* process) { world_.fleet->Kill(process); });
  KillServer();
}

void Faults::LoseZones() {
  const std::vector<std::string> zones = SimulatedZones(world_.scenario->zones_out);
  world_.log->Info("zones_lost", {{"zones", zones.size()}});
  for (const std::string& zone : zones) {
    world_.fleet->LoseZone(zone);
  }
  world_.queue->After(world_.scenario->zones_out_for, [this, zones] {
    for (const std::string& zone : zones) {
      world_.fleet->GiveBackZone(zone);
    }
  });
}

/// Its machine says so late, or psctl asks for a worker that it still shows.
void Faults::NoticeADeadOne() {
  Fleet::Process* const process = world_.fleet->PickAlive();
  if (process == nullptr || !process->seat) {
    return;
  }
  world_.fleet->Kill(process);
  const auto late = std::chrono::milliseconds(world_.random->Below(kLateNoticeMsMax));
  world_.queue->After(late, [this, seat = *process->seat] {
    const auto grace = static_cast<uint32_t>(world_.random->Below(kGraceMsMax));
    const bool is_release = world_.scenario->is_replacing && world_.random->Chance(0.3);
    world_.log->Info("dead_one_noticed", {{"seat", seat.value}});
    world_.ask(proto::NoticeRequest{seat, grace, false, is_release});
  });
}

/// The machine is not taken back before the server has left.
void Faults::NoticeServer() {
  if (world_.can_lose_servers()) {
    const WorkerId server(static_cast<uint32_t>(world_.random->Below(world_.scenario->shards)));
    world_.log->Info("server_noticed", {{"server", server.value}});
    world_.ask(proto::NoticeRequest{server, kServerGraceMs, true, false});
  }
}

/// The machine goes when its time is over, or sooner, or stays after all; or it has gone already
/// when somebody asks for the hand-over.
void Faults::RevokeServer() {
  Servers::Process* const process = world_.servers->PickAlive();
  if (process == nullptr || !world_.can_lose_servers()) {
    return;
  }
  const auto grace_ms = static_cast<uint32_t>(world_.random->Below(kServerRevocationMsMax));
  const Duration grace = std::chrono::milliseconds(grace_ms);
  const uint64_t how = world_.random->Below(5);
  world_.log->Info(
      "server_revoked", {{"server", process->server}, {"grace_s", Seconds(grace)}, {"how", how}});
  if (how == 0) {
    world_.servers->Kill(process);
    const auto late = std::chrono::milliseconds(world_.random->Below(kLateNoticeMsMax));
    world_.queue->After(late, [this, server = process->server, grace_ms] {
      world_.ask(proto::NoticeRequest{WorkerId(server), grace_ms, true, false});
    });
    return;
  }
  world_.network->WhenAwake(process->node, [process, grace] {
    if (process->is_alive) {
      process->shard_node->Notice(grace);
    }
  });
  if (how == 1) {
    return;  // withdrawn
  }
  const Duration left = how == 2 ? FromSeconds(world_.random->Unit() * Seconds(grace)) : grace;
  world_.queue->After(left, [this, process] {
    if (process->is_alive && world_.can_lose_servers()) {
      world_.servers->Kill(process);
    }
  });
}

/// The bit is in its own parts and chunks, or in the manifests.
void Faults::DamageAndKillServer() {
  Servers::Process* const process = world_.servers->PickAlive();
  if (process == nullptr || !world_.can_lose_servers()) {
    return;
  }
  const std::string directory =
      world_.random->Chance(0.25)
          ? checkpoint::JobDirectory(kCheckpointPath)
          : std::string(kCheckpointPath) + "/" + checkpoint::ShardDirectory(process->shard);
  if (!world_.damage(directory)) {
    world_.queue->After(kUntilSomethingIsThere, [this] { DamageAndKillServer(); });
    return;
  }
  has_damaged_ = true;
  world_.log->Info("damaged", {{"directory", directory}});
  world_.servers->Kill(process);
}

/// The server is given up, another one takes its place, and then it is there again.
void Faults::StallServer() {
  const Servers::Process* const process = world_.servers->PickAlive();
  if (process == nullptr || !world_.can_lose_servers()) {
    return;
  }
  const Duration detect = proto::Timing::Of(SimulatedJob(*world_.scenario)).server_detect;
  const Duration how_long = FromSeconds(Seconds(detect) * (0.9 + world_.random->Unit()));
  stalled_until_ = std::max(stalled_until_, world_.queue->Now() + how_long);
  world_.log->Info("stalled", {{"node", process->node}, {"seconds", Seconds(how_long)}});
  world_.servers->Pause(*process, how_long);
}

/// The directory of a database: the coordinator's or a shard's.
std::string Faults::SomeDatabase() {
  const uint64_t shards = uint64_t{world_.scenario->shards} * world_.scenario->shards_per_server;
  const uint64_t which = world_.random->Below(shards + 1);
  return std::string(kCheckpointPath) +
         (which == 0 ? "/job"
                     : "/" + checkpoint::ShardDirectory(ShardId(static_cast<uint32_t>(which - 1))));
}

void Faults::FillDisk() {
  const std::string directory = *full_disks_.insert(SomeDatabase()).first;
  const auto how_long = std::chrono::milliseconds(1 + world_.random->Below(1000));
  world_.log->Info("disk_full", {{"directory", directory}, {"seconds", Seconds(how_long)}});
  world_.queue->After(how_long, [this, directory] { full_disks_.erase(directory); });
}

void Faults::FailStore() {
  const std::string directory = SomeDatabase();
  const bool is_back_at_once = world_.random->Chance(0.5);
  const auto opens =
      static_cast<uint32_t>(is_back_at_once ? 0 : 1 + world_.random->Below(kFailedOpensMax));
  world_.log->Info("store_failed", {{"directory", directory}, {"opens", opens}});
  world_.fail_store(directory, opens);
}

/// In half of the cases the coordinator ends meanwhile, or soon after.
void Faults::FillJournal() {
  const auto how_long = std::chrono::milliseconds(1 + world_.random->Below(kFullJournalMsMax));
  world_.log->Info("journal_full", {{"seconds", Seconds(how_long)}});
  world_.fill_journal(true, world_.random->Chance(0.5));
  world_.queue->After(how_long, [this] { world_.fill_journal(false, false); });
  if (world_.random->Chance(0.5)) {
    world_.queue->After(
        FromSeconds(world_.random->Unit() * 1.5 * Seconds(how_long)), [this] { Restart(); });
  }
}

void Faults::FreezeOne() {
  if (const Fleet::Process* const process = world_.fleet->PickAlive(); process != nullptr) {
    may_lack_workers_ = may_lack_workers_ || process->node->core().incarnation() == Incarnation();
    world_.fleet->Freeze(*process);
  }
}

/// Whoever has its place later has to end it first: its store is open.
void Faults::FreezeServer() {
  const Servers::Process* const process = world_.servers->PickAlive();
  if (process == nullptr || !world_.can_lose_servers()) {
    return;
  }
  world_.log->Info("server_frozen", {{"server", process->server}});
  world_.servers->Pause(*process, kForEver);
}

/// To any size, nobody included; or by one worker, whichever.
void Faults::ScaleOne() {
  const uint64_t workers = world_.scenario->workers;
  if (world_.random->Chance(0.7)) {
    ScaleTo(world_.random->Below(workers + 3));
    return;
  }
  const WorkerId seat(static_cast<uint32_t>(world_.random->Below(workers + 2)));
  const auto grace = static_cast<uint32_t>(world_.random->Below(kGraceMsMax));
  world_.log->Info("drain", {{"worker", seat.value}, {"grace_ms", grace}});
  world_.ask(proto::NoticeRequest{seat, grace, false, true});
}

void Faults::ScaleTo(uint64_t workers) {
  world_.log->Info("scale", {{"workers", workers}});
  world_.ask(proto::ScaleRequest{{{"", static_cast<int32_t>(workers), false}}});
}

void Faults::ScaleServers() {
  const auto servers = static_cast<int32_t>(1 + world_.random->Below(kServersMax));
  std::vector<uint32_t> shares;
  if (world_.random->Chance(0.3)) {
    std::generate_n(std::back_inserter(shares), servers, [this] {
      return static_cast<uint32_t>(1 + world_.random->Below(kShareMax));
    });
  }
  world_.log->Info("scale", {{"servers", servers}, {"shares", proto::SharesText(shares)}});
  world_.ask(proto::ScaleRequest{{{"", servers, false, true, shares}}});
}

/// To a server, that may not be there, or back to where the shares want them.
void Faults::MoveChunks() {
  proto::ScaleChange change;
  const std::vector<TensorSpec> tensors = SimulatedTensors(*world_.scenario);
  change.tensor = tensors[world_.random->Below(tensors.size())].name;
  change.count = static_cast<int32_t>(world_.random->Below(world_.scenario->shards + 1)) - 1;
  change.chunk = world_.random->Chance(0.5) ? 0 : -1;
  world_.log->Info("move", {{"tensor", change.tensor}, {"server", change.count}});
  world_.ask(proto::ScaleRequest{{change}});
}

void Faults::SwitchMode() {
  proto::ModeChoice wanted;
  wanted.mode = static_cast<proto::Mode>(world_.random->Below(3));
  if (wanted.mode == proto::Mode::kSsp) {
    wanted.staleness_max = 1 + static_cast<uint32_t>(world_.random->Below(3));
  }
  world_.log->Info("mode_asked", {{"mode", proto::ModeText(wanted)}});
  world_.ask(proto::ModeRequest{wanted});
}

/// Some of it can't be and is refused. The oracle knows no rounded parameters.
void Faults::SetSteps() {
  proto::SetRequest request{DrawSettings(*world_.scenario, world_.random)};
  world_.log->Info("set_asked", {{"first", request.changes[0].value}});
  world_.ask(std::move(request));
}

void Faults::PauseJob() {
  world_.log->Info("pause_asked");
  world_.ask(proto::PauseRequest{true});
  const auto how_long = std::chrono::milliseconds(1 + world_.random->Below(kPauseMsMax));
  world_.queue->After(how_long, [this] { world_.ask(proto::PauseRequest{false}); });
}

/// In one instant, or so near that the first is under way.
void Faults::ChangeTogether() {
  const auto soon = [this](void (Faults::*change)()) {
    const uint64_t ms = world_.random->Chance(0.5) ? 0 : world_.random->Below(kSoonMsMax);
    world_.queue->After(std::chrono::milliseconds(ms), [this, change] { (this->*change)(); });
  };
  soon(&Faults::SwitchMode);
  if (world_.scenario->has_checkpoints() && world_.random->Chance(0.7)) {
    soon(&Faults::ScaleServers);
  }
  if (world_.random->Chance(0.4)) {
    soon(&Faults::PauseJob);
  }
  if (world_.random->Chance(0.3)) {
    soon(&Faults::SwitchMode);
  }
  if (world_.random->Chance(0.5)) {
    soon(&Faults::Restart);
  }
}

void Faults::ScaleToNone() {
  ScaleTo(0);
  const auto later = [this](Duration at_least, const std::function<void()>& what) {
    world_.queue->After(
        at_least + std::chrono::milliseconds(world_.random->Below(kPauseMsMax)), what);
  };
  const Duration until_parked = world_.scenario->park_after * 3;
  later(until_parked / 2, [this] { Restart(); });
  later(until_parked, [this] { ScaleTo(world_.scenario->workers); });
}

Status Faults::CheckDisk(checkpoint::Operation operation, const std::string& directory) const {
  using checkpoint::Operation;
  const bool is_writing = operation == Operation::kWrite || operation == Operation::kFlush ||
                          operation == Operation::kPrune;
  return is_writing && full_disks_.contains(directory)
             ? Status::Io(directory + ": no space left on the device")
             : Status::Ok();
}

void Faults::OnServerMessage(int node, const proto::Message& message) {
  if (armed_.scales_at_checkpoint > 0 &&
      std::holds_alternative<proto::CheckpointRequest>(message)) {
    --armed_.scales_at_checkpoint;
    world_.queue->After({}, [this] {
      if (world_.random->Chance(0.5)) {
        ScaleServers();
      } else {
        ScaleTo(world_.random->Below(world_.scenario->workers + 3));
      }
    });
  }
  if (armed_.servers_at_checkpoint > 0 &&
      std::holds_alternative<proto::CheckpointRequest>(message) &&
      world_.random->Chance(kArmedKindChance)) {
    --armed_.servers_at_checkpoint;
    world_.queue->After(SomeDiskTime(), [this, node] { KillServerNow(node); });
  }
  const auto* const setup = std::get_if<proto::ShardSetup>(&message);
  if (setup != nullptr && setup->life > 1 && world_.scenario->goes_back()) {
    OnReturn();  // to the beginning: no manifest is read for it
  }
  if (armed_.servers_at_restore > 0 && setup != nullptr && setup->life > 1) {
    --armed_.servers_at_restore;
    world_.queue->After(SomeDiskTime(), [this, node] { KillServerNow(node); });
  }
}

/// One of the three that take part in a move is in the act of it.
void Faults::OnMoveMessage(int node, bool is_giver) {
  --armed_.at_move;
  if (node == world_.coordinator_node) {
    world_.log->Info("killed_at_move", {{"role", "coordinator"}});
    world_.queue->After({}, [this] { Restart(); });
    return;
  }
  const Duration delay = world_.random->Chance(0.5) ? SomeDiskTime() : Duration{};
  world_.queue->After(delay, [this, node, is_giver] {
    if (KillServerNow(node)) {
      world_.log->Info("killed_at_move", {{"role", is_giver ? "giver" : "taker"}});
    }
  });
}

void Faults::OnMessage(int node, bool is_sent, proto::PeerId end, const proto::Message& message) {
  const bool is_order = node == world_.coordinator_node;
  if (armed_.at_move > 0 && IsOfMove(message) &&
      world_.random->Chance(is_order ? kArmedKindChance : kArmedMoveChance)) {
    OnMoveMessage(node, IsOfGiver(message, is_sent));
  }
  if (armed_.restarts > 0 && node == world_.coordinator_node &&
      world_.random->Chance(kArmedChance)) {
    --armed_.restarts;
    world_.queue->After({}, [this] { Restart(); });  // it is in the middle of an event
  }
  if (world_.servers->Find(node) != nullptr) {
    OnServerMessage(node, message);
    return;
  }
  if (armed_.kills == 0 && armed_.at_join == 0 && armed_.at_leave == 0) {
    return;
  }
  Fleet::Process* const process = world_.fleet->Find(node);
  if (process == nullptr || !process->node->is_alive()) {
    return;
  }
  if (armed_.kills > 0 && world_.random->Chance(kArmedChance)) {
    --armed_.kills;
    world_.fleet->Kill(process);
    return;
  }
  uint32_t* const armed = IsOfJoining(message)   ? &armed_.at_join
                          : IsOfLeaving(message) ? &armed_.at_leave
                                                 : nullptr;
  if (armed == nullptr || *armed == 0 || !world_.random->Chance(kArmedKindChance)) {
    return;
  }
  --*armed;
  if (world_.random->Chance(0.5)) {
    world_.fleet->Kill(process);
  } else {
    world_.network->BreakConnection(end);
  }
}

}  // namespace ps::sim
