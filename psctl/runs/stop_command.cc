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

int Stop(const StopCommand& command, const Session& session) {
  const Console& console = session.console;
  const Result<RunPaths> run = ChooseRun(command.job, session.registry);
  if (!run.ok()) {
    return Fail(console, run.status());
  }
  const std::string name = BaseName(run->root);
  if (!FileLock::IsHeld(run->lock())) {
    return Fail(console, Status::NotFound(fmt::format("{} has ended already", name)));
  }
  const Status asked = AskToStop(*run, command.is_immediate);
  if (!asked.ok()) {
    return Fail(console, asked);
  }
  console.err(
      name +
      (command.is_immediate ? " is ending at once\n" : " is ending after the steps in hand\n"));
  for (int i = 0; i < kStopPollsMax; ++i) {
    if (!FileLock::IsHeld(run->lock())) {
      console.out(name + " has ended\n");
      return kExitOk;
    }
    ::poll(nullptr, 0, kStopPollMillis);
  }
  return Fail(
      console,
      Status::DeadlineExceeded(
          fmt::format("{} is still running; psctl stop --now ends it at once", name)));
}

void AddArguments(StopCommand* command, Arguments* arguments) {
  arguments->AddRun(&command->job);
  arguments->Add("--now", &command->is_immediate, "End it at once");
}

}  // namespace

constinit const Command kStop = {
    .path = "stop",
    .group = Group::kSteer,
    .help = "End a running job after the steps in hand",
    .examples = {{{"psctl stop fashion-mnist-cnn", "end a job after the steps in hand"}}},
    .declare = Declare<StopCommand, AddArguments, Stop>};

}  // namespace ps::psctl
