#include "psctl/runs/fleet_command.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "ps/base/text.h"
#include "ps/base/time.h"
#include "ps/proto/limits.h"
#include "psctl/cli/arguments.h"
#include "psctl/runs/chosen_run.h"
#include "psctl/runs/scale_preview.h"
#include "run/directory/control.h"
#include "run/planning/plan_from_run.h"
#include "run/report/rate_notes.h"

namespace ps::psctl {
namespace {

constexpr int kFleetPollMillis = 200;

Status CheckRuns(const run::RunPaths& run) {
  return run::FileLock::IsHeld(run.lock())
             ? Status::Ok()
             : Status::NotFound(
                   fmt::format("{} has ended; no worker is left", run::BaseName(run.root)));
}

uint32_t WantedOf(const std::vector<proto::FleetRow>& fleet) {
  uint32_t wanted = 0;
  for (const proto::FleetRow& row : fleet) {
    wanted += row.wanted;
  }
  return wanted;
}

uint32_t PresentOf(const std::vector<proto::FleetRow>& fleet) {
  uint32_t present = 0;
  for (const proto::FleetRow& row : fleet) {
    present += row.present;
  }
  return present;
}

/// "runs/a: 8 workers wanted, 5 take part", and the groups when there are several.
std::string Describe(const std::string& name, const std::vector<proto::FleetRow>& fleet) {
  std::string text = fmt::format(
      "{}: {} wanted, {} take part\n", name, Plural(WantedOf(fleet), "worker"), PresentOf(fleet));
  for (size_t i = 0; i < fleet.size() && fleet.size() > 1; ++i) {
    text += fmt::format(
        "  {}: {} wanted, {} take part\n",
        Printable(fleet[i].type),
        fleet[i].wanted,
        fleet[i].present);
  }
  return text;
}

bool IsMove(const ScaleCommand& command) {
  return std::ranges::all_of(
      command.changes, [](const proto::ScaleChange& change) { return !change.tensor.empty(); });
}

/// Whether a number of workers changes.
bool HasWorkers(const ScaleCommand& command) {
  return std::ranges::any_of(command.changes, [](const proto::ScaleChange& change) {
    return change.tensor.empty() && !change.is_servers;
  });
}

bool IsAsWanted(const ScaleCommand& command, const proto::JobStatus& status) {
  const bool are_equal = std::ranges::all_of(
      status.fleet, [](const proto::FleetRow& row) { return row.present == row.wanted; });
  const bool has_moved = status.servers.count == status.servers.wanted && !status.servers.is_moving;
  if (IsMove(command)) {
    return has_moved;
  }
  return are_equal && has_moved &&
         std::ranges::none_of(status.workers, [](const proto::WorkerRow& row) {
           return row.state == proto::WorkerRowState::kDraining ||
                  row.state == proto::WorkerRowState::kJoining;
         });
}

/// "runs/a: 3 servers wanted with shares 2:1:1, 1 has the parameters"
std::string Describe(const std::string& name, const proto::ServersStatus& servers) {
  return fmt::format(
      "{}: {} wanted{}, {} {} the parameters\n",
      name,
      Plural(servers.wanted, "server"),
      servers.shares.empty() ? "" : " with shares " + proto::SharesText(servers.shares),
      servers.count,
      servers.count == 1 ? "has" : "have");
}

std::string Describe(
    const ScaleCommand& command,
    const std::string& name,
    const std::vector<proto::FleetRow>& fleet,
    const proto::ServersStatus& servers) {
  if (IsMove(command)) {
    return fmt::format(
        "{}: the chunks {}\n",
        name,
        servers.is_moving ? "move while training goes on" : "are where they are to be");
  }
  const bool has_servers = std::ranges::any_of(
      command.changes, [](const proto::ScaleChange& change) { return change.is_servers; });
  return (HasWorkers(command) ? Describe(name, fleet) : "") +
         (has_servers ? Describe(name, servers) : "");
}

/// Empty when nothing keeps workers from being started.
std::string WhyItWaits(const std::vector<proto::FleetRow>& fleet) {
  std::string text;
  for (const proto::FleetRow& row : fleet) {
    if (row.waiting > 0 && !row.why.empty()) {
      text += fmt::format(
          "  {} can't be started now: {}\n",
          row.type.empty() ? Plural(row.waiting, "worker")
                           : fmt::format("{} of {}", row.waiting, Printable(row.type)),
          Printable(row.why));
    }
  }
  return text;
}

/// Returns when everybody who was asked for takes part, and nobody else of the groups does. What is
/// in the way is said, each time that it changes.
int WaitForFleet(
    const ScaleCommand& command, const run::RunPaths& run, const run::Console& console) {
  const std::string name = run::BaseName(run.root);
  const TimePoint begin = SystemTime().Now();
  std::string said;
  while (run::FileLock::IsHeld(run.lock())) {
    const Result<proto::JobStatus> status = run::FetchStatus(run);
    if (status.ok() && IsAsWanted(command, *status)) {
      if (const std::string& trouble = status->servers.trouble; !trouble.empty()) {
        return run::Fail(
            console,
            Status::Unavailable(fmt::format("{} goes on with {}", name, Printable(trouble))));
      }
      console.out(Describe(command, name, status->fleet, status->servers));
      return run::kExitOk;
    }
    const std::string why = status.ok() ? WhyItWaits(status->fleet) : said;
    if (!why.empty() && why != said) {
      console.err(
          name + " waits; Ctrl-C ends this command alone, what was asked for stays\n" + why);
    }
    said = why;
    if (Seconds(SystemTime().Now() - begin) >= command.wait_max_s) {
      return run::Fail(
          console,
          Status::DeadlineExceeded(fmt::format(
              "{} is not as wanted after {}, and what was asked for stays",
              name,
              FormatDuration(command.wait_max_s))));
    }
    ::poll(nullptr, 0, kFleetPollMillis);
  }
  return run::Fail(
      console, Status::NotFound(fmt::format("{} ended before the fleet was as wanted", name)));
}

int Preview(
    const ScaleCommand& command,
    const run::RunPaths& run,
    const std::string& today,
    const run::Console& console) {
  const Result<proto::JobConfig> config = run::ConfigOfRun(run);
  if (!config.ok()) {
    return run::Fail(console, config.status());
  }
  const Result<proto::JobStatus> status = run::FetchStatus(run);
  if (!status.ok()) {
    return run::Fail(console, status.status());
  }
  const Result<std::string> text =
      PreviewScale(command, *status, *config, today, console.out_width);
  if (!text.ok()) {
    return run::Fail(console, text.status());
  }
  console.out(run::BaseName(run.root) + "\n" + *text);
  return run::kExitOk;
}

int RunNotice(const NoticeCommand& command, const run::RunPaths& run, const run::Console& console) {
  if (const Status runs = CheckRuns(run); !runs.ok()) {
    return run::Fail(console, runs);
  }
  const Result<Duration> left = run::GiveNotice(
      run, WorkerId(command.worker), command.is_server, FromSeconds(command.grace_s));
  if (!left.ok()) {
    return run::Fail(console, left.status());
  }
  console.out(fmt::format(
      "{} {} of {} has {} to {}\n",
      command.is_server ? "server" : "worker",
      command.worker,
      run::BaseName(run.root),
      FormatDuration(Seconds(*left)),
      command.is_server ? "make a checkpoint and leave" : "leave"));
  return run::kExitOk;
}

int RunDrain(const DrainCommand& command, const run::RunPaths& run, const run::Console& console) {
  if (const Status runs = CheckRuns(run); !runs.ok()) {
    return run::Fail(console, runs);
  }
  const Result<Duration> left =
      run::ReleaseWorker(run, WorkerId(command.worker), FromSeconds(command.grace_s));
  if (!left.ok()) {
    return run::Fail(console, left.status());
  }
  console.out(fmt::format(
      "worker {} of {} finishes its step and leaves, within {}; nobody takes its place\n",
      command.worker,
      run::BaseName(run.root),
      FormatDuration(Seconds(*left))));
  return run::kExitOk;
}

int RunPause(const PauseCommand& command, const run::RunPaths& run, const run::Console& console) {
  if (const Status runs = CheckRuns(run); !runs.ok()) {
    return run::Fail(console, runs);
  }
  if (const Status asked = run::AskToPause(run, command.is_paused); !asked.ok()) {
    return run::Fail(console, asked);
  }
  const std::string name = run::BaseName(run.root);
  console.out(
      command.is_paused
          ? name +
                " hands out no more work: workers finish what they have and wait, then a "
                "checkpoint is made\npsctl status " +
                name + " says how far it is; psctl continue " + name + " goes on\n"
          : name + " goes on\n");
  return run::kExitOk;
}

/// What the learning rate of so many workers is in the mode in force; empty where it stays.
std::string RateNoteOf(const run::RunPaths& run, uint32_t workers) {
  const Result<proto::JobConfig> config = run::ConfigOfRun(run);
  const Result<proto::JobStatus> status = run::FetchStatus(run);
  if (!config.ok() || !status.ok()) {
    return "";
  }
  const std::string note = run::RateNote(*config, status->mode, workers);
  return note.empty() ? note : "note: " + note + "\n";
}

/// `psctl move`, too. `today` as "2026-07-20".
int RunScale(
    const ScaleCommand& command,
    const run::RunPaths& run,
    const std::string& today,
    const run::Console& console) {
  if (const Status runs = CheckRuns(run); !runs.ok()) {
    return run::Fail(console, runs);
  }
  if (command.is_preview) {
    return Preview(command, run, today, console);
  }
  const Result<proto::ScaleReply> reply =
      run::AskToScale(run, command.changes, proto::Asker::kPerson);
  if (!reply.ok()) {
    return run::Fail(console, reply.status());
  }
  console.out(Describe(command, run::BaseName(run.root), reply->fleet, reply->servers));
  if (HasWorkers(command)) {
    console.out(RateNoteOf(run, WantedOf(reply->fleet)));
  }
  return command.is_waiting ? WaitForFleet(command, run, console) : run::kExitOk;
}

constexpr double kGraceSecondsMax = 3600;

/// The number in "3" and "w3"; nothing for anything else.
std::optional<uint32_t> SeatIn(std::string_view text) {
  text.remove_prefix(text.starts_with('w') ? 1 : 0);
  uint32_t seat = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seat);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && seat < proto::kSeatsMax ? std::optional(seat) : std::nullopt;
}

/// The same, or "s0" for a server.
Status ParseNoticed(const std::string& text, NoticeCommand* notice) {
  notice->is_server = text.starts_with('s');
  const std::string_view name = std::string_view(text).substr(notice->is_server ? 1 : 0);
  const std::optional<uint32_t> number =
      notice->is_server && name.starts_with('w') ? std::nullopt : SeatIn(name);
  if (!number) {
    return Status::InvalidArgument(fmt::format(
        "notice wants a worker's number as psctl status lists it, as in: psctl notice 3; got '{}'; "
        "a server is named as in: psctl notice s0",
        Printable(text)));
  }
  notice->worker = *number;
  return Status::Ok();
}

Status ParseDrained(const std::string& text, DrainCommand* drain) {
  const std::optional<uint32_t> seat = SeatIn(text);
  if (!seat) {
    return Status::InvalidArgument(fmt::format(
        "drain wants a worker's number as psctl status lists it, as in: psctl drain 3; got '{}'",
        Printable(text)));
  }
  drain->worker = *seat;
  return Status::Ok();
}

void AddGrace(double* seconds, const std::string& help, Arguments* arguments) {
  arguments->AddDuration("--grace", seconds, help);
  arguments->Check([seconds] {
    return *seconds <= kGraceSecondsMax
               ? Status::Ok()
               : Status::InvalidArgument("--grace wants at most an hour, as in --grace 30s");
  });
}

void AddNotice(NoticeCommand* notice, Arguments* arguments) {
  arguments
      ->AddText(
          "WORKER",
          [notice](const std::string& text) { return ParseNoticed(text, notice); },
          "Its number, as psctl status lists it; s0: server 0")
      .Required();
  arguments->AddRun(&notice->job);
  AddGrace(
      &notice->grace_s, "Until it has to be gone, as in 30s; it is killed then; 10s", arguments);
}

void AddDrain(DrainCommand* drain, Arguments* arguments) {
  arguments
      ->AddText(
          "WORKER",
          [drain](const std::string& text) { return ParseDrained(text, drain); },
          "Its number, as psctl status lists it")
      .Required();
  arguments->AddRun(&drain->job);
  AddGrace(&drain->grace_s, "It is killed when it takes longer; 1m", arguments);
}

void AddScale(ScaleCommand* scale, Arguments* arguments) {
  arguments
      ->Add(
          "CHANGE",
          &scale->words,
          "workers=8, servers=3, workers+=2, or by the type of a group: fast=4,slow=0; servers=2:1 "
          "gives the first of two servers two thirds of the parameters; a word without = is the "
          "job")
      .Required();
  arguments->Check([scale] { return ParseScale(scale->words, scale); });
  arguments->Add("--wait", &scale->is_waiting, "Return when the fleet is as wanted");
  const Argument timeout =
      arguments
          ->AddDuration("--timeout", &scale->wait_max_s, "Of --wait: fail after so long, as in 5m")
          .Value("TIME");
  arguments->Add(
      "--dry-run", &scale->is_preview, "Say what it would do to speed and cost, and stop");
  arguments->Add("--profile", &scale->profile_path, "Of --dry-run: the job's profile");
  arguments->Add("--catalog", &scale->catalog_path, "Of --dry-run: what is rented");
  arguments->Check([scale, timeout] {
    if (timeout.is_given() && !scale->is_waiting) {
      return Status::InvalidArgument("--timeout of scale is for --wait");
    }
    if (!scale->is_preview && !(scale->profile_path + scale->catalog_path).empty()) {
      return Status::InvalidArgument("--profile and --catalog of scale are for --dry-run");
    }
    return Status::Ok();
  });
}

void AddMove(MoveCommand* move, Arguments* arguments) {
  arguments->Add("TENSOR", &move->tensor, "Its name, or NAME:CHUNK for one of its chunks")
      .Required();
  arguments
      ->Add(
          "SERVER",
          &move->server,
          "Number of the server, or any: where the shares of servers want it")
      .Required();
  arguments->AddRun(&move->scale.job);
  arguments->Add("--wait", &move->scale.is_waiting, "Return when the chunks are there");
  arguments->Check([move]() -> Status {
    PS_ASSIGN(const proto::ScaleChange change, ParseMove(move->tensor, move->server));
    move->scale.changes = {change};
    return Status::Ok();
  });
}

void AddPause(PauseCommand* pause, Arguments* arguments) {
  pause->is_paused = true;
  arguments->AddRun(&pause->job);
}

void AddContinue(PauseCommand* pause, Arguments* arguments) {
  arguments->AddRun(&pause->job);
}

int Scale(const ScaleCommand& scale, const Session& session) {
  return OnChosen(
      ChooseRun(scale.job, session.registry), scale.job, session, [&](const run::RunPaths& run) {
        return RunScale(scale, run, session.today, session.console);
      });
}

int Move(const MoveCommand& move, const Session& session) {
  return Scale(move.scale, session);
}

}  // namespace

