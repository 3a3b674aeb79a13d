#include "psctl/runs/page_command.h"

#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "ps/base/file.h"
#include "ps/base/host_port.h"
#include "psctl/cli/arguments.h"
#include "psctl/cli/interrupts.h"
#include "psctl/runs/chosen_run.h"
#include "run/directory/files.h"
#include "run/directory/head_file.h"
#include "run/page/directory_source.h"
#include "run/page/http_server.h"
#include "run/page/page_access.h"
#include "run/page/page_routes.h"

extern char** environ;

namespace ps::psctl {
namespace {

constexpr int kPollMillis = 200;
constexpr size_t kRunsMax = 50;  // the newest
constexpr size_t kLinkBytesMax = 1024;

/// How a browser on another machine gets there, for a link to this machine alone.
std::string ElsewhereText(const std::string& link) {
  constexpr std::string_view kBegin = "http://";
  const size_t end = link.find("/#");
  const Result<HostPort> address = ParseHostPort(
      std::string_view(link).substr(kBegin.size(), end - std::min(end, kBegin.size())));
  if (!link.starts_with(kBegin) || !address.ok() || !IsLoopback(address->host)) {
    return "";
  }
  return fmt::format(
      "from another machine: ssh -N -L {0}:{1} HOST there, then open the link in its browser\n",
      address->port,
      FormatHostPort(address->host, address->port));
}

/// Leads to the link. Words of programs are seen by everybody on this machine, and the link has the
/// key; so a browser is told of a file that only its owner can read.
std::string RedirectPage(const run::RunPaths& run) {
  return run.root + "/page.html";
}

/// Whether a program that opens links could be started.
bool OpensInBrowser(const std::string& link, const std::string& page) {
  const std::string text = fmt::format(
      "<!doctype html><meta charset=\"utf-8\"><title>spotps</title>"
      "<meta http-equiv=\"refresh\" content=\"0; url={0}\"><a href=\"{0}\">the page</a>\n",
      link);
  if (!WriteFileAtomically(page, text, 0600).ok()) {
    return false;
  }
  std::string program = "xdg-open";
  std::string argument = page;
  std::array<char*, 3> arguments = {program.data(), argument.data(), nullptr};
  pid_t pid = 0;
  if (::posix_spawnp(&pid, program.c_str(), nullptr, nullptr, arguments.data(), environ) != 0) {
    return false;
  }
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void Show(
    const std::string& link,
    const run::RunPaths& run,
    const PageCommand& command,
    const run::Console& console) {
  console.out(link + "\n");
  if (command.is_opened && !OpensInBrowser(link, RedirectPage(run))) {
    console.err("psctl: xdg-open can't open it here; open the link yourself\n");
  }
  console.err(ElsewhereText(link));
}

/// Serves what the runs have left until Ctrl-C.
int Serve(
    const std::vector<run::RunPaths>& runs,
    const PageCommand& command,
    const run::Console& console) {
  const Result<HostPort> address = ParseListenAddress(command.listen);
  const Result<std::string> key = run::MakeToken();
  if (!address.ok() || !key.ok()) {
    return run::Fail(console, address.ok() ? key.status() : address.status());
  }
  std::vector<run::PageRun> sources;
  for (const run::RunPaths& run : runs) {
    sources.push_back({run::BaseName(run.root), std::make_unique<run::DirectorySource>(run)});
  }
  const auto routes =
      std::make_shared<run::PageRoutes>(std::move(sources), *key, "spotps " PS_VERSION);
  const Result<std::unique_ptr<run::HttpServer>> server = run::HttpServer::Start(
      *address, {}, [routes](const run::PageRequest& request) { return routes->Answer(request); });
  if (!server.ok()) {
    return run::Fail(console, server.status());
  }
  const InterruptGuard interrupts;
  Show(run::PageLink((*server)->address(), *key), runs.front(), command, console);
  console.err("Ctrl-C ends the page\n");
  while (!interrupts.IsInterrupted()) {
    ::poll(nullptr, 0, kPollMillis);
  }
  if (command.is_opened) {
    ::unlink(RedirectPage(runs.front()).c_str());
  }
  return run::kExitOk;
}

Result<std::vector<run::RunPaths>> ChosenRuns(
    const PageCommand& command, const run::RunRegistry& registry) {
  std::vector<run::RunPaths> runs;
  for (const std::string& name : command.runs) {
    PS_ASSIGN(run::RunPaths run, ChooseAnyRun(name, registry));
    if (run::IsElsewhere(run)) {
      return Status::Unavailable(fmt::format(
          "{} is on a rented machine, and so is its page; psctl top {} shows it here",
          run::BaseName(run.root),
          name));
    }
    runs.push_back(std::move(run));
  }
  if (command.runs.empty()) {
    runs = registry.All();
    if (runs.size() > kRunsMax) {
      runs.erase(runs.begin(), runs.end() - static_cast<std::ptrdiff_t>(kRunsMax));
    }
  }
  if (runs.empty()) {
    return Status::NotFound("there are no runs in " + registry.ScannedText());
  }
  return runs;
}

int Run(const PageCommand& command, const Session& session) {
  const Result<std::vector<run::RunPaths>> runs = ChosenRuns(command, session.registry);
  if (!runs.ok()) {
    return run::Fail(session.console, runs.status());
  }
  if (runs->size() == 1 && run::FileLock::IsHeld(runs->front().lock())) {
    const Result<std::string> link = LinkOf(runs->front());
    if (!link.ok()) {
      return run::Fail(session.console, link.status());
    }
    Show(*link, runs->front(), command, session.console);
    return run::kExitOk;
  }
  return Serve(*runs, command, session.console);
}

void AddArguments(PageCommand* command, Arguments* arguments) {
  arguments->Add(
      "RUN", &command->runs, "Names or directories of runs; all that are known if absent");
  arguments->Add("--open", &command->is_opened, "Open it in this desktop's browser");
  arguments
      ->Add("--listen", &command->listen, "Where to serve runs that have ended: ADDRESS[:PORT]")
      .Value("ADDRESS");
}

}  // namespace

Result<std::string> LinkOf(const run::RunPaths& run) {
  const Result<std::string> link = ReadSmallFile(run.page_link(), kLinkBytesMax);
  if (!link.ok()) {
    return Status::NotFound(fmt::format(
        "{} serves no page: run.page is off, its address could not be had (its log says why), or "
        "you may not read {}",
        run::BaseName(run.root),
        run.page_link()));
  }
  return link;
}

constinit const Command kPage = {
    .path = "page",
    .group = Group::kWatch,
    .help = "Show runs in a browser: a running one by its link, ended ones until Ctrl-C",
    .examples =
        {{{"psctl page mnist", "the link of the run's page"},
          {"psctl page", "all runs of this folder, side by side"},
          {"psctl page runs/mnist-20240131-120000 --open", "an ended run, in the browser"}}},
    .declare = Declare<PageCommand, AddArguments, Run>};

}  // namespace ps::psctl
