#include "provisioner/simulator/simulation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "ps/base/random.h"

namespace ps::provisioner {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
constexpr size_t kOnDemand = std::numeric_limits<size_t>::max();  // instead of a machine's index

/// What happens at one moment, in this order.
enum class EventKind : unsigned char { kPriced, kReady, kGone, kAppears, kNoticed, kInterval };

struct Event {
  double at_s = 0;
  EventKind kind = EventKind::kInterval;
  size_t machine = 0;
  uint64_t launch = 0;  // of kReady

  friend bool operator>(const Event& a, const Event& b) {
    return std::tie(a.at_s, a.kind, a.machine, a.launch) >
           std::tie(b.at_s, b.kind, b.machine, b.launch);
  }
};

/// Machines of one market that are held, by the order in which they were asked for.
class HeldMachines {
 public:
  void Start(uint64_t launch, size_t machine) { held_[launch] = {machine, kForever}; }

  /// False: it was let go meanwhile.
  bool Ready(uint64_t launch, double now_s) {
    const auto found = held_.find(launch);
    if (found == held_.end()) {
      return false;
    }
    found->second.ready_s = now_s;
    ++ready_;
    return true;
  }

  /// Lets a machine go. Returns since when it was ready; infinity: it never was.
  double Drop(uint64_t launch) {
    const auto found = held_.find(launch);
    const double ready_s = found->second.ready_s;
    ready_ -= ready_s < kForever ? 1 : 0;
    held_.erase(found);
    return ready_s;
  }

  uint64_t newest() const { return held_.rbegin()->first; }

  size_t MachineOf(uint64_t launch) const { return held_.at(launch).machine; }

  uint32_t size() const { return static_cast<uint32_t>(held_.size()); }

  uint32_t ready() const { return ready_; }

 private:
  struct Held {
    size_t machine = 0;
    double ready_s = kForever;
  };

  std::map<uint64_t, Held> held_;
  uint32_t ready_ = 0;
};

class Simulation {
 public:
  Simulation(
      const SimulatedJob& job,
      std::span<const SpotMachine> machines,
      double end_s,
      FleetPolicy* policy)
      : job_(job),
        end_s_(end_s),
        policy_(policy),
        launch_of_(machines.size(), 0),
        tries_(machines.size(), 0),
        book_(job) {
    for (size_t i = 0; i < job.spot_prices.size(); ++i) {
      Add({job.spot_prices[i].at_s, EventKind::kPriced, i});
    }
    for (size_t i = 0; i < machines.size(); ++i) {
      Add({machines[i].begin_s, EventKind::kAppears, i});
      Add({machines[i].end_s, EventKind::kGone, i});
    }
    Add({0, EventKind::kInterval});
  }

  SimulationResult Run() {
    while (!result_.is_reached && now_s_ < end_s_) {
      const double at_s = events_.empty() ? end_s_ : std::min(events_.top().at_s, end_s_);
      Advance(at_s);
      if (result_.is_reached || now_s_ >= end_s_) {
        break;
      }
      bool is_asked = false;
      while (!events_.empty() && events_.top().at_s <= now_s_) {
        const Event event = events_.top();
        events_.pop();
        ++result_.events;
        is_asked = Take(event) || is_asked;
      }
      if (is_asked) {
        Ask();
      }
      Note();
    }
    Note();
    result_.seconds = now_s_;
    return std::move(result_);
  }

 private:
  void Add(const Event& event) {
    if (event.at_s < end_s_) {
      events_.push(event);
    }
  }

  uint32_t available() const { return static_cast<uint32_t>(available_.size()); }

  uint32_t ready() const { return spot_.ready() + on_demand_.ready(); }

  uint32_t working() const { return std::min(ready(), job_.workers_max()); }

  /// Trains until then, or until the goal.
  void Advance(double at_s) {
    const double rate = job_.samples_per_s[working()];
    double seconds = at_s - now_s_;
    const double left = job_.samples_wanted - result_.samples;
    if (job_.samples_wanted > 0 && rate * seconds >= left) {
      seconds = left / rate;
      result_.is_reached = true;
    }
    result_.samples += rate * seconds;
    book_.Pass(seconds, FleetNow(), rate * seconds);
    now_s_ = result_.is_reached ? now_s_ + seconds : at_s;
  }

  /// Whether the policy is to be asked.
  bool Take(const Event& event) {
    switch (event.kind) {
      case EventKind::kPriced:
        book_.SetSpotPrice(job_.spot_prices[event.machine].usd_per_hour);
        return false;
      case EventKind::kReady:
        return event.machine == kOnDemand ? on_demand_.Ready(event.launch, now_s_)
                                          : TakeReady(event.machine, event.launch);
      case EventKind::kAppears:
        available_.insert(event.machine);
        free_.insert(event.machine);
        return true;
      case EventKind::kGone:
        Revoke(event.machine);
        return true;
      case EventKind::kNoticed:
        --unnoticed_;
        return true;
      case EventKind::kInterval:
        counts_.push_back(available());
        is_interval_ = true;
        Add({static_cast<double>(counts_.size()) * job_.interval_s, EventKind::kInterval});
        return true;
    }
    return false;
  }