constinit const Command kScale = {
    .path = "scale",
    .group = Group::kSteer,
    .help = "Give a running job more or fewer workers or servers",
    .examples =
        {{{"psctl scale workers=8", "start workers, or let some go, during the run"},
          {"psctl scale workers+=2 --dry-run", "what that would do to speed and cost"}}},
    .declare = Declare<ScaleCommand, AddScale, Scale>};

constinit const Command kMove = {
    .path = "move",
    .group = Group::kSteer,
    .help = "Give the chunks of a tensor to a server, during the run",
    .examples = {{{"psctl move fc1.weight 1", "all its chunks to server 1"}}},
    .declare = Declare<MoveCommand, AddMove, Move>};

constinit const Command kDrain = {
    .path = "drain",
    .group = Group::kSteer,
    .help = "Let a worker finish its step and leave for good",
    .examples = {{{"psctl drain 3", "one worker less"}}},
    .declare = Declare<DrainCommand, AddDrain, OnRun<DrainCommand, RunDrain>>};

constinit const Command kNotice = {
    .path = "notice",
    .group = Group::kSteer,
    .help = "Tell a worker or server that its machine is taken back",
    .examples = {{{"psctl notice 3 --grace 30s", "tell worker 3 to be gone in 30 s"}}},
    .declare = Declare<NoticeCommand, AddNotice, OnRun<NoticeCommand, RunNotice>>};

constinit const Command kPause = {
    .path = "pause",
    .group = Group::kSteer,
    .help = "Hand out no more work; workers wait, a checkpoint is made",
    .declare = Declare<PauseCommand, AddPause, OnRun<PauseCommand, RunPause>>};

constinit const Command kContinue = {
    .path = "continue",
    .group = Group::kSteer,
    .help = "Hand out work again after psctl pause",
    .declare = Declare<PauseCommand, AddContinue, OnRun<PauseCommand, RunPause>>};

}  // namespace ps::psctl
