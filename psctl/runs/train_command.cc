#include "psctl/runs/train_command.h"

#include "ps/proto/job/job_config.h"
#include "psctl/cli/arguments.h"

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

/// What the job file has wrong is said before anything is started.
int Begin(const TrainCommand& command, const Session& session) {
  const Result<proto::JobConfig> config = proto::LoadJobConfig(command.job_path, command.overrides);
  if (!config.ok()) {
    return run::Misuse(session.console, config.status());
  }
  if (command.only_prints_config) {
    session.console.out(proto::PrintJobConfig(*config));
    return run::kExitOk;
  }
  return run::Fail(session.console, run::BecomeCoordinator(run::TrainOrder(command)));
}

int GoOn(const run::ResumeOrder& order, const Session& session) {
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
          {"psctl train job.json --detach", "leave the terminal; the run goes on"}}},
    .declare = Declare<TrainCommand, AddTrain, Begin>};

constinit const Command kResume = {
    .path = "resume",
    .group = Group::kRun,
    .help = "Go on with a run that has ended before it was done",
    .examples = {{{"psctl resume runs/mnist-20240131-120000", "go on where it ended"}}},
    .declare = Declare<run::ResumeOrder, AddResume, GoOn>};

}  // namespace ps::psctl
