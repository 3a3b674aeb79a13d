#include "psctl/runs/check_command.h"

#include "provisioner/fleet/launch_check.h"
#include "ps/base/logger.h"
#include "ps/base/text.h"
#include "ps/net/endpoint.h"
#include "ps/net/loop.h"
#include "psctl/cli/arguments.h"
#include "run/directory/copies.h"
#include "run/directory/files.h"
#include "run/directory/run_directory.h"
#include "run/planning/prepared_job.h"
#include "run/report/job_view.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

/// How long a host, Slurm or Kubernetes may take to answer.
constexpr Duration kPlaceAnswers = std::chrono::seconds(30);

/// Nobody connects: the ports are only tried.
class NoHandler final : public net::EndpointHandler {
  void OnConnected(proto::PeerId, const proto::Hello&) override {}

  void OnMessage(proto::PeerId, uint64_t, proto::Message&&) override {}

  void OnClosed(proto::PeerId, const Status&) override {}
};

Status CheckPort(const std::string& host, uint32_t port) {
  net::Loop loop;
  NoHandler handler;
  net::Endpoint endpoint(&loop, {}, &NullLogger(), &handler);
  return endpoint.Listen(host, port).status();
}

/// The coordinator's, and those of servers that run on this machine.
Status CheckPorts(const proto::JobConfig& config) {
  PS_TRY(CheckPort(config.run.listen, config.run.port));
  const proto::ServerConfig& servers = config.servers;
  const bool are_here = servers.launch && servers.launcher == proto::LauncherKind::kLocal &&
                        config.launch.prefix.empty() && servers.port != 0;
  const uint32_t shards = are_here ? servers.count * servers.shards_per_server : 0;
  const std::string& listen =
      config.launch.server_listen.empty() ? config.run.listen : config.launch.server_listen;
  for (uint32_t shard = 0; shard < shards; ++shard) {
    const uint32_t server = shard / servers.shards_per_server;
    PS_TRY(CheckPort(provisioner::FillLaunchText(listen, "server", server), servers.port + shard));
  }
  return Status::Ok();
}

/// What lies outside of the job file.
Status CheckMachine(const proto::JobConfig& config) {
  PS_TRY(provisioner::CheckPrograms(run::ProgramDirectory(), config));
  PS_TRY(run::RunDirectory::CheckParent(config.run.directory));
  if (!config.checkpoint.copy_to.empty()) {
    PS_TRY(run::CheckCopyTarget(config.checkpoint.copy_to));
  }
  PS_TRY(provisioner::CheckServerPlaces(config, kPlaceAnswers));
  PS_TRY(provisioner::CheckWorkerPlaces(config, kPlaceAnswers));
  return CheckPorts(config);
}

/// Looks for everything that would keep `psctl train` from running the job to its end, without
/// starting anything: the file and its rules, shapes, the whole dataset, programs, folder and
/// ports. Prints what the job is. Returns the exit code, which is that of train.
int RunCheck(const CheckCommand& command, const run::Console& console) {
  const Result<proto::JobConfig> config = proto::LoadJobConfig(command.job_path, command.overrides);
  if (!config.ok()) {
    return run::Misuse(console, config.status());
  }
  const Result<run::PreparedJob> job =
      run::PrepareJob(*config, command.job_path, command.overrides, command.plan_path);
  if (!job.ok()) {
    return run::Misuse(console, job.status());
  }
  if (!job->note.empty()) {
    console.err("psctl: " + job->note + "\n");
  }
  if (const Status data = run::CheckData(job->config, command.job_path, command.overrides);
      !data.ok()) {
    return run::Misuse(console, data);
  }
  if (const Status machine = CheckMachine(job->config); !machine.ok()) {
    return run::Fail(console, machine);
  }
  console.out(
      run::RenderPairs(run::DescribeJob(job->config, job->parts)) + Printable(command.job_path) +
      ": nothing is wrong\n");
  return run::kExitOk;
}

void AddArguments(CheckCommand* command, Arguments* arguments) {
  arguments->Add("JOB.json", &command->job_path, "Job file").Required();
  arguments->AddSettings(&command->overrides, "Change a field of the job");
  arguments->Add("--plan", &command->plan_path, "plan.json whose fleet is to run").Value("FILE");
}

int Run(const CheckCommand& command, const Session& session) {
  return RunCheck(command, session.console);
}

}  // namespace

constinit const Command kCheck = {
    .path = "check",
    .group = Group::kRun,
    .help = "Say what train would refuse, without starting anything",
    .examples = {{{"psctl check job.json", "what train would refuse, without a run"}}},
    .declare = Declare<CheckCommand, AddArguments, Run>};

}  // namespace ps::psctl
