#include "psctl/runs/set_command.h"

#include <fmt/format.h>

#include "ps/proto/job/step_settings.h"
#include "psctl/cli/arguments.h"
#include "psctl/runs/chosen_run.h"
#include "run/directory/control.h"
#include "run/report/exchange.h"

namespace ps::psctl {
namespace {

int RunSet(const SetCommand& command, const run::RunPaths& run, const run::Console& console) {
  const std::string name = run::BaseName(run.root);
  if (!run::FileLock::IsHeld(run.lock())) {
    return run::Fail(
        console,
        Status::NotFound(fmt::format("{} has ended; psctl resume takes --set KEY=VALUE", name)));
  }
  const Result<proto::SetReply> reply = run::AskToSet(run, command.changes);
  if (!reply.ok()) {
    return run::Fail(console, reply.status());
  }
  console.out(fmt::format("{}: {}\n", name, run::StepsText(reply->steps)));
  return run::kExitOk;
}

void AddArguments(SetCommand* command, Arguments* arguments) {
  arguments
      ->Add(
          "KEY=VALUE",
          &command->words,
          fmt::format(
              "What changes, and the run if there are several: {}",
              fmt::join(proto::kSettableKeys, ", ")))
      .Required();
  arguments->Check([command] { return ParseSettings(command->words, command); });
}

}  // namespace

Status ParseSettings(const std::vector<std::string>& words, SetCommand* command) {
  command->changes.clear();
  command->job.clear();
  for (const std::string& word : words) {
    if (!command->job.empty()) {
      return Status::InvalidArgument(
          fmt::format("{} is no KEY=VALUE, and only the last word may name the run", command->job));
    }
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      command->job = word;
    } else if (equals == 0 || equals + 1 == word.size()) {
      return Status::InvalidArgument(
          fmt::format("{} lacks a key or a value; allowed: exchange.push=int8", word));
    } else {
      command->changes.push_back({word.substr(0, equals), word.substr(equals + 1)});
    }
  }
  return !command->changes.empty()
             ? Status::Ok()
             : Status::InvalidArgument("nothing is to change; allowed: exchange.push=int8");
}

constinit const Command kSet = {
    .path = "set",
    .group = Group::kSteer,
    .help = "Change how often and in how many bits workers exchange, while they train",
    .examples =
        {{{"psctl set exchange.push=int8 train.local_steps=100", "for links that are too thin"},
          {"psctl set exchange.push=auto", "chosen by the links from now on"}}},
    .declare = Declare<SetCommand, AddArguments, OnRun<SetCommand, RunSet>>};

}  // namespace ps::psctl
