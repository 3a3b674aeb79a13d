#include "psctl/runs/stop_command.h"

#include <fmt/core.h>
#include <poll.h>

#include "psctl/cli/arguments.h"
#include "psctl/runs/chosen_run.h"
#include "run/directory/control.h"
#include "run/directory/files.h"

namespace ps::psctl {
namespace {

constexpr int kStopPollMillis = 100;
constexpr int kStopPollsMax = 1200;  // two minutes

int Stop(const StopCommand& command, const run::RunPaths& run, const run::Console& console) {
  const std::string name = run::BaseName(run.root);
  if (!run::FileLock::IsHeld(run.lock())) {
    return run::Fail(console, Status::NotFound(fmt::format("{} has ended already", name)));
  }
  const Status asked = run::AskToStop(run, command.is_immediate);
  if (!asked.ok()) {
    return run::Fail(console, asked);
  }
  console.err(
      name + (command.is_immediate
                  ? " is ending at once\n"
                  : " is ending after the steps in hand and an evaluation of its model\n"));
  for (int i = 0; i < kStopPollsMax; ++i) {
    if (!run::FileLock::IsHeld(run.lock())) {
      console.out(name + " has ended\n");
      return run::kExitOk;
    }
    ::poll(nullptr, 0, kStopPollMillis);
  }
  return run::Fail(
      console,
      Status::DeadlineExceeded(fmt::format(
          "{} is still running; psctl status shows what it does, psctl stop once more leaves its "
          "model without an evaluation, psctl stop --now ends it at once, without a "
          "model",
          name)));
}

void AddArguments(StopCommand* command, Arguments* arguments) {
  arguments->AddRun(&command->job);
  arguments->Add("--now", &command->is_immediate, "End it at once, without a model");
}

}  // namespace

constinit const Command kStop = {
    .path = "stop",
    .group = Group::kSteer,
    .help = "End a running job after the steps in hand",
    .examples =
        {{{"psctl stop fashion-mnist-cnn",
           "end a job after the steps in hand; its model is left"}}},
    .declare = Declare<StopCommand, AddArguments, OnRun<StopCommand, Stop>>};

}  // namespace ps::psctl
