// Nodes that Slurm chooses.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "provisioner/fleet/agent_kind.h"
#include "provisioner/fleet/launch_check.h"
#include "provisioner/fleet/slurm_agent.h"

namespace ps::provisioner {
namespace {

constexpr uint64_t kCpusMax = 1024;
constexpr uint64_t kNoticeSecondsMax = 65'535;  // that sbatch takes
constexpr uint64_t kPollMillis = 1000;
constexpr uint64_t kPollMillisMax = 60'000;

/// The job's words, then those of the worker's zone: when two contradict each other, sbatch takes
/// the last.
std::string WorkerWords(const proto::LaunchConfig& launch, const std::string& zone) {
  const auto it = std::ranges::find(launch.zones, zone, &proto::ZoneConfig::name);
  const std::string words = it == launch.zones.end() ? "" : it->sbatch;
  return launch.sbatch + (launch.sbatch.empty() || words.empty() ? "" : " ") + words;
}

class Slurm final : public AgentKind {
 public:
  std::string_view name() const override { return "slurm"; }

  std::vector<std::string> programs() const override {
    return {"sbatch", "squeue", "scontrol", "scancel"};
  }

  std::string_view package() const override { return "slurm-client"; }

  /// That Slurm would take such a job.
  Status CheckServerPlaces(const proto::JobConfig& config, Duration limit) const override {
    std::vector<std::string> words = {
        "sbatch",
        "--test-only",
        "--ntasks=1",
        fmt::format("--cpus-per-task={}", config.servers.shards_per_server)};
    for (std::string& word : LaunchWords(config.servers.sbatch, "", 0)) {
      words.push_back(std::move(word));
    }
    const Status status = RunCommand(words, "#!/bin/sh\ntrue\n", limit).status();
    return status.ok()
               ? status
               : Status::Unavailable(fmt::format(
                     "Slurm would take no server: {}; mend servers.sbatch", status.message()));
  }

  bool has_hosts() const override { return false; }

  /// It has room for all; it is left out for a while after it has refused one.
  HostTable ServerHosts(const proto::ServerConfig& /*servers*/) const override {
    return HostTable({{std::string(name()), UINT32_MAX}}, "servers.launcher");
  }

  AgentCall CallFor(
      const RemoteProcess& process,
      const proto::LaunchConfig& launch,
      const proto::ServerConfig& servers) const override {
    const bool is_worker = process.kind == proto::ProcessKind::kWorker;
    AgentCall call{
        {"--name",
         process.name,
         "--task",
         std::to_string(process.index),
         "--cpus",
         std::to_string(process.cpus),
         "--log-file",
         process.log_path},
        process.token_file};
    const uint32_t notice_s = is_worker ? launch.term_grace_s : servers.term_grace_s;
    if (notice_s != proto::kTermGraceSeconds) {
      call.flags.insert(call.flags.end(), {"--notice-s", std::to_string(notice_s)});
    }
    const std::string words = is_worker ? WorkerWords(launch, process.zone) : servers.sbatch;
    if (!words.empty()) {
      call.flags.insert(call.flags.end(), {"--sbatch", words});
    }
    return call;
  }

  std::vector<ManualFlag> flags() const override {
    return {
        {"--name", "NAME", "slurm: begins the job's name. Default: spotps."},
        {"--task",
         "N",
         "slurm: its number as the task of an array. Default: none, it is a job by itself."},
        {"--log-file", "FILE", "slurm: gets the program's output. Required there."},
        {"--cpus", "N", "slurm: processors of the program. Default: 1."},
        {"--notice-s",
         "N",
         "slurm: how long before the end of its time the program gets SIGTERM, 60 at least. "
         "Default: 60."},
        {"--sbatch", "WORDS", "slurm: words put after sbatch."},
        {"--poll-ms", "N", "slurm: between two questions, at first. Default: 1000."}};
  }

  Result<AgentWork> WorkFor(
      const Flags& flags, std::string program, std::vector<std::string> arguments) const override {
    SlurmJob job;
    PS_ASSIGN(job.log_path, flags.Text("log-file"));
    job.name = flags.TextOr("name", "spotps");
    job.needs = flags.TextOr("needs", "");
    PS_ASSIGN(job.answer_limit, AnswerLimit(flags));
    if (flags.Has("cpus")) {
      PS_ASSIGN(const uint64_t cpus, flags.Number("cpus", 1, kCpusMax));
      job.cpus = static_cast<uint32_t>(cpus);
    }
    if (flags.Has("task")) {
      PS_ASSIGN(const uint64_t task, flags.Number("task", 0, UINT32_MAX));
      job.task = static_cast<uint32_t>(task);
    }
    if (flags.Has("notice-s")) {
      PS_ASSIGN(const uint64_t notice_s, flags.Number("notice-s", 0, kNoticeSecondsMax));
      job.notice_s = static_cast<uint32_t>(notice_s);
    }
    uint64_t poll_ms = kPollMillis;
    if (flags.Has("poll-ms")) {
      PS_ASSIGN(poll_ms, flags.Number("poll-ms", 10, kPollMillisMax));
    }
    job.poll = std::chrono::milliseconds(poll_ms);
    job.words = LaunchWords(flags.TextOr("sbatch", ""), "", 0);
    job.arguments = std::move(arguments);
    job.arguments.insert(job.arguments.begin(), std::move(program));
    return AgentWork(
        [job = std::move(job)](const AgentWishes& wishes) { return RunBySlurm(job, wishes); });
  }
};

}  // namespace

const AgentKind& SlurmKind() {
  static const Slurm kind;
  return kind;
}

}  // namespace ps::provisioner
