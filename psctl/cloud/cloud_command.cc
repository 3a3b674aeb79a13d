#include "psctl/cloud/cloud_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/provider/provider.h"
#include "provisioner/rental/open_provider.h"
#include "provisioner/rental/rent_settings.h"
#include "provisioner/rental/rental_check.h"
#include "provisioner/rental/rental_outlook.h"
#include "ps/base/text.h"
#include "ps/base/time.h"
#include "ps/proto/job/job_config.h"
#include "psctl/cli/arguments.h"
#include "psctl/cloud/cloud_machines.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

using provisioner::Provider;

constexpr size_t kFindingWidthMax = 500;

struct CloudCommand {
  std::string job_path;
  std::vector<proto::ConfigOverride> overrides;
  std::string run;  // empty: all
  bool is_confirmed = false;
  bool is_json = false;
};

/// A job that rents, and its provider.
struct Cloud {
  proto::JobConfig config;
  std::unique_ptr<Provider> provider;
};

Result<Cloud> OpenCloud(const CloudCommand& command) {
  Cloud cloud;
  // The data may be on the machines alone, and a run with a head listens there.
  std::vector<proto::ConfigOverride> overrides = command.overrides;
  overrides.push_back({"run.listen", "0.0.0.0"});
  PS_ASSIGN(
      cloud.config,
      proto::LoadJobConfig(command.job_path, overrides, proto::DataPlace::kElsewhere));
  if (cloud.config.launch.rent.head.type.empty()) {
    PS_ASSIGN(
        cloud.config,
        proto::LoadJobConfig(command.job_path, command.overrides, proto::DataPlace::kElsewhere));
  }
  if (!proto::IsRented(cloud.config.launch.launcher)) {
    return Status::InvalidArgument(fmt::format(
        "{} rents no machines; name a job with \"launcher\": \"ec2\" or \"gce\" in launch, whose "
        "region and credentials are asked",
        Printable(command.job_path)));
  }
  PS_ASSIGN(cloud.provider, provisioner::OpenProvider(cloud.config.launch, nullptr));
  return cloud;
}

/// What is said of the machine for coordinator and servers, and not of the workers' as well.
void AddHeadLines(
    const proto::JobConfig& config,
    Provider* provider,
    std::vector<provisioner::CheckLine>* lines) {
  provisioner::RentRequest request =
      provisioner::HeadOptionsOf(config, "psctl-cloud-check", "#!/bin/sh\n").request;
  request.token = "psctl-cloud-check";
  for (provisioner::CheckLine& line : provider->Check(request)) {
    const bool is_known = std::ranges::any_of(*lines, [&line](const auto& other) {
      return other.what == line.what && other.end.ok() == line.end.ok() &&
             other.finding == line.finding;
    });
    if (!is_known) {
      line.what = "head: " + line.what;
      lines->push_back(std::move(line));
    }
  }
}

