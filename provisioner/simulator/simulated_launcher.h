#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "provisioner/fleet/launcher.h"
#include "provisioner/simulator/fleet_policy.h"
#include "provisioner/simulator/virtual_time.h"

namespace ps::provisioner {

/// Words of sbatch that say in which market a worker's machine is to be.
inline constexpr std::string_view kSpotPartition = "--partition=spot";
inline constexpr std::string_view kOnDemandPartition = "--partition=on-demand";

enum class Market : uint8_t { kSpot, kOnDemand };

/// Launches workers on the machines of a trace, in virtual time, as a batch system does. A process
/// runs `start_s` after it was asked for, on one spot machine each, or it never does. A machine
/// that goes takes its process along, which is told `detect_s` later. On demand there is always a
/// machine, and it stays.
///
/// Whoever runs the simulation says which machines there are, and asks what has happened.
class SimulatedLauncher final : public Launcher {
 public:
  /// `job` and `clock` outlive it. Machines are known by an index below `machines`.
  SimulatedLauncher(const SimulatedJob& job, size_t machines, const VirtualTime* clock);

  // ---- The world --------------------------------------------------------------------------------

  /// The spot machine can be taken from now on.
  void Offer(size_t machine);
  /// It can be taken no more. Who has it keeps it.
  void Withdraw(size_t machine);
  /// It is gone, and with it the process that it had; 0 when it had none.
  ProcessHandle Revoke(size_t machine);

  /// The process that has the spot machine; 0: none.
  ProcessHandle On(size_t machine) const { return machines_[machine].process; }

  /// The program has come to its end.
  void End(ProcessHandle process);

  // ---- What has happened ------------------------------------------------------------------------

  /// When there is something to be taken next; infinity: that is not known.
  double next_at_s() const { return events_.empty() ? kNeverS : std::get<0>(events_.top()); }

  struct Ready {
    ProcessHandle process;
    uint32_t index = 0;  // its seat
    LaunchId launch;
    Market market = Market::kSpot;
  };

  /// Processes whose program runs from now on.
  std::vector<Ready> TakeReady();

  /// Processes that were killed.
  std::vector<ProcessHandle> TakeKilled() { return std::exchange(killed_, {}); }

  uint32_t held(Market market) const { return held_[static_cast<size_t>(market)]; }

  /// Processes that are gone with their machine, which nobody knows yet.
  uint32_t untold() const { return untold_; }

  /// Those of them whose program ran.
  uint32_t untold_running() const { return untold_running_; }

  uint64_t starts() const { return starts_; }

  uint64_t failed_starts() const { return failed_starts_; }

  // ---- Launcher ---------------------------------------------------------------------------------

  Result<ProcessHandle> Start(const LaunchSpec& spec) override;
  Result<ProcessHandle> Adopt(const proto::LaunchRecord& launch) override;
  Status Kill(ProcessHandle handle) override;
  std::vector<ProcessExit> PollExits() override;

  int64_t pid(ProcessHandle handle) const override { return static_cast<int64_t>(handle.value); }

 private:
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();

  struct Machine {
    bool is_offered = false;
    ProcessHandle process;
    uint64_t tries = 0;
  };

  struct Process {
    uint32_t index = 0;
    LaunchId launch;
    Market market = Market::kSpot;
    size_t machine = kNone;  // spot alone
    bool is_gone = false;    // with its machine, which is told then:
    double told_at_s = 0;
    bool never_runs = false;
    bool is_running = false;
  };

  using Event = std::tuple<double, ProcessHandle>;  // when something happens to whom

  /// The process is over, and gives its machine back.
  void Finish(ProcessHandle handle, ProcessExit exit);
  void Free(const Process& process);

  const SimulatedJob& job_;
  const VirtualTime* const clock_;
  std::vector<Machine> machines_;
  std::set<size_t> free_;  // that are offered and nobody has
  std::map<ProcessHandle, Process> processes_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<ProcessExit> exits_;
  std::vector<ProcessHandle> killed_;
  uint32_t held_[2] = {0, 0};
  uint32_t untold_ = 0;
  uint32_t untold_running_ = 0;
  uint64_t starts_ = 0;
  uint64_t failed_starts_ = 0;
  uint64_t handles_ = 0;
};

}  // namespace ps::provisioner
