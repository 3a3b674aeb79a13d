#include "provisioner/simulator/simulated_launcher.h"

#include <algorithm>
#include <utility>

#include "provisioner/fleet/agent_exit.h"
#include "ps/base/check.h"
#include "ps/base/random.h"

namespace ps::provisioner {
namespace {

ProcessExit Killed() {
  ProcessExit exit;
  exit.description = "killed by signal 9 (Killed)";
  return exit;
}

/// As ps_agent says that no process came of it.
ProcessExit NotStarted() {
  ProcessExit exit;
  exit.is_failure = true;
  exit.code = kNotStartedExit;
  exit.description = "exited with code " + std::to_string(kNotStartedExit);
  return exit;
}

ProcessExit Done() {
  ProcessExit exit;
  exit.is_clean = true;
  exit.code = 0;
  exit.description = "exited with code 0";
  return exit;
}

}  // namespace

SimulatedLauncher::SimulatedLauncher(
    const SimulatedJob& job, size_t machines, const VirtualTime* clock)
    : job_(job), clock_(clock), machines_(machines) {}

void SimulatedLauncher::Offer(size_t machine) {
  machines_[machine].is_offered = true;
  if (machines_[machine].process == ProcessHandle()) {
    free_.insert(machine);
  }
}

void SimulatedLauncher::Withdraw(size_t machine) {
  machines_[machine].is_offered = false;
  free_.erase(machine);
}

ProcessHandle SimulatedLauncher::Revoke(size_t machine) {
  Withdraw(machine);
  const ProcessHandle handle = std::exchange(machines_[machine].process, ProcessHandle());
  if (handle == ProcessHandle()) {
    return handle;
  }
  Process& process = processes_.at(handle);
  --held_[static_cast<size_t>(Market::kSpot)];
  process.machine = kNone;
  process.is_gone = true;
  ++untold_;
  untold_running_ += process.is_running ? 1 : 0;
  if (job_.detect_s > 0) {
    process.told_at_s = clock_->now_s() + job_.detect_s;
    events_.emplace(process.told_at_s, handle);
  } else {
    Finish(handle, Killed());
  }
  return handle;
}

void SimulatedLauncher::End(ProcessHandle process) {
  Finish(process, Done());
}

Result<ProcessHandle> SimulatedLauncher::Start(const LaunchSpec& spec) {
  PS_CHECK(spec.kind == proto::ProcessKind::kWorker) << "servers are scripts";
  const ProcessHandle handle(++handles_);
  Process process;
  process.index = spec.index;
  process.launch = spec.launch;
  const bool is_spot = std::ranges::find(spec.arguments, kSpotPartition) != spec.arguments.end();
  process.market = is_spot ? Market::kSpot : Market::kOnDemand;
  ++starts_;
  if (is_spot && free_.empty()) {
    process.never_runs = true;
    processes_[handle] = process;
    events_.emplace(clock_->now_s(), handle);  // the queue has no place for it
    return handle;
  }
  if (is_spot) {
    process.machine = *free_.begin();
    free_.erase(free_.begin());
    Machine& machine = machines_[process.machine];
    machine.process = handle;
    process.never_runs =
        ToUnit(CounterRandom(job_.failure_seed, process.machine, machine.tries++)) <
        job_.launch_failures;
  }
  ++held_[static_cast<size_t>(process.market)];
  processes_[handle] = process;
  events_.emplace(clock_->now_s() + job_.start_s, handle);
  return handle;
}

Result<ProcessHandle> SimulatedLauncher::Adopt(const proto::LaunchRecord& /*launch*/) {
  return Status::NotFound("a simulation begins with no process");
}

Status SimulatedLauncher::Kill(ProcessHandle handle) {
  if (!processes_.contains(handle)) {
    return Status::NotFound("it has ended");
  }
  killed_.push_back(handle);
  Finish(handle, Killed());
  return Status::Ok();
}

std::vector<SimulatedLauncher::Ready> SimulatedLauncher::TakeReady() {
  std::vector<Ready> ready;
  while (!events_.empty() && std::get<0>(events_.top()) <= clock_->now_s()) {
    const ProcessHandle handle = std::get<1>(events_.top());
    events_.pop();
    const auto it = processes_.find(handle);
    if (it == processes_.end()) {
      continue;  // ended meanwhile
    }
    Process& process = it->second;
    if (process.is_gone) {
      if (process.told_at_s <= clock_->now_s()) {
        Finish(handle, Killed());
      }
    } else if (process.never_runs) {
      ++failed_starts_;
      Finish(handle, NotStarted());
    } else {
      process.is_running = true;
      ready.push_back({handle, process.index, process.launch, process.market});
    }
  }
  return ready;
}

std::vector<ProcessExit> SimulatedLauncher::PollExits() {
  return std::exchange(exits_, {});
}

void SimulatedLauncher::Finish(ProcessHandle handle, ProcessExit exit) {
  const auto it = processes_.find(handle);
  if (it == processes_.end()) {
    return;
  }
  exit.handle = handle;
  exit.index = it->second.index;
  Free(it->second);
  processes_.erase(it);
  exits_.push_back(std::move(exit));
}

void SimulatedLauncher::Free(const Process& process) {
  if (process.is_gone) {
    --untold_;
    untold_running_ -= process.is_running ? 1 : 0;
    return;
  }
  const bool has_place = process.market == Market::kOnDemand || process.machine != kNone;
  held_[static_cast<size_t>(process.market)] -= has_place ? 1 : 0;
  if (process.machine != kNone) {
    machines_[process.machine].process = ProcessHandle();
    if (machines_[process.machine].is_offered) {
      free_.insert(process.machine);
    }
  }
}

}  // namespace ps::provisioner
