#include "psctl/runs/attach_command.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/base/time.h"
#include "psctl/cli/arguments.h"
#include "psctl/cli/interrupts.h"
#include "psctl/runs/chosen_run.h"
#include "psctl/runs/runs_command.h"
#include "run/directory/control.h"
#include "run/directory/head_file.h"
#include "run/report/progress.h"
#include "run/report/run_events.h"
#include "run/report/summary.h"

namespace ps::psctl {
namespace {

constexpr int kAttachPollMillis = 250;
/// A coordinator that is being started again, or is very busy.
constexpr Duration kPatience = std::chrono::seconds(2);

/// One look at a run after the other.
class Attachment {
 public:
  Attachment(const run::RunPaths& run, const run::Console& console)
      : run_(run),
        name_(Printable(run::BaseName(run.root))),
        progress_(
            {.is_terminal = console.is_err_terminal,
             .write = console.err,
             .terminal_width = console.err_width}) {}

  /// False when the run is over.
  bool Look() {
    const Result<proto::JobStatus> status = run::FetchStatus(run_);
    const TimePoint now = SystemTime().Now();
    if (status.ok()) {
      Show(*status, now);
      return true;
    }
    if (!run::FileLock::IsHeld(run_.lock())) {
      return false;
    }
    if (!is_silence_told_ && now - heard_ > kPatience) {
      is_silence_told_ = true;
      progress_.Say("the coordinator does not answer; waiting for it");
    }
    return true;
  }

  void Finish() { progress_.Finish(); }

 private:
  void Show(const proto::JobStatus& status, TimePoint now) {
    heard_ = now;
    is_silence_told_ = false;
    std::vector<std::string> events = events_.Update(status);
    if (is_first_) {
      // What has happened so far is in psctl status.
      is_first_ = false;
      events = {"attached to " + name_ + "; Ctrl-C leaves it running"};
    } else if (status.journal.restarts > restarts_) {
      events.insert(events.begin(), "the coordinator was restarted, and the run goes on");
    }
    restarts_ = status.journal.restarts;
    progress_.Update(status, events, now);
  }

  const run::RunPaths& run_;
  const std::string name_;
  run::ProgressPrinter progress_;
  run::RunEvents events_;
  TimePoint heard_ = SystemTime().Now();
  bool is_silence_told_ = false;
  bool is_first_ = true;
  uint32_t restarts_ = 0;
};

int TellEnd(const run::RunPaths& run, bool is_json, const run::Console& console) {
  if (const int code = PrintSummary(run, is_json, console); code != run::kExitOk) {
    return code;
  }
  const RunRow ended = EndedRun(run);
  return run::ExitCodeOf(ended.state, ended.model_problem);
}

/// Shows how a run goes until it has ended, and then its summary. Ctrl-C leaves the run alone.
/// Returns the exit code of the run; 0 when it still goes on.
int RunAttach(const AttachCommand& command, const run::RunPaths& run, const run::Console& console) {
  if (run::FileLock::IsHeld(run.lock())) {
    const InterruptGuard interrupts;
    Attachment attachment(run, console);
    while (attachment.Look()) {
      if (interrupts.IsInterrupted()) {
        attachment.Finish();
        const std::string name = Printable(run::BaseName(run.root));
        console.err("detached; " + name + " goes on, and psctl stop " + name + " ends it\n");
        return run::kExitOk;
      }
      // One whose reader is gone, as when an ssh connection breaks, would look on for nobody.
      pollfd reader = {.fd = STDERR_FILENO, .events = 0, .revents = 0};
      if (::poll(&reader, 1, kAttachPollMillis) == 1) {
        return run::kExitOk;
      }
    }
    attachment.Finish();
  }
  return TellEnd(run, command.is_json, console);
}

/// Goes on with a run on a rented machine wherever whoever rented it has left off, and ends
/// with all that it left being here.
int AttachThere(const AttachCommand& command, RemoteRun* remote, const run::Console& console) {
  const Status begun = command.forgets ? remote->Forget() : remote->Begin();
  if (!begun.ok()) {
    return run::Fail(console, begun);
  }
  if (command.forgets) {
    console.err("psctl: its head is forgotten; what is here stays\n");
    return run::kExitOk;
  }
  return FollowRemote(remote, command.is_json, console);
}

int Attach(const AttachCommand& command, const Session& session) {
  const run::Console& console = session.console;
  const Result<run::RunPaths> run = ChooseRun(command.job, session.registry);
  if (!run.ok()) {
    return run::Fail(console, run.status());
  }
  if (!run::IsElsewhere(*run)) {
    if (command.forgets) {
      return run::Misuse(
          console,
          Status::InvalidArgument("--forget is for a run on a rented machine, and this is none"));
    }
    return RunAttach(command, *run, console);
  }
  Result<std::unique_ptr<RemoteRun>> remote = RemoteRun::Open(*run, console);
  return remote.ok() ? AttachThere(command, remote->get(), console)
                     : run::Fail(console, remote.status());
}

void AddArguments(AttachCommand* command, Arguments* arguments) {
  arguments->AddRun(&command->job);
  arguments->Add("--json", &command->is_json, "Print the summary as JSON");
  arguments->Add(
      "--forget", &command->forgets, "Of a rented machine that is gone: do not look for it again");
}

}  // namespace

int FollowRemote(RemoteRun* remote, bool is_json, const run::Console& console) {
  const std::string name = Printable(run::BaseName(remote->paths().root));
  const Result<bool> has_ended = remote->Follow();
  if (!has_ended.ok()) {
    return run::Fail(console, has_ended.status());
  }
  if (!*has_ended) {
    console.err(fmt::format(
        "psctl: {0} goes on without this terminal; psctl attach {0} looks at it, and fetches "
        "what it left once it has ended\n",
        name));
    return run::kExitOk;
  }
  if (const Status here = remote->Collect(); !here.ok()) {
    return run::Fail(
        console,
        Status(here.code(), fmt::format("{}; psctl attach {} tries again", here.message(), name)));
  }
  return TellEnd(remote->paths(), is_json, console);
}

constinit const Command kAttach = {
    .path = "attach",
    .group = Group::kWatch,
    .help = "Show how a running job goes, until it ends",
    .examples = {{{"psctl attach", "see how it goes; Ctrl-C leaves it running"}}},
    .declare = Declare<AttachCommand, AddArguments, Attach>};

}  // namespace ps::psctl
