#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ps/base/logger.h"
#include "ps/base/random.h"
#include "ps/proto/fleet_actions.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/network.h"
#include "tests/sim/oracle/oracle.h"
#include "tests/sim/scenario.h"
#include "tests/sim/worker_node.h"

namespace ps::sim {

/// The worker processes of a run, started, killed and replaced as a launcher does it.
class Fleet {
 public:
  struct Process {
    std::optional<WorkerId> seat;  // none: nobody started it, and it asks for any
    LaunchId launch;               // none: nobody tells its end
    int64_t pid = 0;               // as the simulation knows it
    std::string zone{};
    std::unique_ptr<Logger> log;
    std::unique_ptr<WorkerNode> node;  // none: it is being started, or was killed meanwhile
    bool has_ended = false;            // before it ran
    uint32_t run = 0;                  // that it is part of

    bool is_alive() const { return node != nullptr && node->is_alive(); }
  };

  /// What it is part of; all outlive it.
  struct World {
    const Scenario* scenario = nullptr;
    Random* random = nullptr;
    EventQueue* queue = nullptr;
    Network* network = nullptr;
    Oracle* oracle = nullptr;
    LogSink* sink = nullptr;
    const Logger* log = nullptr;
    int coordinator_node = 0;
  };

  /// `on_end` hears what a launcher reports of a process that it started; nothing is started any
  /// more once `is_over`. Whoever starts a process by hand sees who `is_taken`.
  Fleet(
      const World& world,
      std::function<void(const proto::ProcessEnd&)> on_end,
      std::function<bool()> is_over,
      std::function<bool(WorkerId seat)> is_taken)
      : world_(world),
        on_end_(std::move(on_end)),
        is_over_(std::move(is_over)),
        is_taken_(std::move(is_taken)) {}

  /// Of one launch may come no process, or two. None: somebody starts it by hand.
  void Start(std::optional<WorkerId> seat, LaunchId launch = {}, const std::string& zone = "");
  /// All machines of the zone are gone, and none is to be had there until it is given back.
  void LoseZone(const std::string& zone);

  void GiveBackZone(const std::string& zone) { zones_out_.erase(zone); }

  /// As the launcher does for a coordinator that replaces workers: what is left in the seat is
  /// killed. Its end may be told when the next one is there.
  void Supersede(WorkerId seat);
  /// As the launcher does: all living processes of the seat.
  void KillSeat(WorkerId seat);

  /// Half of the deaths are told by the launcher at once, a quarter late, after closed connections,
  /// a quarter by nothing but silence. Unless the coordinator does it, somebody replaces a process
  /// that was started for a seat, by hand, sooner or later.
  void Kill(Process* process);

  /// It does nothing any more, and nobody tells of its end. Replaced as by Kill.
  void Freeze(const Process& process);

  /// All are gone, with those that are being started, and nobody tells: another run begins.
  void EndAll();

  /// One that is alive, or null.
  Process* PickAlive();

  template <typename Visit>
  void ForEachAlive(const Visit& visit) {
    const size_t count = processes_.size();
    for (size_t i = 0; i < count; ++i) {
      if (processes_[i]->is_alive()) {
        visit(processes_[i].get());
      }
    }
  }

  /// The process behind a node, or null.
  Process* Find(int node);

 private:
  Process* Launch(std::optional<WorkerId> seat, LaunchId launch, const std::string& zone);
  /// What the process itself tells: in containers all are the first process.
  int64_t PidOf(const Process& process) const;
  /// No machine was to be had for it.
  void FailToStart(Process* process);
  void Run(Process* process);
  void ReportEnd(const Process& process, const char* description, bool is_place = false);
  void ReportLater(Process* process, uint64_t ms_max);
  void Replace(const Process& process);

  const World world_;
  const std::function<void(const proto::ProcessEnd&)> on_end_;
  const std::function<bool()> is_over_;
  const std::function<bool(WorkerId seat)> is_taken_;
  std::vector<std::unique_ptr<Process>> processes_;  // ever started
  uint32_t run_ = 0;
  uint32_t starts_ = 0;  // that were asked for
  std::map<int, Process*> by_node_;
  std::set<std::string> zones_out_;
};

}  // namespace ps::sim
