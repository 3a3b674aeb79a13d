#include "tests/sim/servers.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace ps::sim {
namespace {

constexpr uint64_t kServerRestartMsMax = 400;
constexpr uint64_t kServerReportMsMax = 20;
constexpr uint64_t kLateReportMsMax = 2000;  // as the agent of a process elsewhere may tell it

}  // namespace

void Servers::Start(uint32_t server, LaunchId launch) {
  if (!newest_.contains(server)) {
    Run(server, launch);
  } else {
    const auto delay = std::chrono::milliseconds(world_.random->Below(kServerRestartMsMax));
    world_.queue->After(delay, [this, server, launch, run = run_] {
      if (run == run_) {
        Run(server, launch);
      }
    });
  }
  newest_[server] = launch;
}

bool Servers::AreAllThere() const {
  // The newest process of one that has a notice may wait for its place.
  const bool have_successors =
      world_.scenario->server_notices + world_.scenario->server_revocations > 0;
  std::map<ShardId, const Process*> present;
  for (const auto& process : processes_) {
    if (process->run != run_) {
      continue;
    }
    if (have_successors ? process->shard_node->IsSetUp()
                        : newest_.at(process->server) == process->launch) {
      present[process->shard] = process.get();
    }
  }
  return std::ranges::none_of(present, [this](const auto& entry) {
    return !entry.second->is_alive || world_.network->IsAsleep(entry.second->node) ||
           world_.network->IsCut(entry.second->node, world_.coordinator_node);
  });
}

void Servers::Run(uint32_t server, LaunchId launch) {
  const uint32_t count = world_.scenario->shards_per_server;
  for (uint32_t i = 0; i < count; ++i) {
    RunShard(server, launch, ShardId(server * count + i));
  }
}

