#include "provisioner/fleet/local_fleet.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "provisioner/fleet/agent_exit.h"
#include "provisioner/fleet/local_process.h"
#include "ps/base/file.h"
#include "ps/base/host_port.h"
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

bool IsProgram(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

/// As the launcher looks for it (execvp): in PATH, unless it has a slash.
bool IsCommand(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return IsProgram(name);
  }
  const char* const variable = std::getenv("PATH");
  std::string_view rest = variable != nullptr ? variable : "/bin:/usr/bin";
  while (true) {
    const std::string_view directory = rest.substr(0, rest.find(':'));
    if (IsProgram((directory.empty() ? "." : std::string(directory)) + "/" + name)) {
      return true;
    }
    if (directory.size() == rest.size()) {
      return false;
    }
    rest.remove_prefix(directory.size() + 1);
  }
}

void Append(const std::vector<std::string>& from, std::vector<std::string>* to) {
  to->insert(to->end(), from.begin(), from.end());
}

/// How a process finds the run, is let in, and is known.
std::vector<std::string> RunArguments(
    const LocalFleet::Options& options, LaunchId launch, const std::string& token_file) {
  return {
      "--coordinator",
      options.coordinator,
      "--token-file",
      token_file,
      "--run-start-us",
      fmt::format("{}", options.run_start_us),
      "--launch",
      std::to_string(launch.value)};
}

}  // namespace

std::string FillLaunchText(std::string_view text, std::string_view role, uint32_t index) {
  const std::string number = std::to_string(index);
  const std::array<std::pair<std::string_view, std::string>, 3> values = {{
      {"{name}", std::string(role) + number},
      {"{role}", std::string(role)},
      {"{index}", number},
  }};
  std::string filled;
  while (!text.empty()) {
    size_t taken = 1;
    std::string_view part = text.substr(0, 1);
    for (const auto& [key, value] : values) {
      if (text.starts_with(key)) {
        taken = key.size();
        part = value;
      }
    }
    filled += part;
    text.remove_prefix(taken);
  }
  return filled;
}

std::vector<std::string> LaunchWords(
    std::string_view prefix, std::string_view role, uint32_t index) {
  std::vector<std::string> words;
  while (true) {
    const size_t begin = prefix.find_first_not_of(" \t");
    if (begin == std::string_view::npos) {
      return words;
    }
    prefix.remove_prefix(begin);
    const std::string_view word = prefix.substr(0, prefix.find_first_of(" \t"));
    words.push_back(FillLaunchText(word, role, index));
    prefix.remove_prefix(word.size());
  }
}

namespace {

Status CheckLauncher(const std::string& directory, const proto::LaunchConfig& launch) {
  if (launch.launcher == proto::LauncherKind::kLocal) {
    return Status::Ok();
  }
  const bool is_ssh = launch.launcher == proto::LauncherKind::kSsh;
  if (!IsProgram(directory + "/ps_agent")) {
    return Status::NotFound(
        fmt::format("there is no program {}/ps_agent; build all targets", directory));
  }
  const auto needs = is_ssh ? std::vector<std::string>{"ssh"}
                            : std::vector<std::string>{"sbatch", "scontrol", "scancel"};
  for (const std::string& name : needs) {
    if (!IsCommand(name)) {
      return Status::NotFound(fmt::format(
          "launch.launcher is {}, and no folder of PATH has the program {}; install {}",
          is_ssh ? "ssh" : "slurm",
          name,
          is_ssh ? "openssh-client" : "slurm-client"));
    }
  }
  std::error_code error;
  if (!launch.ssh_config.empty() && !std::filesystem::is_regular_file(launch.ssh_config, error)) {
    return Status::NotFound(fmt::format(
        "launch.ssh_config {} is no file; allowed: a configuration file of ssh",
        Printable(launch.ssh_config)));
  }
  return Status::Ok();
}

}  // namespace

