#include "provisioner/fleet/job_fleet.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "provisioner/fleet/agent_exit.h"
#include "provisioner/fleet/launch_check.h"
#include "provisioner/fleet/local_process.h"
#include "provisioner/fleet/process_arguments.h"
#include "provisioner/fleet/ssh_agent.h"
#include "ps/base/crc32c.h"
#include "ps/base/file.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

using proto::ProcessKind;
using proto::ProcessKindName;

std::string ProgramOf(ProcessKind kind) {
  return kind == ProcessKind::kServer ? "ps_server" : "ps_worker";
}

/// The last line of a file that says anything; empty when there is none.
std::string LastLine(const std::string& path) {
  constexpr size_t kBytesMax = 1000;
  const Result<std::string> text = ReadFile(path);
  if (!text.ok()) {
    return "";
  }
  const size_t last = text->find_last_not_of("\n ");
  if (last == std::string::npos) {
    return "";
  }
  const size_t newline = text->rfind('\n', last);
  const size_t begin = newline == std::string::npos ? 0 : newline + 1;
  return Printable(text->substr(begin, std::min(last + 1 - begin, kBytesMax)));
}

void Append(const std::vector<std::string>& from, std::vector<std::string>* to) {
  to->insert(to->end(), from.begin(), from.end());
}

}  // namespace

JobFleet::JobFleet(Options options, Launcher* launcher, const Logger* log)
    : options_(std::move(options)),
      launcher_(launcher),
      log_(log),
      worker_kind_(AgentKindOf(options_.launch.launcher)),
      server_kind_(AgentKindOf(options_.servers.launcher)),
      worker_hosts_(options_.launch.hosts),
      server_hosts_(
          server_kind_ != nullptr ? server_kind_->ServerHosts(options_.servers)
                                  : HostTable({}, "servers.hosts")) {}

void JobFleet::StartServer(uint32_t server, LaunchId launch) {
  LaunchSpec spec = SpecOf(ProcessKind::kServer, server, launch);
  if (KindOf(ProcessKind::kServer) == nullptr) {
    Start(std::move(spec), ServerArguments(options_, server));
    return;
  }
  DropWaiting(server);
  Result<std::string> host = server_hosts_.Take(options_.time->Now());
  if (!host.ok()) {
    Tell(proto::EventCode::kNoHost, {{"server", server}, {"why", host.status()}});
    waiting_servers_[server] = launch;
    return;
  }
  StartServerOn(std::move(host).value(), std::move(spec));
}

void JobFleet::StartServerOn(const std::string& host, LaunchSpec spec) {
  RemoteProcess process;
  process.host = host;
  process.cpus = options_.servers.shards_per_server;
  std::vector<std::string> arguments = ServerArguments(options_, spec.index);
  StartAgent(std::move(spec), std::move(process), std::move(arguments));
}

void JobFleet::StartWaitingServers() {
  for (auto it = waiting_servers_.begin(); it != waiting_servers_.end();) {
    Result<std::string> host = server_hosts_.Take(options_.time->Now());
    if (!host.ok()) {
      return;
    }
    const auto [server, launch] = *it;
    it = waiting_servers_.erase(it);
    StartServerOn(std::move(host).value(), SpecOf(ProcessKind::kServer, server, launch));
  }
}

void JobFleet::DropWaiting(uint32_t server) {
  const auto it = waiting_servers_.find(server);
  if (it != waiting_servers_.end()) {
    const proto::LaunchRecord record{ProcessKind::kServer, server, it->second, 0, 0};
    unreported_.push_back(
        {{record.kind, server, it->second, "was not started", false, ""}, record});
    waiting_servers_.erase(it);
  }
}

