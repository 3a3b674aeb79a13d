#include "psctl/runs/mode_command.h"

#include <fmt/core.h>
#include <poll.h>

#include "psctl/cli/arguments.h"
#include "psctl/runs/chosen_run.h"
#include "run/directory/control.h"
#include "run/directory/mode_word.h"

namespace ps::psctl {
namespace {

constexpr int kModePollMillis = 100;

bool IsInForce(const proto::ModesStatus& modes, const proto::ModeChoice& wanted) {
  return modes.in_force == wanted && !modes.is_switching;
}

std::string InForceText(const run::RunPaths& run, const proto::ModesStatus& modes) {
  return run::BaseName(run.root) + " trains in mode " + proto::ModeText(modes.in_force) + "\n";
}

int WaitForMode(const ModeCommand& command, const run::RunPaths& run, const run::Console& console) {
  const std::string name = run::BaseName(run.root);
  while (run::FileLock::IsHeld(run.lock())) {
    const Result<proto::JobStatus> status = run::FetchStatus(run);
    if (status.ok() && IsInForce(status->modes, command.wanted)) {
      console.out(InForceText(run, status->modes));
      return run::kExitOk;
    }
    if (status.ok() && status->modes.wanted != command.wanted) {
      return run::Fail(
          console,
          Status::Cancelled(fmt::format(
              "somebody asked for mode {} of {} meanwhile",
              proto::ModeText(status->modes.wanted),
              name)));
    }
    ::poll(nullptr, 0, kModePollMillis);
  }
  return run::Fail(
      console, Status::NotFound(fmt::format("{} ended before the mode had changed", name)));
}

int RunMode(const ModeCommand& command, const run::RunPaths& run, const run::Console& console) {
  if (!run::FileLock::IsHeld(run.lock())) {
    return run::Fail(
        console,
        Status::NotFound(fmt::format(
            "{} has ended; psctl resume takes --set train.mode=MODE", run::BaseName(run.root))));
  }
  const Result<proto::ModeReply> reply = run::AskForMode(run, command.wanted);
  if (!reply.ok()) {
    return run::Fail(console, reply.status());
  }
  if (IsInForce(reply->modes, command.wanted)) {
    console.out(InForceText(run, reply->modes));
    return run::kExitOk;
  }
  console.out(
      run::BaseName(run.root) + " changes to mode " + proto::ModeText(command.wanted) +
      " when the steps in hand are done; it is in " + proto::ModeText(reply->modes.in_force) +
      " now\n");
  return command.is_waiting ? WaitForMode(command, run, console) : run::kExitOk;
}

void AddArguments(ModeCommand* command, Arguments* arguments) {
  arguments
      ->AddText(
          "MODE",
          [command](const std::string& word) -> Status {
            PS_ASSIGN(command->wanted, run::ParseMode(word));
            return Status::Ok();
          },
          "async, ssp, ssp:STALENESS or bsp")
      .Required();
  arguments->AddRun(&command->job);
  arguments->Add("--wait", &command->is_waiting, "Return when the job trains in it");
}

}  // namespace

constinit const Command kMode = {
    .path = "mode",
    .group = Group::kSteer,
    .help = "Change how far workers may drift apart, while they train",
    .examples = {{{"psctl mode ssp:4 --wait", "at most 4 steps apart, from now on"}}},
    .declare = Declare<ModeCommand, AddArguments, OnRun<ModeCommand, RunMode>>};

}  // namespace ps::psctl
