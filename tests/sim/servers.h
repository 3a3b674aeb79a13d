#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ps/base/logger.h"
#include "ps/base/random.h"
#include "ps/proto/fleet_actions.h"
#include "tests/checkpoint/memory_storage.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/faults/deaf_storage.h"
#include "tests/sim/network.h"
#include "tests/sim/oracle/oracle.h"
#include "tests/sim/scenario.h"
#include "tests/sim/shard_node.h"

namespace ps::sim {

/// The server processes of a run, started and killed as a launcher does it. The shards of a process
/// live, sleep and die together.
class Servers {
 public:
  /// A process, as one of its shards has it.
  struct Process {
    uint32_t server = 0;
    ShardId shard;
    int node = -1;
    LaunchId launch;
    bool is_alive = true;
    uint32_t run = 0;  // that it is part of
    std::unique_ptr<ShardNode> shard_node;
  };

  /// What it is part of; all outlive it.
  struct World {
    const Scenario* scenario = nullptr;
    Random* random = nullptr;
    EventQueue* queue = nullptr;
    Network* network = nullptr;
    LogSink* sink = nullptr;
    const Logger* log = nullptr;
    checkpoint::MemoryStorage* storage = nullptr;
    int coordinator_node = 0;
  };

  /// Who hears what.
  struct Listeners {
    /// A process has begun.
    std::function<void(const Process&)> start;
    /// What a launcher reports of a process.
    std::function<void(const proto::ProcessEnd&)> end;
    /// A process has done something outside the delivery of a message.
    std::function<void(const Process&)> work;
    /// It begins to write a checkpoint, in the middle of something; its part is on the disk.
    std::function<void(const Process&, uint64_t checkpoint)> snapshot;
    std::function<void(const Process&, uint64_t checkpoint)> part;
  };

  Servers(const World& world, Listeners listeners)
      : world_(world), listeners_(std::move(listeners)), deaf_storage_(world.storage) {}

  /// Another process of the server: the first one at once, a later one after a while.
  void Start(uint32_t server, LaunchId launch);

  /// Half of the deaths are told by the launcher at once, a quarter late, after closed connections,
  /// a quarter by nothing but silence. In silence the machine goes with its unsynced writes.
  void Kill(Process* process);

  /// As under SIGSTOP.
  void Pause(const Process& process, Duration how_long);

  /// As a launcher kills the processes of a server, but for the launch `keep`: half of them at
  /// once, the others when their machine is reached.
  void KillAllOf(uint32_t server, LaunchId keep);

  /// All are gone, with those that are being started, and nobody tells: another run begins. With
  /// their machines, with what was not flushed.
  void EndAll(bool with_machines);

  /// A process of the server is there.
  bool Has(uint32_t server) const;

  /// One that is alive, or null.
  Process* PickAlive();

  template <typename Visit>
  void ForEachAlive(const Visit& visit) const {
    for (const auto& process : processes_) {
      if (process->is_alive) {
        visit(*process);
      }
    }
  }

  /// Whether every server has a process (the one in its place, or the newest) that is awake and not
  /// cut off from the coordinator, or that is about to begin.
  bool AreAllThere() const;

  /// The process behind a node, or null.
  Process* Find(int node);

 private:
  void Run(uint32_t server, LaunchId launch);
  void RunShard(uint32_t server, LaunchId launch, ShardId shard);
  void Tick(Process* process);
  void End(Process* process);
  void KillNow(Process* process);

  /// All shards of the process.
  template <typename Visit>
  void ForEachShard(const Process& process, const Visit& visit) const {
    for (const auto& other : processes_) {
      if (other->server == process.server && other->launch == process.launch) {
        visit(other.get());
      }
    }
  }

  void ReportEnd(const Process& process, const char* description);

  const World world_;
  const Listeners listeners_;
  DeafStorage deaf_storage_;
  std::vector<std::unique_ptr<Process>> processes_;  // ever started, by shard
  std::map<int, Process*> by_node_;
  std::map<uint32_t, LaunchId> newest_;  // of each server
  uint32_t run_ = 0;
};

}  // namespace ps::sim
