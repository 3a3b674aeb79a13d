#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "provisioner/fleet/job_fleet.h"
#include "provisioner/simulator/fleet_policy.h"
#include "provisioner/simulator/scripted_peers.h"
#include "provisioner/simulator/simulated_launcher.h"
#include "provisioner/simulator/simulated_options.h"
#include "provisioner/simulator/virtual_time.h"
#include "ps/base/logger.h"
#include "ps/coordinator/coordinator_core.h"

namespace ps::provisioner {

/// A job's cluster in virtual time: the production coordinator (membership, leases, ledger, fleet
/// controller) and fleet, which start workers with a simulated launcher. Workers and a shard are
/// scripts, which make steps at the rate of their number and have no values.
///
/// All workers at work are equally fast, so one clock counts the samples that each of them makes;
/// who ends its lease when is known by that clock, whatever the rate does meanwhile. Finished steps
/// are reported with the lease's last one. What a lost worker had finished before is known to the
/// shard, as in a real run, and counts.
class SimulatedCluster final : private proto::Outbox {
 public:
  /// Requires: CheckSimulation, and step_samples > 0. `job` outlives it.
  SimulatedCluster(
      const SimulatedJob& job, double end_s, size_t machines, const CoresOptions& options);
  SimulatedCluster(const SimulatedCluster&) = delete;
  SimulatedCluster& operator=(const SimulatedCluster&) = delete;
  ~SimulatedCluster() override = default;

  /// The shard comes up.
  void Start();

  double now_s() const { return clock_.now_s(); }

  /// When something happens by itself next.
  double next_at_s() const;
  /// Time passes. Requires: at most until next_at_s().
  void Pass(double until_s);
  /// Does what is due now. True: a worker came, or a loss or a failed start was told.
  bool Act();

  /// The fleet controller brings the fleet nearer to what is wanted, if there is a reason to. After
  /// a policy was asked: it hears of a loss as soon as the fleet controller does.
  void Tick();

  // What happens to it, each followed by all that comes of it.
  void Want(const FleetWish& wish);

  void Offer(size_t machine) { launcher_.Offer(machine); }

  /// The machine is to be had no more, and its worker is told. One that is starting is gone.
  void GiveNotice(size_t machine);
  void Revoke(size_t machine);
  /// Everybody reports what is finished.
  void ReportAll();

  /// Samples counted and in hand.
  double samples() const;

  uint64_t samples_counted() const { return core_->ledger().samples_counted(); }

  /// The job is done, or has failed.
  bool is_over() const { return core_->is_ending(); }

  /// Errors: kCorruption (something was refused, or the job has failed).
  Status Check() const;

  /// Verifies the coordinator's state. Cost: all of it.
  Status CheckState() const { return core_->Check(); }

  /// Machines that are paid for.
  uint32_t held(Market market) const { return launcher_.held(market); }

  /// Workers that make steps.
  uint32_t computing() const { return computing_; }

  /// What a policy is told of its fleet: lost workers until that is known, and none that leave.
  struct FleetKnown {
    uint32_t spot = 0;
    uint32_t spot_working = 0;
    uint32_t on_demand = 0;
    uint32_t on_demand_working = 0;
  };

  FleetKnown known() const;

  /// Processes that are gone with their machine, which the coordinator does not know yet.
  uint32_t untold() const { return launcher_.untold(); }

  double lost_node_s() const { return lost_node_s_; }

  uint64_t revocations() const { return revocations_; }

  uint64_t starts() const { return launcher_.starts(); }

  uint64_t failed_starts() const { return launcher_.failed_starts(); }

  /// Messages to the coordinator.
  uint64_t messages() const { return messages_; }

  uint64_t steps() const { return steps_; }

 private:
  struct Worker {
    ScriptedWorker script;
    ProcessHandle process;
    WorkerId seat;
    Market market = Market::kSpot;
    bool is_computing = false;
    bool is_leaving = false;
    double begin = 0;   // of its lease, by the work clock
    double target = 0;  // then it has something to say
    double spoke_s = 0;
  };

  using Due = std::tuple<double, ProcessHandle>;  // by the work clock

  void Send(proto::PeerId to, uint64_t request_id, proto::Message message) override;

  void Close(proto::PeerId /*peer*/) override {}

  Worker* Find(ProcessHandle process) const;
  void Give(proto::PeerId from, proto::Message message);
  void Say(Worker* worker, proto::Message message);
  /// All that follows: answers, ends of processes.
  void Settle();
  void Deliver(proto::PeerId to, const proto::Message& message);
  void Hear(Worker* worker, const proto::Message& message);
  void Connect(const SimulatedLauncher::Ready& ready);
  void Compute(Worker* worker);
  void StopComputing(Worker* worker);
  void Leave(Worker* worker, const char* why);
  /// Its lease is done, or as much of it as it is to do.
  void Finish(Worker* worker);
  /// The process is gone, and what it had in hand is lost.
  void Lose(ProcessHandle process);
  void Forget(Worker* worker);
  void Beat();
  double RateOfEach() const;
  double WorkAt() const;
  uint64_t StepsInHand(const Worker& worker) const;

  const SimulatedJob& job_;
  VirtualTime clock_;
  std::unique_ptr<Logger> own_log_;
  const Logger* const log_;
  SimulatedLauncher launcher_;
  const coordinator::CoordinatorOptions options_;
  JobFleet fleet_;
  std::unique_ptr<coordinator::CoordinatorCore> core_;
  std::vector<std::unique_ptr<Worker>> workers_;  // by process
  std::vector<Step> last_steps_;                  // by incarnation
  std::vector<std::pair<proto::PeerId, proto::Message>> sent_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  double work_ = 0;    // samples that each worker at work has made since the beginning
  double begins_ = 0;  // sum of Worker::begin over those at work
  uint32_t computing_ = 0;
  uint32_t leaving_[2] = {0, 0};    // by market
  uint32_t connected_[2] = {0, 0};  // by market, those who leave included
  double next_tick_s_ = 0;
  double next_beat_s_ = 0;
  bool is_tick_due_ = false;
  double lost_node_s_ = 0;
  uint64_t revocations_ = 0;
  uint64_t messages_ = 0;
  uint64_t steps_ = 0;
  Status trouble_;
};

}  // namespace ps::provisioner
