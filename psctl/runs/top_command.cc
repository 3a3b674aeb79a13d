#include "psctl/runs/top_command.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/base/time.h"
#include "psctl/cli/arguments.h"
#include "psctl/cli/interrupts.h"
#include "psctl/runs/chosen_run.h"
#include "psctl/view/raw_terminal.h"
#include "psctl/view/top_view.h"
#include "run/directory/control.h"
#include "run/directory/event_log.h"

namespace ps::psctl {
namespace {

constexpr int kKeyPollMillis = 100;
constexpr int kFollowPollMillis = 250;
constexpr Duration kLookEvery = std::chrono::milliseconds(500);
constexpr size_t kLossesMax = 64;

/// What is shown, and the keys that come meanwhile.
class Screen {
 public:
  explicit Screen(const run::Console& console) : console_(console) {}

  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  bool IsInterrupted() const { return terminal_.IsInterrupted(); }

  void Draw(const TopSnapshot& snapshot) const {
    winsize size{};
    const bool is_known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    const size_t width = is_known ? size.ws_col : 80;
    const size_t height = is_known ? size.ws_row : 24;
    std::vector<std::string> lines =
        RenderTop(snapshot, width, height - std::min<size_t>(height, 1));
    std::string text = "\x1b[H";
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string line = has_colours_ ? Coloured(lines[i], i == 0) : lines[i];
      // Erased before it is written: behind a line as wide as the terminal, terminals erase its
      // end.
      text += "\x1b[K" + line + "\r\n";
    }
    text += fmt::format("\x1b[J\x1b[{};1H\x1b[7m{}\x1b[0m", height, Clip(" q quits ", width));
    console_.out(text);
  }

  /// Waits a moment for a key. True: whoever looks wants no more.
  static bool TakesQuit() {
    pollfd keys = {STDIN_FILENO, POLLIN, 0};
    if (::poll(&keys, 1, kKeyPollMillis) <= 0) {
      return false;
    }
    char key = 0;
    const ssize_t count = ::read(STDIN_FILENO, &key, 1);
    return count == 0 || (count == 1 && (key == 'q' || key == 'Q' || key == 4));
  }

 private:
  /// As no-color.org has it.
  static bool HasColours() {
    const char* const no_color = std::getenv("NO_COLOR");
    const char* const terminal = std::getenv("TERM");
    return (no_color == nullptr || *no_color == '\0') && terminal != nullptr &&
           std::string_view(terminal) != "dumb";
  }

  const run::Console& console_;
  const bool has_colours_ = HasColours();
  const RawTerminal terminal_;
};

/// The losses that the run has noted so far.
std::vector<double> LossesOf(const run::RunPaths& run) {
  constexpr std::string_view kKey = "\"train_loss\":";
  std::vector<double> losses;
  std::ifstream file(run.metrics());
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find(kKey);
    double loss = 0;
    if (at != std::string::npos &&
        std::from_chars(line.data() + at + kKey.size(), line.data() + line.size(), loss).ec ==
            std::errc()) {
      losses.push_back(loss);
    }
  }
  losses.erase(
      losses.begin(),
      losses.end() - static_cast<std::ptrdiff_t>(std::min(losses.size(), kLossesMax)));
  return losses;
}

/// What is known of a run: one look after the other.
class Viewer {
 public:
  explicit Viewer(const run::RunPaths& run) : run_(run) { snapshot_.losses = LossesOf(run); }

  /// Errors: as FetchStatus; the snapshot is the one before then, and says why.
  Status Look() {
    Result<proto::JobStatus> status = run::FetchStatus(run_);
    if (!status.ok()) {
      snapshot_.trouble = "the coordinator does not answer; waiting for it: " +
                          std::string(status.status().message());
      return status.status();
    }
    snapshot_.status = std::move(status).value();
    snapshot_.trouble.clear();
    if (snapshot_.status.steps_counted > steps_) {
      steps_ = snapshot_.status.steps_counted;
      snapshot_.losses.push_back(snapshot_.status.train_loss);
    }
    if (snapshot_.losses.size() > kLossesMax) {
      snapshot_.losses.erase(snapshot_.losses.begin());
    }
    return Status::Ok();
  }

