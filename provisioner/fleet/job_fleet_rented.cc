// What a JobFleet does with workers whose machines are rented.

#include <fmt/core.h>

#include <string>
#include <utility>

#include "provisioner/fleet/job_fleet.h"
#include "ps/base/text.h"

namespace ps::provisioner {

using proto::ProcessKind;

namespace {

/// The book takes a machine for ready that has either address.
std::string NoAddressText(const Machine& machine, bool wants_private) {
  return fmt::format(
      "machine {} ({}) has no {}",
      machine.id,
      PoolText(machine.pool),
      wants_private ? "private address; take launch.rent.private_address away"
                    : "public address; set launch.rent.private_address if this machine is in the "
                      "provider's network, or name subnets that give public ones");
}

}  // namespace

void JobFleet::DropWaitingWorker(WorkerId seat) {
  const auto it = waiting_workers_.find(seat);
  if (it != waiting_workers_.end()) {
    const proto::LaunchRecord record{ProcessKind::kWorker, seat.value, it->second.launch, 0, 0};
    options_.rented->Drop({record.kind, record.index, record.launch}, false);
    unreported_.push_back(
        {{record.kind, record.index, record.launch, "was not started", false, ""}, record});
    waiting_workers_.erase(it);
  }
}

void JobFleet::TakeRentals() {
  if (options_.rented == nullptr) {
    return;
  }
  for (const RentalEvent& event : options_.rented->TakeEvents()) {
    switch (event.kind) {
      case RentalEvent::Kind::kReady:
        OnMachine(event);
        break;
      case RentalEvent::Kind::kFailed:
        OnNoMachine(event);
        break;
      case RentalEvent::Kind::kLost:
        OnLostMachine(event);
        break;
    }
  }
}

void JobFleet::OnMachine(const RentalEvent& event) {
  const auto it = waiting_workers_.find(WorkerId(event.seat.index));
  if (it == waiting_workers_.end() || it->second.launch != event.seat.launch) {
    options_.rented->Drop(event.seat, false);
    return;
  }
  const proto::RentConfig& rent = options_.launch.rent;
  const std::string& address =
      rent.private_address ? event.machine.private_address : event.machine.address;
  if (address.empty()) {
    options_.rented->Drop(event.seat, true);
    RentalEvent useless = event;
    useless.why = NoAddressText(event.machine, rent.private_address);
    OnNoMachine(useless);
    return;
  }
  WaitingWorker worker = std::move(it->second);
  waiting_workers_.erase(it);
  Tell(
      proto::EventCode::kMachineRented,
      {{"worker", event.seat.index},
       {"machine", event.machine.id},
       {"pool", PoolText(event.machine.pool)}});
  TellRentedStart(event);
  RemoteProcess process;
  process.host = rent.user + "@" + address;
  process.zone = event.machine.pool.zone;
  process.cpus = worker.group.threads;
  process.machine_keys = options_.machine_keys;
  StartAgent(
      SpecOf(event.seat.kind, event.seat.index, event.seat.launch),
      std::move(process),
      std::move(worker.arguments));
}

/// A machine that another worker had before, or was rented for, says nothing of how long one takes.
void JobFleet::TellRentedStart(const RentalEvent& event) const {
  if (options_.on_start != nullptr && event.asked_at) {
    options_.on_start(
        {.launch = event.seat.launch,
         .type = event.machine.pool.type,
         .zone = event.machine.pool.zone,
         .asked = *event.asked_at,
         .machine_up = options_.time->Now()});
  }
}

/// Another zone may do better.
void JobFleet::OnNoMachine(const RentalEvent& event) {
  const auto it = waiting_workers_.find(WorkerId(event.seat.index));
  if (it == waiting_workers_.end() || it->second.launch != event.seat.launch) {
    return;
  }
  waiting_workers_.erase(it);
  Tell(proto::EventCode::kNoHost, {{"worker", event.seat.index}, {"why", event.why}});
  unreported_.push_back(
      {{event.seat.kind,
        event.seat.index,
        event.seat.launch,
        "was not started",
        false,
        Printable(event.why),
        true},
       {event.seat.kind, event.seat.index, event.seat.launch, 0, 0}});
}

/// The agent would find out when the connection is silent for long.
void JobFleet::OnLostMachine(const RentalEvent& event) {
  Tell(
      proto::EventCode::kMachineLost,
      {{"worker", event.seat.index}, {"machine", event.machine.id}, {"why", event.why}});
  for (const ProcessHandle handle : WorkersIn(WorkerId(event.seat.index))) {
    Process& process = processes_.at(handle);
    if (process.launch.launch == event.seat.launch) {
      process.lost = event.is_revoked ? "was taken back" : "was lost with its machine";
      Kill(handle, &process);
    }
  }
}

}  // namespace ps::provisioner