Status CheckPrograms(const std::string& directory, const proto::LaunchConfig& launch) {
  PS_TRY(CheckLauncher(directory, launch));
  for (const ProcessKind kind : {ProcessKind::kServer, ProcessKind::kWorker}) {
    const std::string path = directory + "/" + ProgramOf(kind);
    if (!IsProgram(path)) {
      return Status::NotFound(fmt::format(
          "there is no program {}; build all targets, so that it lies beside psctl", path));
    }
    const std::vector<std::string> words = LaunchWords(launch.prefix, ProcessKindName(kind), 0);
    if (!words.empty() && !IsCommand(words.front())) {
      return Status::NotFound(fmt::format(
          "launch.prefix begins with '{}', {}; install it, or mend launch.prefix",
          Printable(words.front()),
          words.front().find('/') == std::string::npos ? "which no folder of PATH has as a program"
                                                       : "which is not a program"));
    }
  }
  return Status::Ok();
}

namespace {

void AppendNotices(proto::NoticeService service, std::vector<std::string>* arguments) {
  if (service != proto::NoticeService::kNone) {
    const auto number = static_cast<size_t>(service);
    Append({"--notices", std::string(proto::kNoticeServiceNames[number])}, arguments);
  }
}

/// Of the job, then of the zone: of two words that contradict each other sbatch takes the last.
std::string SbatchWords(const proto::LaunchConfig& launch, const std::string& zone) {
  const auto it = std::ranges::find(launch.zones, zone, &proto::ZoneConfig::name);
  const std::string words = it == launch.zones.end() ? "" : it->sbatch;
  return launch.sbatch + (launch.sbatch.empty() || words.empty() ? "" : " ") + words;
}

}  // namespace

void LocalFleet::StartServer(uint32_t server, LaunchId launch_id) {
  const proto::LaunchConfig& launch = options_.launch;
  const auto filled = [server](const std::string& text) {
    return FillLaunchText(text, ProcessKindName(ProcessKind::kServer), server);
  };
  const std::string listen =
      launch.server_listen.empty() ? options_.listen : filled(launch.server_listen);
  std::vector<std::string> arguments = {
      "--id",
      std::to_string(server),
      "--shards",
      std::to_string(options_.shards_per_server),
      "--listen",
      listen,
      "--advertise",
      ReachableHost(listen, filled(launch.server_advertise), options_.machine)};
  if (options_.server_port != 0) {
    const uint32_t port = options_.server_port + server * options_.shards_per_server;
    Append({"--port", std::to_string(port)}, &arguments);
  }
  AppendNotices(options_.server_notices, &arguments);
  Append(emulation::ArgumentsOf(options_.server_emulation), &arguments);
  Start(SpecOf(ProcessKind::kServer, server, launch_id), std::move(arguments));
}

void LocalFleet::StartWorker(WorkerId seat, LaunchId launch, const proto::WorkerGroup& group) {
  KillWorker(seat);
  std::vector<std::string> arguments = {"--seat", std::to_string(seat.value)};
  AppendNotices(group.notices, &arguments);
  Append(emulation::ArgumentsOf(emulation::OfWorker(group)), &arguments);
  LaunchSpec spec = SpecOf(ProcessKind::kWorker, seat.value, launch);
  if (IsElsewhere(ProcessKind::kWorker)) {
    StartAgent(std::move(spec), group, std::move(arguments));
  } else {
    Start(std::move(spec), std::move(arguments));
  }
}

std::vector<ProcessHandle> LocalFleet::WorkersIn(WorkerId seat) const {
  std::vector<ProcessHandle> handles;
  for (auto it = workers_.lower_bound({seat, ProcessHandle()});
       it != workers_.end() && it->first == seat;
       ++it) {
    handles.push_back(it->second);
  }
  return handles;
}

void LocalFleet::Note(ProcessHandle handle, Process process) {
  if (process.launch.kind == ProcessKind::kWorker) {
    workers_.emplace(process.launch.index, handle);
  }
  processes_[handle] = std::move(process);
}