int RunCheck(const CloudCommand& command, const Session& session) {
  Result<Cloud> cloud = OpenCloud(command);
  if (!cloud.ok()) {
    return run::Misuse(session.console, cloud.status());
  }
  const proto::JobConfig& config = cloud->config;
  const provisioner::RentalOptions options =
      provisioner::RentalOptionsOf(config, "psctl-cloud-check", "#!/bin/sh\n");
  provisioner::RentRequest request;
  request.token = "psctl-cloud-check";
  request.pools = options.pools;
  request.setup = options.setup;
  request.tags = options.tags;
  run::Table table(
      {{"what", run::Align::kLeft}, {"", run::Align::kLeft}, {"finding", run::Align::kLeft}},
      kFindingWidthMax);
  bool is_right = true;
  const std::vector<provisioner::MachineDemand> demands = provisioner::DemandsOf(config);
  std::vector<provisioner::CheckLine> lines = cloud->provider->Check(request);
  if (std::optional<provisioner::CheckLine> room = provisioner::CheckRoom(lines, demands)) {
    lines.push_back(*std::move(room));
  }
  if (!config.launch.rent.head.type.empty()) {
    AddHeadLines(config, cloud->provider.get(), &lines);
  }
  for (const provisioner::CheckLine& line : lines) {
    is_right = is_right && line.end.ok();
    table.AddRow(
        {line.what,
         line.end.ok() ? "ok" : std::string(provisioner::CallFaultName(line.end.fault)),
         line.end.ok() ? line.finding : line.end.message});
  }
  const provisioner::PriceReply prices =
      cloud->provider->Prices(options.pools, SystemTime().UnixMicros());
  const double rate =
      provisioner::WorstRate(demands, prices.prices, double{config.launch.rent.usd_per_hour});
  std::string text = table.Render(session.console.out_width);
  const proto::RentHeadConfig& head = config.launch.rent.head;
  const std::vector<provisioner::Pool> head_pools = provisioner::HeadPoolsOf(config.launch.rent);
  if (!head.type.empty()) {
    const double usd = provisioner::WorstRate(
        {{head_pools, 1}},
        cloud->provider->Prices(head_pools, SystemTime().UnixMicros()).prices,
        double{head.usd_per_hour});
    text += usd > 0 ? fmt::format("its head costs {} USD an hour beside them\n", FormatUsd(usd))
                    : "nobody tells what its head costs; launch.rent.head.usd_per_hour says it\n";
  }
  if (rate > 0) {
    text += fmt::format(
        "the job's workers cost at most {} USD an hour at the prices of now\n", FormatUsd(rate));
  } else if (prices.end.ok()) {
    text += "the provider tells no prices; launch.rent.usd_per_hour says them\n";
  }
  const auto limit = double{config.budget.usd_per_hour};
  if (limit > 0 && rate > limit) {
    text += fmt::format(
        "budget.usd_per_hour is {} USD: some workers would wait for others to go\n",
        FormatUsd(limit));
  }
  session.console.out(text);
  return is_right ? run::kExitOk : run::kExitFailed;
}

int RunList(const CloudCommand& command, const Session& session) {
  Result<Cloud> cloud = OpenCloud(command);
  if (!cloud.ok()) {
    return run::Misuse(session.console, cloud.status());
  }
  const Result<FoundMachines> found =
      FindMachines(command.run, session.registry, cloud->provider.get());
  if (!found.ok()) {
    return run::Fail(session.console, found.status());
  }
  const std::vector<CloudRow>& rows = found->rows;
  if (!found->unknown.ok()) {
    session.console.err(fmt::format(
        "psctl: some of these may be of a run that goes on here: {}\n", found->unknown.message()));
  }
  if (command.is_json || !rows.empty()) {
    session.console.out(
        command.is_json ? JsonOf(rows)
                        : RenderMachines(rows, cloud->config, session.console.out_width));
    return run::kExitOk;
  }
  if (command.run.empty()) {
    session.console.out("no machine of any run in " + PlaceText(cloud->config) + "\n");
    return run::kExitOk;
  }
  const Result<std::string> others =
      OtherRunsText(command.run, cloud->config, cloud->provider.get());
  if (!others.ok()) {
    return run::Fail(session.console, others.status());
  }
  session.console.out(*others);
  return run::kExitOk;
}

/// Ok: go on.
Status Confirm(const CloudCommand& command, const run::Console& console) {
  if (command.is_confirmed) {
    return Status::Ok();
  }
  if (console.read_line == nullptr) {
    return Status::InvalidArgument(
        "nothing was ended: there is no terminal to ask on; look with psctl cloud list, then say "
        "--yes");
  }
  console.err("End these? [y/N] ");
  const std::string answer = console.read_line();
  return answer == "y" || answer == "Y" || answer == "yes" ? Status::Ok()
                                                           : Status::Cancelled("nothing was ended");
}

