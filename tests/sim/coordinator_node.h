#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ps/base/logger.h"
#include "ps/base/random.h"
#include "ps/coordinator/coordinator_core.h"
#include "ps/coordinator/held_output.h"
#include "ps/coordinator/job_journal.h"
#include "tests/checkpoint/memory_storage.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/network.h"
#include "tests/sim/scenario.h"

namespace ps::sim {

/// The coordinator's process: the production core, its journal on a disk in memory, and what it
/// lets out once its rows are written. It can be killed, and then another one goes on from the
/// journal.
class CoordinatorNode final : public Node, private proto::FleetActions {
 public:
  /// All outlive it. The fleet's processes outlive the coordinator's.
  struct World {
    Random* random = nullptr;
    EventQueue* queue = nullptr;
    Network* network = nullptr;
    checkpoint::MemoryStorage* storage = nullptr;
    proto::FleetActions* fleet = nullptr;
    const Logger* log = nullptr;
    std::vector<std::string>* violations = nullptr;
    /// The job of a process, asked for when it has begun.
    std::function<coordinator::CoordinatorOptions()> options;
    std::function<void()> on_begin;
    /// The end of every event.
    std::function<void()> on_event;
    std::function<void()> on_end;
    const Scenario* scenario = nullptr;
    Sabotage sabotage = Sabotage::kNone;
  };

  explicit CoordinatorNode(World world);

  /// The first process: makes the job.
  void BeginProcess();
  /// Begins the job.
  void Start();
  void Tick();
  void OnProcessEnd(const proto::ProcessEnd& end);
  void OnManifestWritten(uint64_t checkpoint, const Status& status);
  void OnManifestRead(uint64_t checkpoint, const Result<checkpoint::Manifest>& manifest);
  void RequestStop(bool is_immediate, const std::string& why);
  /// A request of psctl's, over a connection of its own, sent again until a coordinator takes it.
  void Ask(proto::Message request);
  /// Kills the process, and has another one go on after the pause: at once; or in the next event
  /// that lets something out, when its rows are written, before or after it leaves.
  void Restart(Duration pause);

  /// The process stands still, and is killed then, with what has come for it meanwhile.
  void Freeze(Duration how_long, Duration pause);
  /// The process is gone for good, and with it its run: what was asked of it is forgotten.
  void EndRun();
  /// Another run begins, with a journal of its own. kIo: not now.
  Status BeginRun();

  const coordinator::CoordinatorCore& core() const { return *core_; }

  /// The next process refuses the journal, so the run would go on from its newest checkpoint, as
  /// another one.
  bool is_refused() const { return is_refused_; }

  /// From now on the journal's disk may refuse rows.
  void NoteJournalFault() { may_be_behind_ = true; }

  /// By its own clock.
  TimePoint Now() const { return clock_.Now(); }

  int node() const { return node_; }

  // Node.
  void OnAccepted(proto::PeerId peer, const proto::Hello& hello) override;
  void OnMessage(proto::PeerId from, uint64_t request_id, proto::Message message) override;
  void OnClosed(proto::PeerId peer) override;

  proto::Term Term() const override;

 private:
  struct Death {
    Duration pause{};
    bool is_before_sending = false;
  };

  // proto::FleetActions: notes what it starts, as a launcher does.
  void StartServer(uint32_t server, LaunchId launch) override;
  void StartWorker(WorkerId seat, LaunchId launch, const proto::WorkerGroup& group) override;

  void KillWorker(WorkerId seat) override { world_.fleet->KillWorker(seat); }

  void KillServer(uint32_t server, LaunchId keep) override {
    world_.fleet->KillServer(server, keep);
  }

  bool HasServer(uint32_t server) const override { return world_.fleet->HasServer(server); }

  void BeginOutput();
  Status OpenJournal();
  coordinator::CoordinatorOptions Options() const;
  /// The end of every event.
  void Commit();
  void CheckNow();
  void Die(Duration pause);
  void GoOn(uint64_t run);

  /// What a request of psctl's is answered leaves for nowhere.
  class Answers final : public proto::Outbox {
   public:
    Answers(Network* network, int node, const Logger* log) : nodes_(network, node), log_(log) {}

    void Send(proto::PeerId to, uint64_t request_id, proto::Message message) override;
    void Close(proto::PeerId peer) override;

   private:
    NodeOutbox nodes_;
    const Logger* const log_;
  };

  const World world_;
  const int node_;
  NodeClock clock_;
  Answers out_;
  std::optional<coordinator::HeldOutput> held_;
  std::unique_ptr<coordinator::JobJournal> journal_;
  std::unique_ptr<coordinator::CoordinatorCore> core_;
  std::optional<Death> death_;  // in the next event that lets something out
  bool is_dead_ = false;
  bool is_behind_ = false;                    // the journal, when the process ended
  std::atomic<bool> is_told_behind_ = false;  // the journal, in the supervisor's memory
  bool may_be_behind_ = false;
  bool is_unwritten_ = false;  // what it does from now on, as a fault
  bool is_refused_ = false;
  TimePoint died_at_{};
  uint64_t processes_ = 0;  // that have followed the first one
  uint64_t events_ = 0;
  uint64_t run_ = 0;
  bool has_no_run_ = false;  // the one before is over, and the next one has not begun
};

}  // namespace ps::sim