void LocalFleet::KillWorker(WorkerId seat) {
  for (const ProcessHandle handle : WorkersIn(seat)) {
    Kill(handle, &processes_.at(handle));
  }
}

void LocalFleet::KillServer(uint32_t server) {
  for (auto& [handle, process] : processes_) {
    if (process.launch.kind == ProcessKind::kServer && process.launch.index == server) {
      Kill(handle, &process);
    }
  }
}

bool LocalFleet::HasServer(uint32_t server) const {
  return std::ranges::any_of(processes_, [server](const auto& entry) {
    const proto::LaunchRecord& launch = entry.second.launch;
    return launch.kind == ProcessKind::kServer && launch.index == server;
  });
}

void LocalFleet::KillAll() {
  for (auto& [handle, process] : processes_) {
    Kill(handle, &process);
  }
}

void LocalFleet::Kill(ProcessHandle handle, Process* process) {
  process->is_planned = true;
  launcher_->Kill(handle).Ignore("it has ended, and TakeEnds is going to say so");
}

std::string LocalFleet::LogPath(ProcessKind kind, uint32_t index) const {
  return fmt::format("{}/{}{}.log", options_.log_directory, ProcessKindName(kind), index);
}

LaunchSpec LocalFleet::SpecOf(ProcessKind kind, uint32_t index, LaunchId launch) const {
  LaunchSpec spec;
  spec.kind = kind;
  spec.index = index;
  spec.launch = launch;
  spec.log_path = LogPath(kind, index);
  return spec;
}

void LocalFleet::Start(LaunchSpec spec, std::vector<std::string> arguments) {
  const std::string what(ProcessKindName(spec.kind));
  const Result<std::string> token_file = options_.make_token_file(spec.kind, spec.index);
  if (!token_file.ok()) {
    NotStarted({spec.kind, spec.index, spec.launch, 0, 0}, token_file.status());
    return;
  }
  const std::string program = options_.program_directory + "/" + ProgramOf(spec.kind);
  const std::vector<std::string> prefix = LaunchWords(options_.launch.prefix, what, spec.index);
  spec.program = prefix.empty() ? program : prefix.front();
  if (!prefix.empty()) {
    spec.arguments.assign(prefix.begin() + 1, prefix.end());
    spec.arguments.push_back(program);
  }
  spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
  Append(RunArguments(options_, spec.launch, *token_file), &spec.arguments);
  Append({"--log-file", spec.log_path}, &spec.arguments);
  Launch(std::move(spec), "");
}

/// What runs elsewhere writes its log to stderr, which the agent or the batch system brings to the
/// file of a local one.
void LocalFleet::StartAgent(
    LaunchSpec spec, const proto::WorkerGroup& group, std::vector<std::string> words) {
  const proto::LaunchConfig& launch = options_.launch;
  const Result<std::string> token_file = options_.make_token_file(spec.kind, spec.index);
  const proto::LaunchRecord record{spec.kind, spec.index, spec.launch, 0, 0};
  if (!token_file.ok()) {
    NotStarted(record, token_file.status());
    return;
  }
  spec.program = options_.program_directory + "/ps_agent";
  const std::string program = options_.program_directory + "/" + ProgramOf(spec.kind);
  const std::string zone = group.zones.empty() ? "" : group.zones.front();
  std::string host;
  if (launch.launcher == proto::LauncherKind::kSsh) {
    Result<std::string> taken = hosts_.Take(options_.time->Now(), zone);
    if (!taken.ok()) {
      log_->Warning("no_host", {{"worker", spec.index}, {"why", taken.status()}});
      const bool is_new = full_zones_.insert(zone).second;
      const std::string why = is_new ? Printable(taken.status().message()) : "";
      // Nothing was asked of any host, which says nothing new of the place.
      unreported_.push_back(
          {{spec.kind, spec.index, spec.launch, "was not started", false, why}, record});
      return;
    }
    full_zones_.erase(zone);
    host = std::move(taken).value();
    spec.arguments = {"--launcher", "ssh", "--host", host, "--token-file", *token_file};
    if (!launch.ssh_config.empty()) {
      Append({"--ssh-config", launch.ssh_config}, &spec.arguments);
    }
    Append(RunArguments(options_, spec.launch, "/dev/stdin"), &words);
  } else {
    const std::string name = fmt::format("{}-worker{}", options_.job_name, spec.index);
    const std::string cpus = fmt::format("{}", group.threads);
    spec.arguments = {
        "--launcher",
        "slurm",
        "--name",
        name,
        "--task",
        std::to_string(spec.index),
        "--cpus",
        cpus,
        "--log-file",
        spec.log_path};
    if (const std::string sbatch = SbatchWords(launch, zone); !sbatch.empty()) {
      Append({"--sbatch", sbatch}, &spec.arguments);
    }
    Append(RunArguments(options_, spec.launch, *token_file), &words);
  }
  Append({"--program", program, "--"}, &spec.arguments);
  Append(words, &spec.arguments);
  Launch(std::move(spec), host);
}