/// What a run that lives here has stays, also when the run was named. Of machines that the psctl of
/// another machine rents nobody knows here whether their run goes on: such a run has to be named.
int RunSweep(const CloudCommand& command, const Session& session) {
  const run::Console& console = session.console;
  Result<Cloud> cloud = OpenCloud(command);
  if (!cloud.ok()) {
    return run::Misuse(console, cloud.status());
  }
  Result<FoundMachines> found = FindMachines(command.run, session.registry, cloud->provider.get());
  if (!found.ok()) {
    return run::Fail(console, found.status());
  }
  if (!found->unknown.ok()) {
    return run::Fail(
        console,
        Status(
            found->unknown.code(),
            fmt::format(
                "nothing is ended, since some machines may be of a run that goes on here: {}",
                found->unknown.message())));
  }
  std::vector<CloudRow>* const rows = &found->rows;
  const bool is_known = !rows->empty();
  const size_t owned = std::erase_if(*rows, [](const CloudRow& row) { return row.is_owned; });
  if (owned > 0) {
    console.err(fmt::format(
        "{} of runs that go on here stay; psctl stop ends such a run, psctl attach gives back its "
        "head\n",
        Plural(owned, "machine")));
  }
  const size_t kept = std::erase_if(*rows, [](const CloudRow& row) { return row.is_kept; });
  if (kept > 0) {
    console.err(fmt::format(
        "{} with what a run made stay; psctl attach fetches that, --run RUN ends one with it\n",
        Plural(kept, "head machine")));
  }
  const size_t elsewhere = std::erase_if(*rows, [&](const CloudRow& row) {
    return command.run.empty() && row.owner != provisioner::OwnerName();
  });
  if (elsewhere > 0) {
    console.err(fmt::format(
        "{} of other owners (machine, user or container) stay; --run RUN ends those of an ended "
        "run\n",
        Plural(elsewhere, "machine")));
  }
  if (!is_known && !command.run.empty()) {
    const Result<std::string> others =
        OtherRunsText(command.run, cloud->config, cloud->provider.get());
    if (!others.ok()) {
      return run::Fail(console, others.status());
    }
    console.err(*others);
  }
  if (rows->empty()) {
    console.out("nothing to end in " + PlaceText(cloud->config) + "\n");
    return run::kExitOk;
  }
  console.out(RenderMachines(*rows, cloud->config, console.out_width));
  if (const Status confirmed = Confirm(command, console); !confirmed.ok()) {
    return run::Misuse(console, confirmed);
  }
  std::vector<std::string> ids;
  std::set<std::string> runs;
  for (const CloudRow& row : *rows) {
    ids.push_back(row.machine.id);
    runs.insert(row.run);
  }
  if (const Status ended = StatusOf(cloud->provider->Release(ids)); !ended.ok()) {
    return run::Fail(console, ended);
  }
  for (const std::string& run : runs) {
    StatusOf(cloud->provider->Tidy({{std::string(provisioner::kRunTag), run}}))
        .Ignore("what stays behind costs nothing");
  }
  console.out(fmt::format("{} told to end\n", Plural(ids.size(), "machine")));
  return run::kExitOk;
}

void AddJob(CloudCommand* command, Arguments* arguments) {
  arguments->Add("JOB.json", &command->job_path, "Job whose provider and region are asked")
      .Required();
  arguments->AddSettings(&command->overrides, "Change a field of the job");
}

void AddRun(CloudCommand* command, Arguments* arguments) {
  AddJob(command, arguments);
  arguments->Add("--run", &command->run, "Only of this one: its folder, or as `cloud list` has it")
      .Value("RUN");
}

void AddList(CloudCommand* command, Arguments* arguments) {
  AddRun(command, arguments);
  arguments->Add("--json", &command->is_json, "For programs");
}

void AddSweep(CloudCommand* command, Arguments* arguments) {
  AddRun(command, arguments);
  arguments->Add("--yes", &command->is_confirmed, "Do not ask");
}

}  // namespace

constinit const Command kCloud = {
    .path = "cloud", .group = Group::kKeep, .help = "Rented machines: could be, are, and end"};

constinit const Command kCloudCheck = {
    .path = "cloud check",
    .help = "Say whether a job's machines could be rented, and for how much, without renting any",
    .examples = {{{"psctl cloud check job.json", "credentials, permissions, quotas, prices"}}},
    .declare = Declare<CloudCommand, AddJob, RunCheck>};

constinit const Command kCloudList = {
    .path = "cloud list",
    .help = "List the machines that runs have rented, of other people's runs too",
    .examples = {{{"psctl cloud list job.json", "what there is, and what it costs"}}},
    .declare = Declare<CloudCommand, AddList, RunList>};

constinit const Command kCloudSweep = {
    .path = "cloud sweep",
    .help = "End machines that no run of this machine has",
    .examples = {{{"psctl cloud sweep job.json", "asks first"}}},
    .declare = Declare<CloudCommand, AddSweep, RunSweep>};

}  // namespace ps::psctl