void JobFleet::StartWorker(WorkerId seat, LaunchId launch, const proto::WorkerGroup& group) {
  KillWorker(seat);
  LaunchSpec spec = SpecOf(ProcessKind::kWorker, seat.value, launch);
  std::vector<std::string> arguments = WorkerArguments(options_, seat, group);
  if (KindOf(ProcessKind::kWorker) == nullptr) {
    TellStart(launch, group.type, group.zones.empty() ? "" : group.zones.front());
    Start(std::move(spec), std::move(arguments), double{group.cpu_share});
  } else {
    StartWorkerElsewhere(std::move(spec), group, std::move(arguments));
  }
}

std::vector<ProcessHandle> JobFleet::WorkersIn(WorkerId seat) const {
  std::vector<ProcessHandle> handles;
  for (auto it = workers_.lower_bound({seat, ProcessHandle()});
       it != workers_.end() && it->first == seat;
       ++it) {
    handles.push_back(it->second);
  }
  return handles;
}

void JobFleet::Note(ProcessHandle handle, Process process) {
  if (process.launch.kind == ProcessKind::kWorker) {
    workers_.emplace(process.launch.index, handle);
  }
  processes_[handle] = std::move(process);
}

void JobFleet::KillWorker(WorkerId seat) {
  DropWaitingWorker(seat);
  for (const ProcessHandle handle : WorkersIn(seat)) {
    Kill(handle, &processes_.at(handle));
  }
}

void JobFleet::KillServer(uint32_t server, LaunchId keep) {
  const auto waiting = waiting_servers_.find(server);
  if (waiting != waiting_servers_.end() && (keep == LaunchId() || waiting->second != keep)) {
    DropWaiting(server);
  }
  for (auto& [handle, process] : processes_) {
    const proto::LaunchRecord& launch = process.launch;
    if (launch.kind == ProcessKind::kServer && launch.index == server &&
        (keep == LaunchId() || launch.launch != keep)) {
      Kill(handle, &process);
    }
  }
}

bool JobFleet::HasServer(uint32_t server) const {
  const bool is_running = std::ranges::any_of(processes_, [server](const auto& entry) {
    const proto::LaunchRecord& launch = entry.second.launch;
    return launch.kind == ProcessKind::kServer && launch.index == server;
  });
  return is_running || waiting_servers_.contains(server);
}

void JobFleet::KillAll() {
  waiting_servers_.clear();
  for (const auto& [seat, waiting] : waiting_workers_) {
    options_.rented->Drop({ProcessKind::kWorker, seat.value, waiting.launch}, false);
  }
  waiting_workers_.clear();
  for (auto& [handle, process] : processes_) {
    Kill(handle, &process);
  }
}

void JobFleet::Kill(ProcessHandle handle, Process* process) {
  process->is_planned = true;
  launcher_->Kill(handle).Ignore("it has ended, and TakeEnds is going to say so");
}

std::string JobFleet::LogPath(ProcessKind kind, uint32_t index) const {
  return fmt::format("{}/{}{}.log", options_.log_directory, ProcessKindName(kind), index);
}

std::string JobFleet::CpuGroupOf(uint32_t worker) const {
  const std::string& run = options_.log_directory;
  return fmt::format(
      "spotps-{:08x}-{}{}",
      Crc32c(std::as_bytes(std::span(run))),
      ProcessKindName(ProcessKind::kWorker),
      worker);
}

/// Other machines may have the same folder, and a folder may have been another run's.
std::string JobFleet::RunName() const {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string all =
      fmt::format("{}\n{}\n{}", host.data(), options_.log_directory, options_.run_start_us);
  return ContentName(all).substr(0, 16);
}

LaunchSpec JobFleet::SpecOf(ProcessKind kind, uint32_t index, LaunchId launch) const {
  LaunchSpec spec;
  spec.kind = kind;
  spec.index = index;
  spec.launch = launch;
  spec.log_path = LogPath(kind, index);
  return spec;
}

