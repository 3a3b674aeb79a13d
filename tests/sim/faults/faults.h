#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "ps/base/logger.h"
#include "ps/base/random.h"
#include "ps/proto/messages.h"
#include "tests/checkpoint/memory_storage.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/fleet.h"
#include "tests/sim/network.h"
#include "tests/sim/scenario.h"
#include "tests/sim/servers.h"

namespace ps::sim {

/// Does to a run what its scenario says: at random times, and in the act of sending or receiving.
class Faults {
 public:
  /// All outlive it.
  struct World {
    const Scenario* scenario = nullptr;
    Random* random = nullptr;
    EventQueue* queue = nullptr;
    Network* network = nullptr;
    const Logger* log = nullptr;
    Fleet* fleet = nullptr;
    Servers* servers = nullptr;
    int coordinator_node = 0;
    /// Ends the coordinator's process, and has another one go on after the pause.
    std::function<void(Duration)> restart_coordinator;
    /// It stands still for a while, and then the same happens.
    std::function<void(Duration how_long, Duration pause)> freeze_coordinator;
    std::function<void(bool is_immediate)> stop;
    /// Ends all processes of the run, which is resumed then.
    std::function<void()> crash;
    /// Sends the coordinator a request of psctl's.
    std::function<void(proto::Message)> ask;
    /// A server that is lost now can come back.
    std::function<bool()> can_lose_servers;
    /// Flips a bit of a database. False when there is nothing in it.
    std::function<bool(const std::string& directory)> damage;
    /// The disk of the coordinator's journal takes no rows, and perhaps not the mark either.
    std::function<void(bool is_full, bool are_marks_refused)> fill_journal;
    /// A database loses what is not flushed, and so many attempts to open it fail.
    std::function<void(const std::string& directory, uint32_t opens)> fail_store;
  };

  explicit Faults(World world) : world_(std::move(world)) {}

  /// All of the scenario's faults, from now on.
  void Begin();

  /// `node` is about to send this over its end of a connection, or to handle it. May kill the
  /// process or break the connection.
  void OnMessage(int node, bool is_sent, proto::PeerId end, const proto::Message& message);

  /// A checkpoint exists.
  void OnCheckpoint();
  /// All servers go back from now on.
  void OnReturn();

  bool has_checkpoint() const { return has_checkpoint_; }

  /// A server was paused for so long that it may be taken for lost.
  bool may_lose_server() const { return may_lose_server_; }

  /// Until when a server stands still that is given up meanwhile.
  TimePoint stalled_until() const { return stalled_until_; }

  /// A worker stood still for ever before it had joined: it may have been the only one.
  bool may_lack_workers() const { return may_lack_workers_; }

  /// A disk gave other bytes than it was given.
  bool has_damaged() const { return has_damaged_; }

  /// What a disk answers before it does something.
  Status CheckDisk(checkpoint::Operation operation, const std::string& directory) const;

 private:
  struct Armed {
    uint32_t kills = 0;
    uint32_t at_join = 0;
    uint32_t at_leave = 0;
    uint32_t restarts = 0;
    uint32_t servers_at_checkpoint = 0;
    uint32_t servers_at_restore = 0;
    uint32_t servers_later = 0;  // when there is a checkpoint
    uint32_t at_return = 0;
    uint32_t scales_at_checkpoint = 0;
    uint32_t at_move = 0;
  };

  void Plan(uint32_t count, void (Faults::*fault)());
  void KillOne();
  void SlowOne();
  void KillSeveral();
  void NoticeOne();
  void NoticeSeveral();
  void PartitionTwo();
  void CutOneWay();
  void CutServer();
  void CutServerOneWay();
  void CutServerOff(bool is_one_way);
  void HangOne();
  void PauseOne();
  void RestartOrArm();
  void Restart();
  void Stop();
  void Crash();
  void FreezeCoordinator();
  void KillServer();
  Duration SomeDiskTime();
  /// False when it is dead already, or there would be no way back.
  bool KillServerNow(int node);
  void DisturbReturn();
  void KillServers();
  void KillServerAndCoordinator();
  void DamageAndKillServer();
  void StallServer();
  void FillDisk();
  void FillJournal();
  void FailStore();
  std::string SomeDatabase();
  void FreezeOne();
  void FreezeServer();
  void ScaleOne();
  void ScaleTo(uint64_t workers);
  void ScaleServers();
  void MoveChunks();
  void SwitchMode();
  void SetSteps();
  void PauseJob();
  void ChangeTogether();
  void ScaleToNone();
  void KillAllWorkersAndAServer();
  void NoticeADeadOne();
  void NoticeServer();
  void RevokeServer();
  void LoseZones();
  void OnServerMessage(int node, const proto::Message& message);
  void OnMoveMessage(int node, bool is_giver);

  void ArmKill() { ++armed_.kills; }

  void ArmAtJoin() { ++armed_.at_join; }

  void ArmAtLeave() { ++armed_.at_leave; }

  void JoinOne() { world_.fleet->Start(std::nullopt); }

  const World world_;
  Armed armed_;
  bool may_lose_server_ = false;
  TimePoint stalled_until_{};
  bool may_lack_workers_ = false;
  bool has_checkpoint_ = false;
  bool has_damaged_ = false;
  std::set<std::string> full_disks_;  // databases
};

}  // namespace ps::sim