bool LocalFleet::IsElsewhere(ProcessKind kind) const {
  return kind == ProcessKind::kWorker && options_.launch.launcher != proto::LauncherKind::kLocal;
}

void LocalFleet::Launch(LaunchSpec spec, const std::string& host) {
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
    hosts_.Release(host, false, options_.time->Now());
    return;
  }
  launch.pid = launcher_->pid(*handle);
  Note(*handle, {launch, spec.log_path, host, false});
  log_->Info(
      "process_started",
      {{what, index},
       {"launch", launch.launch.value},
       {"pid", launch.pid},
       {"host", host.empty() ? "local" : host}});
}

void LocalFleet::NotStarted(const proto::LaunchRecord& launch, const Status& why) {
  log_->Error(
      "process_not_started",
      {{std::string(ProcessKindName(launch.kind)), launch.index}, {"why", why}});
  unreported_.push_back(
      {{launch.kind, launch.index, launch.launch, std::string(why.message()), true, ""}, launch});
}

void LocalFleet::Adopt(std::span<const proto::LaunchRecord> launches) {
  for (const proto::LaunchRecord& launch : launches) {
    const std::string what(ProcessKindName(launch.kind));
    const Result<ProcessHandle> handle = launcher_->Adopt(launch);
    if (handle.ok()) {
      const std::string host =
          IsElsewhere(launch.kind) ? ArgumentOf(launch.pid, "--host") : std::string();
      hosts_.TakeOn(host);
      Note(*handle, {launch, LogPath(launch.kind, launch.index), host, false});
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
}

std::vector<proto::ProcessEnd> LocalFleet::TakeEnds() {
  for (const proto::LaunchRecord& launch : std::exchange(reported_, {})) {
    if (options_.journal != nullptr) {
      options_.journal->NoteEnded(launch);
    }
  }
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
    log_->Info(
        "process_ended",
        {{ProcessKindName(exit.kind), exit.index},
         {"launch", process.launch.launch.value},
         {"pid", process.launch.pid},
         {"how", exit.description}});
    ends.push_back(EndOf(process, exit));
    reported_.push_back(process.launch);
    workers_.erase({WorkerId(process.launch.index), exit.handle});
    processes_.erase(it);
  }
  return ends;
}

/// A host or a batch system that took no worker, or lost it, says nothing of the worker itself:
/// another one may do better.
proto::ProcessEnd LocalFleet::EndOf(const Process& process, const ProcessExit& exit) {
  const bool is_elsewhere = IsElsewhere(exit.kind);
  const bool is_place = is_elsewhere && !process.is_planned &&
                        (exit.code == kNotStartedExit || exit.code == kLostExit);
  hosts_.Release(process.host, is_place, options_.time->Now());
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
      is_failure || is_place ? LastLine(process.log_path) : "",
      is_place};
}

}  // namespace ps::provisioner