void JobFleet::Start(LaunchSpec spec, std::vector<std::string> arguments, double cpu_share) {
  const std::string what(ProcessKindName(spec.kind));
  const proto::LaunchRecord record{spec.kind, spec.index, spec.launch, 0, 0};
  const Result<std::string> token_file = options_.make_token_file(spec.kind, spec.index);
  if (!token_file.ok()) {
    NotStarted(record, token_file.status());
    return;
  }
  std::vector<std::string> words;
  if (cpu_share > 0) {
    Result<std::vector<std::string>> limited = LimitCpu(spec.index, cpu_share);
    if (!limited.ok()) {
      NotStarted(record, limited.status());
      return;
    }
    words = std::move(limited).value();
  }
  Append(LaunchWords(options_.launch.prefix, what, spec.index), &words);
  words.push_back(options_.program_directory + "/" + ProgramOf(spec.kind));
  Append(arguments, &words);
  spec.program = words.front();
  spec.arguments.assign(words.begin() + 1, words.end());
  Append(RunArguments(options_, spec.launch, *token_file), &spec.arguments);
  Append({"--log-file", spec.log_path}, &spec.arguments);
  Launch(std::move(spec), "", "");
}

Result<std::vector<std::string>> JobFleet::LimitCpu(uint32_t worker, double share) {
  if (!cpu_groups_) {
    PS_ASSIGN(cpu_groups_, CpuGroups::Find());
  }
  return cpu_groups_->Limit(CpuGroupOf(worker), share);
}

void JobFleet::StartWorkerElsewhere(
    LaunchSpec spec, const proto::WorkerGroup& group, std::vector<std::string> arguments) {
  if (options_.rented != nullptr) {
    waiting_workers_[WorkerId(spec.index)] = {spec.launch, group, std::move(arguments)};
    options_.rented->Ask({spec.kind, spec.index, spec.launch}, group);
    return;
  }
  RemoteProcess process;
  process.zone = group.zones.empty() ? "" : group.zones.front();
  process.cpus = group.threads;
  if (KindOf(spec.kind)->has_hosts()) {
    Result<std::string> taken = worker_hosts_.Take(options_.time->Now(), process.zone);
    if (!taken.ok()) {
      Tell(proto::EventCode::kNoHost, {{"worker", spec.index}, {"why", taken.status()}});
      const bool is_new = full_zones_.insert(process.zone).second;
      const std::string why = is_new ? Printable(taken.status().message()) : "";
      // Nothing was asked of any host, which says nothing new of the place.
      unreported_.push_back(
          {{spec.kind, spec.index, spec.launch, "was not started", false, why},
           {spec.kind, spec.index, spec.launch, 0, 0}});
      return;
    }
    full_zones_.erase(process.zone);
    process.host = std::move(taken).value();
  }
  TellStart(spec.launch, group.type, process.zone);
  StartAgent(std::move(spec), std::move(process), std::move(arguments));
}

void JobFleet::TellStart(LaunchId launch, const std::string& type, const std::string& zone) const {
  if (options_.on_start != nullptr) {
    options_.on_start(
        {.launch = launch, .type = type, .zone = zone, .asked = options_.time->Now()});
  }
}

