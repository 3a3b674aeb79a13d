#include "psctl/remote/head_shell.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "provisioner/fleet/agent_process.h"
#include "provisioner/fleet/ssh_agent.h"

extern char** environ;

namespace ps::psctl {
namespace {

constexpr Duration kConnectMax = std::chrono::seconds(15);

}  // namespace

bool SaidOf(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

std::string PathOnHead(const std::string& folder) {
  const std::string quoted = provisioner::ShellQuoted({folder});
  return folder.starts_with("/") ? quoted : "\"$HOME\"/" + quoted;
}

std::vector<std::string> HeadShell::Words(const std::string& script) const {
  std::vector<std::string> words =
      provisioner::SshWords(access_.login, access_.ssh_config, kConnectMax, access_.keys);
  // The login shell may be of any kind.
  words.push_back(
      "exec /bin/sh -c " +
      provisioner::ShellQuoted({": spotps process; cd \"$HOME\" && {\n" + script + "\n}"}));
  return words;
}

Result<std::string> HeadShell::Run(
    const std::string& script, Duration limit, std::string_view input) const {
  return provisioner::RunCommand(Words(script), input, limit);
}

Result<int> HeadShell::Show(const std::string& script) const {
  std::vector<std::string> words = Words(script);
  const bool has_terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
  if (has_terminal) {
    std::ranges::replace(words, std::string("-T"), std::string("-t"));
  }
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int error =
      ::posix_spawnp(&pid, arguments.front(), nullptr, nullptr, arguments.data(), environ);
  if (error != 0) {
    return Status::NotFound(std::string("cannot start ssh: ") + std::strerror(error));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kNoConnection;
}

Status HeadShell::Send(
    const std::vector<std::pair<std::string, std::string>>& what,
    const std::string& script,
    Duration limit) const {
  std::string archives;
  for (const auto& [folder, name] : what) {
    archives += (archives.empty() ? "" : " && ") +
                provisioner::ShellQuoted({"tar", "-c", "-f", "-", "-C", folder, name});
  }
  const std::string pipe = "{ " + archives + "; } | " + provisioner::ShellQuoted(Words(script));
  return provisioner::RunCommand({"/bin/sh", "-c", pipe}, "", limit).status();
}

Status HeadShell::Fetch(
    const std::string& script, const std::string& folder, Duration limit) const {
  const std::string pipe = provisioner::ShellQuoted(Words(script)) +
                           " | tar -x -i -f - --no-same-owner -C " +
                           provisioner::ShellQuoted({folder});
  return provisioner::RunCommand({"/bin/sh", "-c", pipe}, "", limit).status();
}

}  // namespace ps::psctl