  void Revoke(size_t machine) {
    available_.erase(machine);
    free_.erase(machine);
    if (launch_of_[machine] == 0) {
      return;
    }
    const double per_ready_worker = ready() == 0 ? 0 : 1.0 / ready();
    const double rate = job_.samples_per_s[working()] * per_ready_worker;
    const double share = working() * per_ready_worker;
    const double ready_s = spot_.Drop(launch_of_[machine]);
    launch_of_[machine] = 0;
    ++result_.revocations;
    if (ready_s < kForever) {
      if (job_.detect_s > 0) {
        ++unnoticed_;
        Add({now_s_ + job_.detect_s, EventKind::kNoticed, machine});
      }
      const double lost_s = std::min(job_.lost_s, now_s_ - ready_s);
      result_.samples = std::max(0.0, result_.samples - rate * lost_s);
      result_.lost_node_s += share * lost_s;
    }
  }

  /// Whether a worker or nothing came of a start, so that the policy is to be asked.
  bool TakeReady(size_t machine, uint64_t launch) {
    if (launch_of_[machine] != launch) {
      return false;  // let go or lost meanwhile
    }
    if (ToUnit(CounterRandom(job_.failure_seed, machine, tries_[machine]++)) >=
        job_.launch_failures) {
      return spot_.Ready(launch, now_s_);
    }
    DropSpot(machine);
    ++result_.failed_starts;
    return true;
  }

  uint64_t Launch(size_t machine) {
    Add({now_s_ + job_.start_s, EventKind::kReady, machine, ++launches_});
    ++result_.starts;
    return launches_;
  }

  void StartSpot(size_t machine) {
    free_.erase(machine);
    launch_of_[machine] = Launch(machine);
    spot_.Start(launch_of_[machine], machine);
  }

  void DropSpot(size_t machine) {
    if (launch_of_[machine] != 0) {
      spot_.Drop(launch_of_[machine]);
      launch_of_[machine] = 0;
      free_.insert(machine);
    }
  }

  /// Lets the policy decide, and does so.
  void Ask() {
    FleetWish wish = policy_->Decide(
        {.now_s = now_s_,
         .is_interval = is_interval_,
         .counts = counts_,
         .available = available(),
         .spot = spot_.size() + unnoticed_,
         .spot_working = spot_.ready() + unnoticed_,
         .on_demand = on_demand_.size(),
         .on_demand_working = on_demand_.ready(),
         .samples = result_.samples});
    is_interval_ = false;
    wish.spot = std::min(wish.spot, available());
    result_.plans += wish == wish_ ? 0 : 1;
    wish_ = wish;
    while (spot_.size() > wish.spot) {
      DropSpot(spot_.MachineOf(spot_.newest()));
    }
    while (spot_.size() + unnoticed_ < wish.spot) {
      StartSpot(*free_.begin());
    }
    while (on_demand_.size() > wish.on_demand) {
      on_demand_.Drop(on_demand_.newest());
    }
    while (on_demand_.size() < wish.on_demand) {
      on_demand_.Start(Launch(kOnDemand), kOnDemand);
    }
  }

  SimulatedFleet FleetNow() const {
    return {available(), spot_.size(), on_demand_.size(), working()};
  }

  void Note() { book_.Note(now_s_, FleetNow(), result_.samples); }

  const SimulatedJob& job_;
  const double end_s_;
  FleetPolicy* const policy_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_s_ = 0;
  std::set<size_t> available_;
  std::set<size_t> free_;            // of these: not held
  std::vector<uint64_t> launch_of_;  // by machine; 0: not held
  std::vector<uint32_t> tries_;      // by machine: starts that ended in a worker or in nothing
  HeldMachines spot_;
  HeldMachines on_demand_;
  uint32_t unnoticed_ = 0;  // workers that are gone, whose seats are still theirs
  uint64_t launches_ = 0;
  std::vector<uint32_t> counts_;
  bool is_interval_ = false;
  FleetWish wish_;
  SimulationBook book_;
  SimulationResult& result_ = book_.result;
};

}  // namespace

Result<SimulationResult> Simulate(
    const SimulatedJob& job,
    std::span<const SpotMachine> machines,
    double end_s,
    FleetPolicy* policy) {
  PS_TRY(CheckSimulation(job, end_s));
  return Simulation(job, machines, end_s, policy).Run();
}

}  // namespace ps::provisioner
