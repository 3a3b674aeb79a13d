#include "psctl/remote/forward.h"

#include <fmt/core.h>

#include "provisioner/fleet/agent_process.h"
#include "ps/proto/job/job_config.h"
#include "psctl/remote/head_shell.h"
#include "run/directory/files.h"

namespace ps::psctl {
namespace {

/// As kFindRun has found it.
constexpr const char* kRun = "\"${run%/}\"";

}  // namespace

std::string WordsOnHead(const std::vector<std::string>& typed, const std::string& run_word) {
  // From the last word down: a job may be called as a command.
  size_t run_at = typed.size();
  while (run_at > 1 && typed[run_at - 1] != run_word) {
    --run_at;
  }
  std::string words = " " + provisioner::ShellQuoted({typed.front()});
  for (size_t i = 1; i < typed.size(); ++i) {
    words += " " + (i + 1 == run_at ? std::string(kRun) : provisioner::ShellQuoted({typed[i]}));
  }
  return words +
         (run_at == 1 ? std::string(" ") + kRun : "");  // where it may be left out it comes last
}

Result<int> Forward(
    const run::RunPaths& run,
    const run::HeadFile& head,
    const std::string& run_word,
    const Session& session) {
  const std::string name = run::BaseName(run.root);
  if (!head.is_begun) {
    return Status::InvalidArgument(
        fmt::format("{} has not begun on its head; psctl attach {} goes on with it", name, name));
  }
  PS_ASSIGN(
      const proto::JobConfig config,
      proto::LoadJobConfig(run.config(), {}, proto::DataPlace::kElsewhere));
  const std::vector<std::string> typed(session.words.begin(), session.words.end());
  if (typed.front() == "checkpoint" && typed.size() > 1 &&
      (typed[1] == "export" || typed[1] == "copy")) {
    return Status::Unavailable(fmt::format(
        "{} is on a rented machine, which a file would go with; psctl attach {} fetches its "
        "checkpoints once it has ended",
        name,
        name));
  }
  const HeadShell shell({head.login, config.launch.ssh_config, run.rentals()});
  PS_ASSIGN(
      const int code,
      shell.Show(fmt::format(
          "cd {} && {}exec {}/psctl{}",
          provisioner::ShellQuoted({run::FolderOnHead(run)}),
          kFindRun,
          PathOnHead(head.programs),
          WordsOnHead(typed, run_word))));
  if (code == HeadShell::kNoConnection) {
    return Status::Unavailable(fmt::format(
        "{} on {} can't be asked: ssh does not get there; psctl attach {} says more",
        name,
        head.login,
        name));
  }
  if (code == run::kExitOk && session.words.front() == "stop") {
    session.console.err(fmt::format(
        "psctl attach {} fetches what it left, and gives its head back, which costs until then\n",
        name));
  }
  return code;
}

}  // namespace ps::psctl
