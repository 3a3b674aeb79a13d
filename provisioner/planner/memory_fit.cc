#include "provisioner/planner/memory_fit.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

constexpr double kBytesPerGib = 1024.0 * 1024 * 1024;
// The rest is the system's, the driver's, and what is lost between allocations.
constexpr double kUsable = 0.9;
// Whatever comes to what is known, optimizer's values, copies and buffers, is less than this many
// times as much.
constexpr double kUnknownMost = 8;
constexpr size_t kNamesMost = 5;

std::string BytesText(double bytes) {
  return FormatBytes(static_cast<uint64_t>(std::llround(bytes)));
}

double UsableBytes(double gib) {
  return gib > 0 ? kUsable * gib * kBytesPerGib : std::numeric_limits<double>::infinity();
}

std::string WhyTooLittle(double bytes, double gib, const char* where, bool is_all) {
  return fmt::format(
      "{}{} of {}, where {} may be used",
      is_all ? "" : "parameters and gradients alone take ",
      BytesText(bytes),
      where,
      BytesText(UsableBytes(gib)));
}

/// "left out as workers, since the job does not fit: a (why), b (why) and 3 more"; empty: none.
std::string NoteOf(const PlanProblem& problem, bool is_server) {
  std::string names;
  size_t count = 0;
  for (const LeftOut& some : problem.left_out) {
    if (some.is_server == is_server && ++count <= kNamesMost) {
      names += fmt::format("{}{} ({})", count == 1 ? "" : ", ", some.instance_type, some.why);
    }
  }
  if (count == 0) {
    return "";
  }
  if (count > kNamesMost) {
    names += fmt::format(" and {} more", count - kNamesMost);
  }
  return fmt::format(
      "left out as {}, since the job does not fit into memory: {}",
      is_server ? "servers" : "workers",
      names);
}

/// Whether what is not known may be more than there is room for.
bool MayOverflow(double known_bytes, double room_bytes) {
  return known_bytes * kUnknownMost > room_bytes;
}

void AddName(const std::string& name, std::vector<std::string>* names) {
  if (std::ranges::count(*names, name) == 0) {
    names->push_back(name);
  }
}

void AddServerNotes(const ServerOffer& server, int hosts, std::vector<std::string>* notes) {
  const ServerMemory& memory = server.memory;
  if (!std::isfinite(memory.room_bytes)) {
    return;
  }
  const bool is_least = hosts > 1 && memory.WorkersMax(hosts - 1) == 0;
  if (is_least) {
    notes->push_back(fmt::format(
        "fewer than {} {} do not hold the job: each would need {}, and {} may be used",
        hosts,
        server.instance_type,
        BytesText(memory.BytesOf(1, hosts - 1)),
        BytesText(memory.room_bytes)));
  }
  if (!memory.need.is_all && MayOverflow(memory.need.shared_bytes / hosts, memory.room_bytes)) {
    notes->push_back(fmt::format(
        "of the servers' memory the parameters alone were counted, {}, since neither a job file "
        "nor the profile says what the optimizer and checkpoints take: name the job, as in psctl "
        "plan JOB.json",
        BytesText(memory.need.shared_bytes)));
  }
}

}  // namespace

std::string WhyNoWorkerFits(const proto::InstanceType& type, const WorkerNeed& need) {
  if (need.device_bytes > UsableBytes(type.device_memory_gib)) {
    return WhyTooLittle(need.device_bytes, type.device_memory_gib, "each device", need.is_all);
  }
  if (need.host_bytes > UsableBytes(type.memory_gib)) {
    return WhyTooLittle(need.host_bytes, type.memory_gib, "main memory", need.is_all);
  }
  return "";
}

ServerMemory MemoryOfServer(const proto::InstanceType& type, const ServerNeed& need) {
  return {UsableBytes(type.memory_gib), need};
}

std::string WhyNoServerFits(const ServerMemory& memory, int hosts) {
  return fmt::format(
      "{} of each of {}, where {} may be used",
      BytesText(memory.BytesOf(1, hosts)),
      Plural(static_cast<uint64_t>(hosts), "host"),
      BytesText(memory.room_bytes));
}

Status CheckServerMemory(const ServerOffer& servers, int workers, int hosts) {
  const int most = servers.memory.WorkersMax(hosts);
  return workers <= most
             ? Status::Ok()
             : Status::Unsupported(fmt::format(
                   "{} {} have memory for {}, not for {}: each would need {}, and {} may be used; "
                   "take more servers, or a type with more memory",
                   hosts,
                   servers.instance_type,
                   Plural(static_cast<uint64_t>(most), "worker"),
                   workers,
                   BytesText(servers.memory.BytesOf(workers, hosts)),
                   BytesText(servers.memory.room_bytes)));
}

std::vector<std::string> LeftOutNotes(const PlanProblem& problem) {
  std::vector<std::string> notes;
  for (const bool is_server : {false, true}) {
    if (std::string note = NoteOf(problem, is_server); !note.empty()) {
      notes.push_back(std::move(note));
    }
  }
  return notes;
}

std::vector<std::string> MemoryNotes(
    const proto::Catalog& catalog,
    const JobModels& models,
    const PlanProblem& problem,
    const FleetChoice& choice) {
  std::vector<std::string> notes = LeftOutNotes(problem);
  std::vector<std::string> unknown;
  std::vector<std::string> unknown_devices;
  std::vector<std::string> uncounted;
  for (size_t i = 0; i < choice.counts.size(); ++i) {
    const auto k = static_cast<size_t>(problem.offers[i].worker_class);
    const proto::InstanceType* const type = catalog.Find(problem.speed->classes()[k].name);
    if (choice.counts[i] == 0 || type == nullptr) {
      continue;
    }
    if (type->memory_gib == 0) {
      AddName(type->name, &unknown);
    }
    if (type->device != "cpu" && type->device_memory_gib == 0) {
      AddName(type->name, &unknown_devices);
    }
    const WorkerNeed& need = models.worker_needs[k];
    const bool may_overflow =
        MayOverflow(need.device_bytes, UsableBytes(type->device_memory_gib)) ||
        MayOverflow(need.host_bytes, UsableBytes(type->memory_gib));
    if (!need.is_all && may_overflow) {
      AddName(type->name, &uncounted);
    }
  }
  const ServerOffer& server = problem.servers[static_cast<size_t>(choice.server_offer)];
  const proto::InstanceType* const host = catalog.Find(server.instance_type);
  if (host != nullptr && host->memory_gib == 0) {
    AddName(host->name, &unknown);
  }
  if (!unknown.empty()) {
    notes.push_back(fmt::format(
        "the catalog does not say the main memory of {} (memory_gib): whether the job fits there "
        "is not known",
        Join(unknown)));
  }
  if (!unknown_devices.empty()) {
    notes.push_back(fmt::format(
        "the catalog does not say the memory of the devices of {} (device_memory_gib): whether the "
        "job fits there is not known",
        Join(unknown_devices)));
  }
  if (!uncounted.empty()) {
    notes.push_back(fmt::format(
        "of the workers' memory parameters and gradients alone were counted, since neither a job "
        "file nor the profile says more of {}: name the job, as in psctl plan JOB.json",
        Join(uncounted)));
  }
  AddServerNotes(server, choice.server_hosts, &notes);
  return notes;
}

}  // namespace ps::provisioner
