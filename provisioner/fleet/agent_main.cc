// ps_agent: stands on psctl's machine for one process that runs elsewhere. psctl starts it.

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "provisioner/fleet/launch_check.h"
#include "provisioner/fleet/slurm_agent.h"
#include "provisioner/fleet/ssh_agent.h"
#include "ps/base/file.h"
#include "ps/base/flags.h"
#include "ps/base/process_start.h"

namespace ps::provisioner {
namespace {

constexpr size_t kTokenBytesMax = size_t{16} << 10;
constexpr uint64_t kAnswerSeconds = 30;
constexpr uint64_t kAnswerSecondsMax = 3600;
constexpr uint64_t kNoticeSecondsMax = 65'535;  // that sbatch takes
constexpr uint64_t kPollMillis = 1000;
constexpr uint64_t kPollMillisMax = 60'000;

Manual AgentManual() {
  return {
      "ps_agent",
      "stands for a process that runs elsewhere",
      "--launcher ssh|slurm --program FILE [FLAGS] -- ARGUMENTS",
      {{"Description",
        "",
        "psctl starts one for each worker or server of a job with the launcher ssh or slurm. It "
        "ends as that ends, passes SIGTERM on to it, and takes it along when it is killed.",
        {},
        {}},
       {"Flags",
        "",
        "",
        {{"--launcher", "NAME", "ssh or slurm. Required."},
         {"--program", "FILE", "What to run. Required."},
         {"--needs", "PATH", "Where this does not exist, the program is not started."},
         {"--host", "HOST", "ssh: where. Required there."},
         {"--token-file", "FILE", "ssh: what lets the program into the run; becomes its stdin."},
         {"--ssh-config", "FILE", "ssh: its configuration. Default: the user's own."},
         {"--answer-s",
          "N",
          "How long a host may be silent at the start, or a command of Slurm. Default: 30."},
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
         {"--poll-ms", "N", "slurm: between two questions, at first. Default: 1000."}},
        {}},
       {"Other flags",
        "",
        "",
        {{"-h, --help", "", "This text."},
         {"--man", "", "The same as a man page."},
         {"--version", "", "The version."}},
        {}},
       {"Exit codes",
        "",
        "Those of the program, and: 120 it could not be started, 121 nobody knows how it ended, 2 "
        "misused.",
        {},
        {}}}};
}

Result<Duration> AnswerLimit(const Flags& flags) {
  uint64_t seconds = kAnswerSeconds;
  if (flags.Has("answer-s")) {
    PS_ASSIGN(seconds, flags.Number("answer-s", 1, kAnswerSecondsMax));
  }
  return Duration(std::chrono::seconds(seconds));
}

Result<SshJob> ReadSshJob(const Flags& flags, std::vector<std::string> arguments) {
  SshJob job;
  PS_ASSIGN(job.program, flags.Text("program"));
  PS_ASSIGN(job.host, flags.Text("host"));
  PS_ASSIGN(const std::string token_file, flags.Text("token-file"));
  PS_ASSIGN(job.token, ReadSmallFile(token_file, kTokenBytesMax));
  const std::string folder = std::filesystem::path(token_file).parent_path().string();
  job.turns = folder.empty() ? "." : folder;
  job.ssh_config = flags.TextOr("ssh-config", "");
  job.needs = flags.TextOr("needs", "");
  PS_ASSIGN(job.answer_limit, AnswerLimit(flags));
  job.arguments = std::move(arguments);
  return job;
}

Result<SlurmJob> ReadSlurmJob(const Flags& flags, std::vector<std::string> arguments) {
  SlurmJob job;
  PS_ASSIGN(const std::string program, flags.Text("program"));
  PS_ASSIGN(job.log_path, flags.Text("log-file"));
  job.name = flags.TextOr("name", "spotps");
  job.needs = flags.TextOr("needs", "");
  PS_ASSIGN(job.answer_limit, AnswerLimit(flags));
  if (flags.Has("cpus")) {
    PS_ASSIGN(const uint64_t cpus, flags.Number("cpus", 1, 1024));
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
  job.arguments.insert(job.arguments.begin(), program);
  return job;
}

int Misused(const Status& why) {
  AgentSay(std::string(why.message()));
  return 2;
}

int Main(int argc, char** argv) {
  char** const rest = std::find(argv, argv + argc, std::string_view("--"));
  const int own = static_cast<int>(rest - argv);
  std::vector<std::string> arguments(rest == argv + argc ? rest : rest + 1, argv + argc);
  const Manual manual = AgentManual();
  const std::string asked = Flags::Asked(own, argv, manual, PS_VERSION);
  if (!asked.empty()) {
    std::fputs(asked.c_str(), stdout);
    return 0;
  }
  const Result<Flags> flags = Flags::Parse(own, argv, manual);
  if (!flags.ok()) {
    return Misused(flags.status());
  }
  const std::string launcher = flags->TextOr("launcher", "");
  if (launcher == "ssh") {
    const Result<SshJob> job = ReadSshJob(*flags, std::move(arguments));
    if (!job.ok()) {
      return Misused(job.status());
    }
    RunAgent([&](const AgentWishes& wishes) { return RunOverSsh(*job, wishes); });
  }
  if (launcher == "slurm") {
    const Result<SlurmJob> job = ReadSlurmJob(*flags, std::move(arguments));
    if (!job.ok()) {
      return Misused(job.status());
    }
    RunAgent([&](const AgentWishes& wishes) { return RunBySlurm(*job, wishes); });
  }
  return Misused(
      Status::InvalidArgument(fmt::format("--launcher is '{}'; allowed: ssh, slurm", launcher)));
}

}  // namespace
}  // namespace ps::provisioner

int main(int argc, char** argv) {
  ps::OpenStandardStreams();
  return ps::provisioner::Main(argc, argv);
}