/// What runs elsewhere writes its log to stderr, which the agent or the batch system brings to the
/// file of a local one.
void JobFleet::StartAgent(
    LaunchSpec spec, RemoteProcess process, std::vector<std::string> arguments) {
  const Result<std::string> token_file = options_.make_token_file(spec.kind, spec.index);
  if (!token_file.ok()) {
    NotStarted({spec.kind, spec.index, spec.launch, 0, 0}, token_file.status());
    HostsOf(spec.kind).Release(process.host, false, options_.time->Now());
    return;
  }
  const AgentKind& kind = *KindOf(spec.kind);
  process.kind = spec.kind;
  process.index = spec.index;
  process.name = fmt::format("{}-{}{}", options_.job_name, ProcessKindName(spec.kind), spec.index);
  process.job = options_.job_name;
  process.run = RunName();
  process.launch = spec.launch;
  process.log_path = spec.log_path;
  process.token_file = *token_file;
  const AgentCall call = kind.CallFor(process, options_.launch, options_.servers);
  spec.program = options_.program_directory + "/ps_agent";
  spec.gets_credentials = call.gets_credentials;
  spec.arguments = {"--launcher", std::string(kind.name())};
  Append(call.flags, &spec.arguments);
  if (!process.zone.empty()) {
    Append({"--zone", process.zone}, &spec.arguments);
  }
  if (spec.kind == ProcessKind::kServer && !options_.server_needs.empty()) {
    Append({"--needs", options_.server_needs}, &spec.arguments);
  }
  const std::string& programs =
      call.program_directory.empty() ? options_.program_directory : call.program_directory;
  const std::string program = programs + "/" + ProgramOf(spec.kind);
  Append({"--program", program, "--"}, &spec.arguments);
  Append(arguments, &spec.arguments);
  Append(RunArguments(options_, spec.launch, call.token_file), &spec.arguments);
  Launch(
      std::move(spec),
      process.host.empty() ? std::string(kind.name()) : process.host,
      process.zone);
}

const AgentKind* JobFleet::KindOf(ProcessKind kind) const {
  return kind == ProcessKind::kWorker ? worker_kind_ : server_kind_;
}

HostTable& JobFleet::HostsOf(ProcessKind kind) {
  return kind == ProcessKind::kWorker ? worker_hosts_ : server_hosts_;
}

std::string JobFleet::ZoneOf(WorkerId seat) const {
  const std::vector<ProcessHandle> handles = WorkersIn(seat);
  return handles.empty() ? "" : processes_.at(handles.back()).zone;
}

void JobFleet::Launch(LaunchSpec spec, const std::string& host, const std::string& zone) {
  const ProcessKind kind = spec.kind;
  const uint32_t index = spec.index;
  const std::string what(ProcessKindName(kind));
  proto::LaunchRecord launch{kind, index, spec.launch, 0, 0};
  if (options_.journal != nullptr) {
    spec.note = [&](const proto::LaunchRecord& started) {
      launch = started;
      options_.journal->NoteStarted(started);
    };
  }
  const Result<ProcessHandle> handle = launcher_->Start(spec);
  if (!handle.ok()) {
    NotStarted(launch, handle.status());
    HostsOf(kind).Release(host, false, options_.time->Now());
    return;
  }
  launch.pid = launcher_->pid(*handle);
  Note(*handle, {launch, spec.log_path, host, false, "", zone});
  log_->Info(
      "process_started",
      {{what, index},
       {"launch", launch.launch.value},
       {"pid", launch.pid},
       {"host", host.empty() ? "local" : host}});
}

void JobFleet::Tell(proto::EventCode code, std::initializer_list<LogField> fields) const {
  if (options_.tell != nullptr) {
    options_.tell(code, fields);
  } else {
    proto::LogEvent(*log_, code, fields);
  }
}

void JobFleet::LogNotStarted(const proto::LaunchRecord& launch, const std::string& why) {
  Tell(
      proto::EventCode::kProcessNotStarted,
      {{std::string(ProcessKindName(launch.kind)), launch.index}, {"why", why}});
}

void JobFleet::NotStarted(const proto::LaunchRecord& launch, const Status& why) {
  LogNotStarted(launch, std::string(why.message()));
  if (options_.rented != nullptr && launch.kind == ProcessKind::kWorker) {
    options_.rented->Drop({launch.kind, launch.index, launch.launch}, false);  // it is not to blame
  }
  unreported_.push_back(
      {{launch.kind, launch.index, launch.launch, std::string(why.message()), true, ""}, launch});
}

