#include "psctl/runs/attach_command.h"

#include <fmt/core.h>
#include <poll.h>

#include <vector>

#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/base/time.h"
#include "psctl/cli/arguments.h"
#include "psctl/cli/interrupts.h"
#include "psctl/runs/chosen_run.h"
#include "psctl/runs/runs_command.h"
#include "run/directory/control.h"
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
      ::poll(nullptr, 0, kAttachPollMillis);
    }
    attachment.Finish();
  }
  return TellEnd(run, command.is_json, console);
}

void AddArguments(AttachCommand* command, Arguments* arguments) {
  arguments->AddRun(&command->job);
  arguments->Add("--json", &command->is_json, "Print the summary as JSON");
}

}  // namespace

constinit const Command kAttach = {
    .path = "attach",
    .group = Group::kWatch,
    .help = "Show how a running job goes, until it ends",
    .examples = {{{"psctl attach", "see how it goes; Ctrl-C leaves it running"}}},
    .declare = Declare<AttachCommand, AddArguments, OnRun<AttachCommand, RunAttach>>};

}  // namespace ps::psctl