void Servers::RunShard(uint32_t server, LaunchId launch, ShardId shard) {
  const Scenario& scenario = *world_.scenario;
  processes_.push_back(std::make_unique<Process>());
  Process* const process = processes_.back().get();
  process->server = server;
  process->shard = shard;
  process->launch = launch;
  process->run = run_;
  ShardNode::Options options;
  options.shard = process->shard;
  options.settings = server::ShardSettings::Of(SimulatedJob(scenario));
  if (scenario.sabotage == Sabotage::kFleetNotSeen) {
    proto::JobConfig job = SimulatedJob(scenario);
    job.train.lr_policy = proto::LrPolicy::kFixed;
    options.settings.lr_policy = server::LrPolicy(job);
  }
  options.settings.commit_slice_bytes = kSimulatedSliceBytes;
  if (scenario.held_kib > 0) {
    options.settings.held_bytes_max = uint64_t{scenario.held_kib} << 10U;
  }
  options.launch = launch;
  options.seed = scenario.seed * 100 + processes_.size();
  checkpoint::Storage* storage = world_.storage;
  if (scenario.sabotage == Sabotage::kMissedLoss) {
    storage = &deaf_storage_;
  }
  options.storage = scenario.has_checkpoints() ? storage : nullptr;
  options.disk_delay_max = scenario.disk_delay_max;
  options.clock_ahead = ClockAheadOf(scenario, 100'000 + launch.value);
  options.sabotage = scenario.sabotage;
  options.after_work = [this, process] { listeners_.work(*process); };
  options.on_snapshot = [this, process](uint64_t checkpoint) {
    listeners_.snapshot(*process, checkpoint);
  };
  options.on_part = [this, process](uint64_t checkpoint) { listeners_.part(*process, checkpoint); };
  process->shard_node =
      std::make_unique<ShardNode>(options, world_.queue, world_.network, world_.sink);
  process->node = process->shard_node->node();
  by_node_[process->node] = process;
  listeners_.start(*process);
  process->shard_node->Start(world_.coordinator_node);
  Tick(process);
}

/// Ticks for as long as the shard lives.
void Servers::Tick(Process* process) {
  world_.network->WhenAwake(process->node, [this, process] {
    process->shard_node->Tick();
    if (process->shard_node->IsShutDown()) {
      End(process);
      return;
    }
    world_.queue->After(
        proto::Timing::FromMaxDetect(kSimulatedMaxDetect).tick, [this, process] { Tick(process); });
  });
}

/// A process ends with its last shard; one that fails ends the others.
void Servers::End(Process* process) {
  const bool has_failed = process->shard_node->HasFailed();
  bool is_last = true;
  ForEachShard(*process, [&](Process* shard) {
    if (shard->is_alive && (has_failed || shard == process)) {
      shard->is_alive = false;
      shard->shard_node->Kill(false);
    }
    is_last = is_last && !shard->is_alive;
  });
  if (is_last) {
    ReportEnd(*process, "exited");
  }
}

void Servers::ReportEnd(const Process& process, const char* description) {
  if (process.run != run_) {
    return;
  }
  listeners_.end(
      {proto::ProcessKind::kServer, process.server, process.launch, description, false, ""});
}

void Servers::Kill(Process* process) {
  const uint64_t how = world_.random->Below(4);
  const bool is_silent = how == 3;
  world_.log->Info("server_killed", {{"server", process->server}, {"how", how}});
  ForEachShard(*process, [&](Process* shard) {
    if (shard->is_alive) {
      shard->is_alive = false;
      shard->shard_node->Kill(is_silent);
    }
  });
  const bool is_alone = std::ranges::none_of(processes_, [&](const auto& other) {
    return other->is_alive && other->server == process->server;
  });
  if (is_silent && is_alone) {
    ForEachShard(*process, [&](const Process* shard) {
      world_.storage->LoseMachine(
          std::string(kCheckpointPath) + "/" + checkpoint::ShardDirectory(shard->shard));
    });
  }
  if (!is_silent) {
    const auto delay = std::chrono::milliseconds(
        world_.random->Below(how < 2 ? kServerReportMsMax : kLateReportMsMax));
    world_.queue->After(
        delay, [this, process] { ReportEnd(*process, "killed by signal 9 (Killed)"); });
  }
}

void Servers::EndAll(bool with_machines) {
  ++run_;
  newest_.clear();
  std::set<ShardId> shards;
  for (const auto& process : processes_) {
    if (std::exchange(process->is_alive, false)) {
      process->shard_node->Kill(with_machines);
      shards.insert(process->shard);
    }
  }
  for (const ShardId shard : with_machines ? shards : std::set<ShardId>()) {
    world_.storage->LoseMachine(
        std::string(kCheckpointPath) + "/" + checkpoint::ShardDirectory(shard));
  }
}

void Servers::Pause(const Process& process, Duration how_long) {
  ForEachShard(
      process, [&](const Process* shard) { world_.network->Pause(shard->node, how_long); });
}

void Servers::KillAllOf(uint32_t server, LaunchId keep) {
  if (world_.scenario->sabotage == Sabotage::kNobodyKilled) {
    return;
  }
  std::set<LaunchId> killed;
  const size_t count = processes_.size();
  for (size_t i = 0; i < count; ++i) {
    Process* const process = processes_[i].get();
    if (process->server != server || process->launch == keep || !process->is_alive ||
        !killed.insert(process->launch).second) {
      continue;
    }
    const bool is_at_once = world_.random->Below(2) == 0;
    const auto delay =
        std::chrono::milliseconds(is_at_once ? 0 : world_.random->Below(kLateReportMsMax));
    world_.queue->After(delay, [this, process] { KillNow(process); });
  }
}

/// All that is left of the process.
void Servers::KillNow(Process* process) {
  bool was_alive = false;
  ForEachShard(*process, [&](Process* shard) {
    if (std::exchange(shard->is_alive, false)) {
      was_alive = true;
      shard->shard_node->Kill(false);
    }
  });
  if (was_alive) {
    ReportEnd(*process, "killed");
  }
}

bool Servers::Has(uint32_t server) const {
  return std::ranges::any_of(processes_, [server](const auto& process) {
    return process->is_alive && process->server == server;
  });
}

Servers::Process* Servers::PickAlive() {
  std::vector<Process*> alive;
  for (const auto& process : processes_) {
    if (process->is_alive) {
      alive.push_back(process.get());
    }
  }
  return alive.empty() ? nullptr : alive[world_.random->Below(alive.size())];
}

Servers::Process* Servers::Find(int node) {
  const auto it = by_node_.find(node);
  return it == by_node_.end() ? nullptr : it->second;
}

}  // namespace ps::sim
