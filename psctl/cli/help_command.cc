#include "psctl/cli/help_command.h"

#include <string>
#include <vector>

#include "psctl/cli/arguments.h"
#include "psctl/cli/command_line.h"

namespace ps::psctl {
namespace {

struct HelpCommand {
  std::vector<std::string> path;  // of a command; empty: all of psctl
  bool is_man_page = false;
};

struct CompletionCommand {
  std::string shell;
};

void AddHelp(HelpCommand* command, Arguments* arguments) {
  arguments->Add("COMMAND", &command->path, "As in: psctl help catalog show; all if absent");
  arguments->Add("--man", &command->is_man_page, "Print the man page of psctl, for man -l -");
}

void AddCompletion(CompletionCommand* command, Arguments* arguments) {
  arguments
      ->Add(
          "bash|zsh",
          &command->shell,
          "The shell, as in: source <(psctl completion bash). Installed packages have it already")
      .Required();
  arguments->Check([command] { return CheckOneOf("shell", command->shell, {"bash", "zsh"}); });
}

int Help(const HelpCommand& command, const Session& session) {
  const Result<std::string> text = command.is_man_page
                                       ? Result<std::string>(ManPage(session.commands))
                                       : HelpText(session.commands, command.path);
  if (!text.ok()) {
    return run::Misuse(session.console, text.status());
  }
  session.console.out(*text);
  return run::kExitOk;
}

int Complete(const CompletionCommand& command, const Session& session) {
  const CommandText table = DescribeCommands(session.commands);
  session.console.out(command.shell == "bash" ? BashCompletion(table) : ZshCompletion(table));
  return run::kExitOk;
}

}  // namespace

constinit const Command kHelp = {
    .path = "help",
    .group = Group::kHelp,
    .help = "Show what a command does and all its flags",
    .examples = {{{"psctl help plan", "all flags of a command"}}},
    .declare = Declare<HelpCommand, AddHelp, Help>};

constinit const Command kCompletion = {
    .path = "completion",
    .group = Group::kHelp,
    .help = "Print a script that completes what is typed",
    .declare = Declare<CompletionCommand, AddCompletion, Complete>};

}  // namespace ps::psctl