  const TopSnapshot& snapshot() const { return snapshot_; }

 private:
  const run::RunPaths& run_;
  TopSnapshot snapshot_;
  uint64_t steps_ = 0;
};

int PrintOnce(const run::RunPaths& run, const run::Console& console) {
  Viewer viewer(run);
  if (const Status looked = viewer.Look(); !looked.ok()) {
    return run::Fail(console, looked);
  }
  constexpr size_t kWidth = 160;
  for (const std::string& line :
       RenderTop(viewer.snapshot(), console.out_width > 0 ? console.out_width : kWidth, 0)) {
    console.out(line + "\n");
  }
  return run::kExitOk;
}

/// Shows a running job on the whole terminal until q, Ctrl-C or the run's end; where stdin or
/// stdout is no terminal, once. Waits for a coordinator that does not answer.
int RunTop(const TopCommand& /*command*/, const run::RunPaths& run, const run::Console& console) {
  const std::string name = Printable(run::BaseName(run.root));
  if (!run::FileLock::IsHeld(run.lock())) {
    return run::Fail(
        console,
        Status::NotFound(fmt::format("{} has ended; psctl status {} says how", name, name)));
  }
  if (console.out_width == 0 || ::isatty(STDIN_FILENO) == 0) {
    return PrintOnce(run, console);
  }
  Viewer viewer(run);
  bool has_ended = false;
  {
    const Screen screen(console);
    TimePoint next{};
    while (!screen.IsInterrupted()) {
      const TimePoint now = SystemTime().Now();
      if (now >= next) {
        viewer.Look().Ignore("the screen says so");
        next = SystemTime().Now() + kLookEvery;
        has_ended = !run::FileLock::IsHeld(run.lock());
      }
      screen.Draw(viewer.snapshot());
      if (has_ended || Screen::TakesQuit()) {
        break;
      }
    }
  }
  if (has_ended && PrintSummary(run, /*is_json=*/false, console) != run::kExitOk) {
    console.out(name + " has ended\n");
  }
  return run::kExitOk;
}

/// Prints what happened in a run, ended ones too. `is_following`: until it ends, or Ctrl-C.
int RunEventList(
    const EventsCommand& command, const run::RunPaths& run, const run::Console& console) {
  const InterruptGuard interrupts;
  run::EventReader reader(run);
  while (true) {
    const bool is_running = run::FileLock::IsHeld(run.lock());
    const Result<std::vector<proto::EventRow>> events = reader.ReadNew();
    if (!events.ok()) {
      return run::Fail(console, events.status());
    }
    for (const proto::EventRow& event : *events) {
      console.out(command.is_json ? run::EventToJson(event) : run::RenderEvent(event) + "\n");
    }
    if (!command.is_following || !is_running || interrupts.IsInterrupted() ||
        !console.out_status().ok()) {
      return run::kExitOk;
    }
    ::poll(nullptr, 0, kFollowPollMillis);
  }
}

void AddTop(TopCommand* command, Arguments* arguments) {
  arguments->AddRun(&command->job);
}

void AddEvents(EventsCommand* command, Arguments* arguments) {
  arguments->AddRun(&command->job);
  arguments->Add("--follow", &command->is_following, "Go on until the run ends");
  arguments->Add("--json", &command->is_json, "Print a line of JSON for each");
}

}  // namespace

constinit const Command kTop = {
    .path = "top",
    .group = Group::kWatch,
    .help = "Watch a running job on the whole terminal; q quits",
    .examples = {{{"psctl top", "watch a run; q leaves it running"}}},
    .declare = Declare<TopCommand, AddTop, OnRun<TopCommand, RunTop>>};

constinit const Command kEvents = {
    .path = "events",
    .group = Group::kWatch,
    .help = "List what was decided in a run, and why",
    .examples = {{{"psctl events", "what was decided in a run, and why"}}},
    .declare = Declare<EventsCommand, AddEvents, OnAnyRun<EventsCommand, RunEventList>>};

}  // namespace ps::psctl
