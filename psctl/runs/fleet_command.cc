#include "psctl/runs/fleet_command.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>

#include "ps/base/text.h"
#include "ps/base/time.h"
#include "psctl/runs/scale_preview.h"
#include "run/directory/control.h"
#include "run/planning/plan_from_run.h"

namespace ps::psctl {
namespace {

constexpr int kFleetPollMillis = 200;

Status CheckRuns(const RunPaths& run) {
  return FileLock::IsHeld(run.lock())
             ? Status::Ok()
             : Status::NotFound(fmt::format("{} has ended; no worker is left", BaseName(run.root)));
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

bool IsAsWanted(const ScaleCommand& command, const proto::JobStatus& status) {
  const bool are_equal = std::ranges::all_of(
      status.fleet, [](const proto::FleetRow& row) { return row.present == row.wanted; });
  const bool has_moved = status.servers.count == status.servers.wanted && !status.servers.is_moving;
  if (IsMove(command)) {
    return has_moved;
  }
  return are_equal && has_moved &&
         std::ranges::none_of(status.workers, [](const proto::WorkerRow& row) {
           return row.state == "draining" || row.state == "joining";
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
  const auto is_of_servers = [](const proto::ScaleChange& change) { return change.is_servers; };
  const bool has_servers = std::ranges::any_of(command.changes, is_of_servers);
  const bool has_workers = !std::ranges::all_of(command.changes, is_of_servers);
  return (has_workers ? Describe(name, fleet) : "") + (has_servers ? Describe(name, servers) : "");
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
int WaitForFleet(const ScaleCommand& command, const RunPaths& run, const Console& console) {
  const std::string name = BaseName(run.root);
  const TimePoint begin = SystemTime().Now();
  std::string said;
  while (FileLock::IsHeld(run.lock())) {
    const Result<proto::JobStatus> status = FetchStatus(run);
    if (status.ok() && IsAsWanted(command, *status)) {
      if (const std::string& trouble = status->servers.trouble; !trouble.empty()) {
        return Fail(
            console,
            Status::Unavailable(fmt::format("{} goes on with {}", name, Printable(trouble))));
      }
      console.out(Describe(command, name, status->fleet, status->servers));
      return kExitOk;
    }
    const std::string why = status.ok() ? WhyItWaits(status->fleet) : said;
    if (!why.empty() && why != said) {
      console.err(
          name + " waits; Ctrl-C ends this command alone, what was asked for stays\n" + why);
    }
    said = why;
    if (Seconds(SystemTime().Now() - begin) >= command.wait_max_s) {
      return Fail(
          console,
          Status::DeadlineExceeded(fmt::format(
              "{} is not as wanted after {}, and what was asked for stays",
              name,
              FormatDuration(command.wait_max_s))));
    }
    ::poll(nullptr, 0, kFleetPollMillis);
  }
  return Fail(
      console, Status::NotFound(fmt::format("{} ended before the fleet was as wanted", name)));
}

int Preview(
    const ScaleCommand& command,
    const RunPaths& run,
    const std::string& today,
    const Console& console) {
  const Result<proto::JobConfig> config = ConfigOfRun(run);
  if (!config.ok()) {
    return Fail(console, config.status());
  }
  const Result<proto::JobStatus> status = FetchStatus(run);
  if (!status.ok()) {
    return Fail(console, status.status());
  }
  const Result<std::string> text =
      PreviewScale(command, *status, *config, today, console.out_width);
  if (!text.ok()) {
    return Fail(console, text.status());
  }
  console.out(BaseName(run.root) + "\n" + *text);
  return kExitOk;
}

}  // namespace

int RunNotice(const NoticeCommand& command, const RunPaths& run, const Console& console) {
  if (const Status runs = CheckRuns(run); !runs.ok()) {
    return Fail(console, runs);
  }
  const Result<Duration> left =
      GiveNotice(run, WorkerId(command.worker), command.is_server, FromSeconds(command.grace_s));
  if (!left.ok()) {
    return Fail(console, left.status());
  }
  console.out(fmt::format(
      "{} {} of {} has {} to {}\n",
      command.is_server ? "server" : "worker",
      command.worker,
      BaseName(run.root),
      FormatDuration(Seconds(*left)),
      command.is_server ? "make a checkpoint and leave" : "leave"));
  return kExitOk;
}

int RunDrain(const DrainCommand& command, const RunPaths& run, const Console& console) {
  if (const Status runs = CheckRuns(run); !runs.ok()) {
    return Fail(console, runs);
  }
  const Result<Duration> left =
      ReleaseWorker(run, WorkerId(command.worker), FromSeconds(command.grace_s));
  if (!left.ok()) {
    return Fail(console, left.status());
  }
  console.out(fmt::format(
      "worker {} of {} finishes its step and leaves, within {}; nobody takes its place\n",
      command.worker,
      BaseName(run.root),
      FormatDuration(Seconds(*left))));
  return kExitOk;
}

int RunPause(const PauseCommand& command, const RunPaths& run, const Console& console) {
  if (const Status runs = CheckRuns(run); !runs.ok()) {
    return Fail(console, runs);
  }
  if (const Status asked = AskToPause(run, command.is_paused); !asked.ok()) {
    return Fail(console, asked);
  }
  const std::string name = BaseName(run.root);
  console.out(
      command.is_paused
          ? name +
                " hands out no more work: workers finish what they have and wait, then a "
                "checkpoint is made\npsctl status " +
                name + " says how far it is; psctl continue " + name + " goes on\n"
          : name + " goes on\n");
  return kExitOk;
}

int RunScale(
    const ScaleCommand& command,
    const RunPaths& run,
    const std::string& today,
    const Console& console) {
  if (const Status runs = CheckRuns(run); !runs.ok()) {
    return Fail(console, runs);
  }
  if (command.is_preview) {
    return Preview(command, run, today, console);
  }
  const Result<proto::ScaleReply> reply = AskToScale(run, command.changes, Asker::kPerson);
  if (!reply.ok()) {
    return Fail(console, reply.status());
  }
  console.out(Describe(command, BaseName(run.root), reply->fleet, reply->servers));
  return command.is_waiting ? WaitForFleet(command, run, console) : kExitOk;
}

}  // namespace ps::psctl
