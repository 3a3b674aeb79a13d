#include "psctl/runs/train_command.h"

#include <fmt/core.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ps/base/text.h"
#include "ps/proto/job/job_config.h"
#include "psctl/cli/arguments.h"
#include "psctl/remote/head_resume.h"
#include "psctl/remote/remote_run.h"
#include "psctl/runs/attach_command.h"

namespace ps::psctl {
namespace {

void AddTrain(TrainCommand* command, Arguments* arguments) {
  arguments->Add("JOB.json", &command->job_path, "Job file; configs/job.fbs is its manual")
      .Required();
  arguments->AddSettings(
      &command->overrides, "Change a field of the job: --set train.epochs=2 train.seed=7");
  arguments->Add("--plan", &command->plan_path, "plan.json: run its fleet here and compare with it")
      .Value("FILE");
  arguments
      ->Add(
          "--profile",
          &command->profile_path,
          "Profile to refine with what the run tells; ./profile.json if there is one")
      .Value("FILE");
  arguments->Add("--no-refine", &command->no_refine, "Leave the profile as it is");
  arguments->Add("--json", &command->is_json, "Print the summary as JSON");
  arguments->Add(
      "--detach", &command->is_detached, "Return when the run listens; it goes on by itself");
  arguments
      ->Add(
          "--remote",
          &command->is_remote,
          "Rent a stable machine for coordinator and servers, too (launch.rent.head)")
      .Excludes("--profile")
      .Excludes("--no-refine");
  arguments->Add(
      "--print-config", &command->only_prints_config, "Print the job as resolved, run nothing");
}

void AddResume(run::ResumeOrder* command, Arguments* arguments) {
  arguments->Add("RUN", &command->from, "Run, folder with checkpoints, or place of copies")
      .Required();
  arguments->AddSettings(
      &command->overrides, "Change what does not change the model: servers, workers");
  arguments->Add(
      "--trust-launch",
      &command->is_trusted,
      "Start what the job of a copy names: hosts, prefix, words for ssh and sbatch");
  arguments->Add("--json", &command->is_json, "Print the summary as JSON");
  arguments->Add(
      "--detach", &command->is_detached, "Return when the run listens; it goes on by itself");
}

/// `Order`: with is_detached and is_json.
template <typename Order>
int BeginThere(
    const proto::JobConfig& config,
    const RemoteRun::Beginning& beginning,
    const Order& command,
    const Session& session) {
  const run::Console& console = session.console;
  const Result<std::unique_ptr<RemoteRun>> remote = RemoteRun::Create(config, beginning, console);
  if (!remote.ok()) {
    return remote.status().code() == StatusCode::kInvalidArgument
               ? run::Misuse(console, remote.status())
               : run::Fail(console, remote.status());
  }
  session.registry.Add((*remote)->paths()).Ignore("its folder names it as well");
  if (const Status begun = (*remote)->Begin(); !begun.ok()) {
    return run::Fail(console, begun);
  }
  if (command.is_detached) {
    const std::string name = Printable(run::BaseName((*remote)->paths().root));
    console.err(fmt::format("psctl: {0} goes on by itself; psctl attach {0}\n", name));
    return run::kExitOk;
  }
  return FollowRemote(remote->get(), command.is_json, console);
}

/// What the job file has wrong is said before anything is started.
int Begin(const TrainCommand& command, const Session& session) {
  std::vector<proto::ConfigOverride> overrides = command.overrides;
  if (command.is_remote) {
    overrides.push_back({"run.listen", "0.0.0.0"});  // of the head, for its workers
  }
  const Result<proto::JobConfig> config = proto::LoadJobConfig(
      command.job_path,
      overrides,
      command.is_remote ? proto::DataPlace::kElsewhere : proto::DataPlace::kHere);
  if (!config.ok()) {
    return run::Misuse(session.console, config.status());
  }
  if (command.only_prints_config) {
    session.console.out(proto::PrintJobConfig(*config));
    return run::kExitOk;
  }
  if (command.is_remote) {
    return BeginThere(*config, {command.plan_path, "", {}, false}, command, session);
  }
  return run::Fail(session.console, run::BecomeCoordinator(run::TrainOrder(command)));
}

int GoOn(const run::ResumeOrder& order, const Session& session) {
  const Result<std::optional<HeadResume>> there = HeadResumeOf(order, session.registry);
  if (!there.ok()) {
    return there.status().code() == StatusCode::kInvalidArgument
               ? run::Misuse(session.console, there.status())
               : run::Fail(session.console, there.status());
  }
  if (*there) {
    session.console.err((*there)->found + "\n");
    return BeginThere((*there)->config, (*there)->beginning, order, session);
  }
  return run::Fail(session.console, run::BecomeCoordinator(order));
}

}  // namespace

constinit const Command kTrain = {
    .path = "train",
    .group = Group::kRun,
    .help = "Run a job to its end",
    .examples =
        {{{"psctl train configs/fashion_mnist_cnn.json", "run a job; Ctrl-C ends it cleanly"},
          {"psctl train job.json --set train.epochs=1", "change a field for this run"},
          {"psctl train job.json --print-config", "show the config as it would be used"},
          {"psctl train job.json --json > summary.json", "the summary for programs"},
          {"psctl train job.json --remote --detach", "on rented machines, this one may go"}}},
    .declare = Declare<TrainCommand, AddTrain, Begin>};

constinit const Command kResume = {
    .path = "resume",
    .group = Group::kRun,
    .help = "Go on with a run that has ended before it was done",
    .examples = {{{"psctl resume runs/mnist-20240131-120000", "go on where it ended"}}},
    .declare = Declare<run::ResumeOrder, AddResume, GoOn>};

}  // namespace ps::psctl
