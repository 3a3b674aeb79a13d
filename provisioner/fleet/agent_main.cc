// ps_agent: stands on psctl's machine for one process that runs elsewhere. psctl starts it.

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/fleet/agent_kind.h"
#include "ps/process/process_start.h"

namespace ps::provisioner {
namespace {

std::string KindNames(std::string_view between) {
  std::string names;
  for (const AgentKind* const kind : AgentKinds()) {
    names += (names.empty() ? "" : std::string(between)) + std::string(kind->name());
  }
  return names;
}

Manual AgentManual() {
  std::vector<ManualFlag> flags = {
      {"--launcher", "NAME", KindNames(" or ") + ". Required."},
      {"--program", "FILE", "What to run. Required."},
      {"--needs", "PATH", "Where this does not exist, the program is not started."},
      {"--zone", "NAME", "Where the machine is, for a psctl that goes on with the run."},
      {"--answer-s",
       "N",
       "How long a host may be silent at the start, or a command of a batch system. Default: 30."}};
  for (const AgentKind* const kind : AgentKinds()) {
    std::ranges::move(kind->flags(), std::back_inserter(flags));
  }
  return {
      "ps_agent",
      "stands for a process that runs elsewhere",
      "--launcher " + KindNames("|") + " --program FILE [FLAGS] -- ARGUMENTS",
      {{"Description",
        "",
        "psctl starts one for each worker or server of a job whose launcher is not local. It ends "
        "as that ends, passes SIGTERM on to it, and takes it along when it is killed.",
        {},
        {}},
       {"Flags", "", "", std::move(flags), {}},
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
  const auto kind = std::ranges::find(AgentKinds(), launcher, &AgentKind::name);
  if (kind == AgentKinds().end()) {
    return Misused(Status::InvalidArgument(
        fmt::format("--launcher is '{}'; allowed: {}", launcher, KindNames(", "))));
  }
  const Result<std::string> program = flags->Text("program");
  if (!program.ok()) {
    return Misused(program.status());
  }
  const Result<AgentWork> work = (*kind)->WorkFor(*flags, *program, std::move(arguments));
  if (!work.ok()) {
    return Misused(work.status());
  }
  RunAgent(*work);
}

}  // namespace
}  // namespace ps::provisioner

int main(int argc, char** argv) {
  ps::OpenStandardStreams();
  return ps::provisioner::Main(argc, argv);
}