void JobFleet::Adopt(std::span<const proto::LaunchRecord> launches) {
  for (const proto::LaunchRecord& launch : launches) {
    const std::string what(ProcessKindName(launch.kind));
    const Result<ProcessHandle> handle = launcher_->Adopt(launch);
    if (handle.ok()) {
      const bool is_elsewhere = KindOf(launch.kind) != nullptr;
      const std::string host = is_elsewhere ? ArgumentOf(launch.pid, "--host") : std::string();
      const std::string zone = is_elsewhere ? ArgumentOf(launch.pid, "--zone") : std::string();
      HostsOf(launch.kind).TakeOn(host);
      Note(*handle, {launch, LogPath(launch.kind, launch.index), host, false, "", zone});
      log_->Info(
          "process_adopted",
          {{what, launch.index}, {"launch", launch.launch.value}, {"pid", launch.pid}});
      continue;
    }
    log_->Warning(
        "process_gone", {{what, launch.index}, {"pid", launch.pid}, {"why", handle.status()}});
    unreported_.push_back(
        {{launch.kind,
          launch.index,
          launch.launch,
          "ended while no coordinator was there, so its exit code is not known",
          false,
          ""},
         launch});
  }
  if (options_.rented != nullptr) {
    std::set<RentalSeat> running;
    for (const auto& [handle, process] : processes_) {
      running.insert({process.launch.kind, process.launch.index, process.launch.launch});
    }
    options_.rented->Adopt(running);
  }
}

std::vector<proto::ProcessEnd> JobFleet::TakeEnds() {
  for (const proto::LaunchRecord& launch : std::exchange(reported_, {})) {
    if (options_.journal != nullptr) {
      options_.journal->NoteEnded(launch);
    }
  }
  TakeRentals();
  std::vector<proto::ProcessEnd> ends;
  for (Ended& ended : std::exchange(unreported_, {})) {
    ends.push_back(std::move(ended.end));
    reported_.push_back(ended.launch);
  }
  for (const ProcessExit& exit : launcher_->PollExits()) {
    const auto it = processes_.find(exit.handle);
    if (it == processes_.end()) {
      continue;
    }
    const Process& process = it->second;
    if (exit.has_run) {
      log_->Info(
          "process_ended",
          {{ProcessKindName(exit.kind), exit.index},
           {"launch", process.launch.launch.value},
           {"pid", process.launch.pid},
           {"how", exit.description}});
    } else {
      LogNotStarted(process.launch, exit.description);
    }
    ends.push_back(EndOf(process, exit));
    reported_.push_back(process.launch);
    workers_.erase({WorkerId(process.launch.index), exit.handle});
    if (cpu_groups_ && exit.kind == ProcessKind::kWorker) {
      cpu_groups_->Remove(CpuGroupOf(exit.index));
    }
    processes_.erase(it);
  }
  StartWaitingServers();
  return ends;
}

/// A host or a batch system that took no process, or lost it, says nothing of the process itself:
/// another one may do better.
proto::ProcessEnd JobFleet::EndOf(const Process& process, const ProcessExit& exit) {
  const AgentKind* const kind = KindOf(exit.kind);
  const bool is_place = kind != nullptr && !process.is_planned &&
                        (exit.code == kNotStartedExit || exit.code == kLostExit);
  const bool is_left_out = is_place && (exit.code == kNotStartedExit || kind->has_hosts());
  HostsOf(exit.kind).Release(process.host, is_left_out, options_.time->Now());
  if (options_.rented != nullptr && exit.kind == ProcessKind::kWorker) {
    options_.rented->Drop({exit.kind, exit.index, process.launch.launch}, is_place);
  }
  if (!process.lost.empty()) {
    return {exit.kind, exit.index, process.launch.launch, process.lost, false, "", true};
  }
  const bool is_failure = exit.is_failure && !process.is_planned && !is_place;
  std::string description = exit.description;
  if (is_place) {
    description = exit.code == kNotStartedExit ? "was not started" : "was lost";
  }
  return {
      exit.kind,
      exit.index,
      process.launch.launch,
      std::move(description),
      is_failure,
      exit.has_run && (is_failure || is_place || exit.is_clean) ? LastLine(process.log_path) : "",
      is_place,
      exit.is_clean};
}

}  // namespace ps::provisioner
