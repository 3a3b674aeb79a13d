#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "provisioner/simulator/simulation_input.h"

namespace ps::run {

/// The machines of one pool while a run goes on.
class HeldPool {
 public:
  HeldPool(std::span<const provisioner::SpotMachine> machines, double billed_s_min)
      : machines_(machines), billed_s_min_(billed_s_min) {}

  int held() const { return static_cast<int>(held_.size()); }

  int WorkingAt(double now_s) const {
    return static_cast<int>(
        std::ranges::count_if(held_, [&](const Held& one) { return one.ready_s <= now_s; }));
  }

  /// When the fleet changes next: a machine that it lacks comes, one of its own goes or is ready.
  double NextChange(double now_s) const {
    const bool may_take = held() < wanted_ && next_ < machines_.size();
    double next_s = may_take ? machines_[next_].begin_s : std::numeric_limits<double>::infinity();
    for (const Held& one : held_) {
      next_s = std::min(next_s, machines_[one.machine].end_s);
      next_s = one.ready_s > now_s ? std::min(next_s, one.ready_s) : next_s;
    }
    return next_s;
  }

  struct Gone {
    int working = 0;
    int starting = 0;
  };

  /// Lets those go that are gone by now.
  Gone Pass(double now_s) {
    Gone gone;
    std::erase_if(held_, [&](const Held& one) {
      const bool is_gone = machines_[one.machine].end_s <= now_s;
      gone.working += is_gone && one.ready_s < now_s ? 1 : 0;
      gone.starting += is_gone && one.ready_s >= now_s ? 1 : 0;
      unbilled_s_ += is_gone ? UnbilledOf(one, now_s) : 0;
      return is_gone;
    });
    return gone;
  }

  /// Takes what is free until so many are held: machines by their begin, then those given back.
  void Fill(int wanted, double now_s, double ready_s) {
    wanted_ = wanted;
    const auto take = [&](size_t machine) {
      if (machines_[machine].end_s > now_s) {
        held_.push_back({machine, now_s, ready_s});
      }
    };
    while (held() < wanted && next_ < machines_.size() && machines_[next_].begin_s <= now_s) {
      take(next_++);
    }
    for (; held() < wanted && !returned_.empty(); returned_.erase(returned_.begin())) {
      take(returned_.front());
    }
  }

  /// Gives the newest back until so many are held.
  void Shrink(int wanted, double now_s) {
    while (held() > std::max(wanted, 0)) {
      unbilled_s_ += UnbilledOf(held_.back(), now_s);
      returned_.push_back(held_.back().machine);
      held_.pop_back();
    }
  }

  /// Machine-seconds that are paid for beside those held: of machines that went before the least
  /// that one is paid for.
  double UnbilledUntil(double now_s) const {
    double seconds = unbilled_s_;
    for (const Held& one : held_) {
      seconds += UnbilledOf(one, now_s);
    }
    return seconds;
  }

 private:
  struct Held {
    size_t machine = 0;
    double since_s = 0;
    double ready_s = 0;
  };

  double UnbilledOf(const Held& one, double now_s) const {
    return std::max(billed_s_min_ - (now_s - one.since_s), 0.0);
  }

  std::span<const provisioner::SpotMachine> machines_;
  double billed_s_min_;
  size_t next_ = 0;  // of the machines, that was not taken yet
  int wanted_ = 0;
  std::vector<size_t> returned_;
  std::vector<Held> held_;
  double unbilled_s_ = 0;
};

}  // namespace ps::run
