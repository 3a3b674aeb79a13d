#include "tests/sim/fleet.h"

#include <string>
#include <utility>

namespace ps::sim {
namespace {

constexpr Duration kStartTime = std::chrono::milliseconds(20);
constexpr uint64_t kReplaceMsMax = 3000;
constexpr uint64_t kReportMsMax = 20;

}  // namespace

void Fleet::Start(std::optional<WorkerId> seat, LaunchId launch, const std::string& zone) {
  const Scenario& scenario = *world_.scenario;
  Process* const process = Launch(seat, launch, zone);
  ++starts_;
  if (zones_out_.contains(zone) ||
      (scenario.failed_start_every > 0 && starts_ % scenario.failed_start_every == 0)) {
    FailToStart(process);
  }
  if (starts_ <= scenario.doubled_starts) {
    Launch(seat, launch, zone);
  }
}

void Fleet::FailToStart(Process* process) {
  world_.queue->After(kStartTime / 2, [this, process] {
    if (!process->has_ended) {
      process->has_ended = true;
      ReportEnd(*process, "was not started: no machine is free", true);
    }
  });
}

void Fleet::LoseZone(const std::string& zone) {
  zones_out_.insert(zone);
  for (size_t i = 0; i < processes_.size(); ++i) {
    Process* const process = processes_[i].get();
    if (process->zone != zone) {
      continue;
    }
    if (process->is_alive()) {
      Kill(process);
    } else if (process->node == nullptr) {
      FailToStart(process);
    }
  }
}

Fleet::Process* Fleet::Launch(
    std::optional<WorkerId> seat, LaunchId launch, const std::string& zone) {
  const size_t number = processes_.size();
  processes_.push_back(std::make_unique<Process>());
  Process* const process = processes_.back().get();
  process->seat = seat;
  process->launch = launch;
  process->zone = zone;
  process->run = run_;
  process->pid = 1000 + static_cast<int64_t>(number);
  const std::string name = seat ? "w" + std::to_string(seat->value) : "x" + std::to_string(number);
  process->log = std::make_unique<Logger>(name, world_.queue, world_.sink);
  world_.queue->After(kStartTime, [this, process] {
    if (!process->has_ended) {
      Run(process);
    }
  });
  return process;
}

int64_t Fleet::PidOf(const Process& process) const {
  const bool has_name = process.launch != LaunchId() && world_.scenario->doubled_starts == 0;
  return has_name ? 1 : process.pid;
}

void Fleet::Run(Process* process) {
  const Scenario& scenario = *world_.scenario;
  const uint32_t speed = process->seat ? process->seat->value % 3 : 1;
  WorkerNode::Options options;
  options.core.join.has_seat = process->seat.has_value();
  options.core.join.seat = process->seat.value_or(WorkerId());
  options.core.join.pid = PidOf(*process);
  options.core.join.launch = process->launch;
  options.core.timing = proto::Timing::FromMaxDetect(kSimulatedMaxDetect);
  options.core.seed = scenario.seed * 100 + static_cast<uint64_t>(process->pid);
  options.settings.overlap = scenario.overlap;
  options.settings.frame_bytes = scenario.frame_kib << 10U;
  options.settings.timing = options.core.timing;
  for (const TensorSpec& tensor : SimulatedTensors(scenario)) {
    options.settings.tensor_elements.push_back(tensor.element_count());
    const proto::PushKind kind = proto::PushKindOf(tensor.rule);
    options.settings.tensor_encodings.push_back(
        proto::PushEncodingOf(proto::PushEncodingOf(SimulatedJob(scenario)), kind));
    options.settings.tensor_pushes.push_back(kind);
  }
  options.settings.steps = proto::StepSettingsOf(SimulatedJob(scenario));
  options.doubles_residual = scenario.sabotage == Sabotage::kDoubledResidual;
  options.doubles_hand_over = scenario.sabotage == Sabotage::kDoubledHandOver;
  options.doubles_differences = scenario.sabotage == Sabotage::kDoubledDifference;
  options.takes_during_tasks = process->pid % 2 == 1;
  options.step_time = std::chrono::milliseconds(20 + 25 * speed);
  options.coordinator_node = world_.coordinator_node;
  options.hides_cuts = scenario.sabotage == Sabotage::kWholeStep;
  options.clock_ahead = ClockAheadOf(scenario, static_cast<uint64_t>(process->pid));
  options.on_exit = [this, process](const Status& status) {
    world_.log->Info("worker_exited", {{"pid", process->pid}, {"status", status}});
    ReportEnd(*process, "exited with code 0");
    if (!status.ok() && !is_over_()) {
      Replace(*process);
    }
  };
  process->node = std::make_unique<WorkerNode>(
      std::move(options), world_.queue, world_.network, world_.oracle, process->log.get());
  by_node_[process->node->node()] = process;
  process->node->Start();
}

void Fleet::ReportEnd(const Process& process, const char* description, bool is_place) {
  if (process.launch != LaunchId() && process.run == run_) {
    on_end_(
        {proto::ProcessKind::kWorker,
         process.seat->value,
         process.launch,
         description,
         false,
         "",
         is_place});
  }
}

void Fleet::KillSeat(WorkerId seat) {
  const size_t count = processes_.size();
  for (size_t i = 0; i < count; ++i) {
    Process* const process = processes_[i].get();
    if (process->seat != seat) {
      continue;
    }
    if (process->is_alive()) {
      Kill(process);
    } else if (process->node == nullptr && !process->has_ended) {
      process->has_ended = true;
      ReportEnd(*process, "killed by signal 9 (Killed)");
      Replace(*process);
    }
  }
}

void Fleet::Supersede(WorkerId seat) {
  for (const auto& other : processes_) {
    Process* const process = other.get();
    if (process->seat != seat) {
      continue;
    }
    if (process->is_alive()) {
      process->node->Kill(world_.random->Chance(0.5));
      ReportLater(process, kReplaceMsMax);
    } else if (process->node == nullptr && !process->has_ended) {
      process->has_ended = true;
      ReportLater(process, kReplaceMsMax);
    }
  }
}

void Fleet::ReportLater(Process* process, uint64_t ms_max) {
  const auto delay = std::chrono::milliseconds(world_.random->Below(ms_max));
  world_.queue->After(
      delay, [this, process] { ReportEnd(*process, "killed by signal 9 (Killed)"); });
}

void Fleet::Kill(Process* process) {
  const uint64_t how = world_.random->Below(4);
  process->node->Kill(how == 3);
  world_.log->Info("killed", {{"pid", process->pid}, {"how", how}});
  // A coordinator that replaces workers relies on hearing of every end, be it late.
  if (how < 3 || world_.scenario->is_replacing) {
    ReportLater(process, how < 2 ? kReportMsMax : kReplaceMsMax);
  }
  Replace(*process);
}

void Fleet::Freeze(const Process& process) {
  world_.log->Info("frozen", {{"pid", process.pid}});
  world_.network->Pause(process.node->node(), kForEver);
  Replace(process);
}

void Fleet::Replace(const Process& process) {
  if (!process.seat || world_.scenario->is_replacing) {
    return;
  }
  const auto delay = std::chrono::milliseconds(world_.random->Below(kReplaceMsMax));
  world_.queue->After(delay, [this, seat = process.seat, run = process.run] {
    if (run == run_ && !is_over_()) {
      // Where nobody is lost, nobody takes the seat of another either.
      const bool is_any = world_.scenario->is_gentle() && is_taken_(*seat);
      Start(is_any ? std::nullopt : seat);
    }
  });
}

void Fleet::EndAll() {
  ++run_;
  for (const auto& process : processes_) {
    process->has_ended = true;
    if (process->is_alive()) {
      process->node->Kill(false);
    }
  }
}

Fleet::Process* Fleet::PickAlive() {
  std::vector<Process*> alive;
  for (const auto& process : processes_) {
    if (process->is_alive()) {
      alive.push_back(process.get());
    }
  }
  return alive.empty() ? nullptr : alive[world_.random->Below(alive.size())];
}

Fleet::Process* Fleet::Find(int node) {
  const auto it = by_node_.find(node);
  return it == by_node_.end() ? nullptr : it->second;
}

}  // namespace ps::sim
