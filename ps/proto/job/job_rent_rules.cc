#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "ps/base/host_port.h"
#include "ps/proto/job/job_rules.h"
#include "ps/proto/job/traffic_price.h"

namespace ps::proto {
namespace {

/// What has no default, and what to write.
Status NamedMachines(const JobInFile& job) {
  struct Needed {
    std::string_view field;
    bool is_given;
    std::string_view example;
  };

  const RentConfig& rent = job.config.launch.rent;
  const bool is_ec2 = job.config.launch.launcher == LauncherKind::kEc2;
  const std::array<Needed, 5> needed = {{
      {"region", !rent.region.empty() || !is_ec2, "\"us-east-1\""},
      {"project", !rent.project.empty() || is_ec2, "\"my-project\""},
      {"zones", !rent.zones.empty(), is_ec2 ? "[\"us-east-1a\"]" : "[\"us-central1-a\"]"},
      {"types", !rent.types.empty(), is_ec2 ? "[\"c7i.xlarge\"]" : "[\"n2-standard-4\"]"},
      {"image", !rent.image.empty(), is_ec2 ? "\"ami-0123456789abcdef0\"" : "\"debian-12\""},
  }};
  for (const auto& [field, is_given] :
       {std::pair("region", !rent.region.empty() && !is_ec2),
        std::pair("project", !rent.project.empty() && is_ec2)}) {
    if (is_given) {
      const std::string path = fmt::format("launch.rent.{}", field);
      return job.Error(
          path, fmt::format("{} is for {}; allowed: leave it out", path, is_ec2 ? "gce" : "ec2"));
    }
  }
  for (const Needed& one : needed) {
    if (!one.is_given) {
      return job.Error(
          "launch.launcher",
          fmt::format(
              "launch.launcher {} needs launch.rent.{}, for example {}",
              is_ec2 ? "ec2" : "gce",
              one.field,
              one.example));
    }
  }
  return Status::Ok();
}

/// A group's type is a label elsewhere; among those that are rented it says which one.
Status Groups(const JobInFile& job) {
  const std::vector<std::string>& types = job.config.launch.rent.types;
  for (size_t i = 0; i < job.config.workers.size(); ++i) {
    const std::string& type = job.config.workers[i].type;
    if (job.config.workers[i].usd_per_hour > 0) {
      const std::string path = fmt::format("workers[{}].usd_per_hour", i);
      return job.Error(
          path,
          path +
              " is for machines of your own; allowed: leave it out, since the provider tells what "
              "rented ones cost, or launch.rent.usd_per_hour where it does not");
    }
    if (type != WorkerGroup().type && std::ranges::find(types, type) == types.end()) {
      const std::string path = fmt::format("workers[{}].type", i);
      return job.Error(
          path,
          fmt::format(
              "{} is {}; allowed: one of launch.rent.types, {}, or leave it out for any of these",
              path,
              Quoted(type),
              fmt::join(types, ", ")));
    }
  }
  return Status::Ok();
}

/// Whether the launcher can say in which zone each of the job's workers is.
bool KnowsZones(const LaunchConfig& launch) {
  const bool have_hosts_zones =
      !launch.hosts.empty() &&
      std::ranges::none_of(launch.hosts, [](const HostConfig& host) { return host.zone.empty(); });
  return IsRented(launch.launcher) || have_hosts_zones || !launch.zones.empty();
}

Status Traffic(const JobInFile& job) {
  const TrafficConfig& traffic = job.config.traffic;
  if (!HasPrices(traffic)) {
    return Status::Ok();
  }
  if (!KnowsZones(job.config.launch)) {
    return job.Error(
        "traffic",
        "traffic has prices, and nobody says in which zones the workers are; allowed: leave it "
        "out, or name zones: launch.hosts[].zone of each host (ssh), launch.zones (slurm), or "
        "\"launcher\": \"ec2\" or \"gce\" in launch");
  }
  if (traffic.server_zone.empty() && job.config.launch.rent.head.type.empty()) {
    return job.Error(
        "traffic",
        "traffic has prices, and nobody says in which zone the servers are; add "
        "traffic.server_zone, for example \"us-east-1a\", or \"outside\" for machines that are "
        "not the provider's");
  }
  return Status::Ok();
}

}  // namespace

Status CheckRent(const JobInFile& job) {
  const JobConfig& config = job.config;
  const bool is_rented = IsRented(config.launch.launcher);
  if (IsRented(config.servers.launcher)) {
    return job.Error(
        "servers.launcher",
        "servers.launcher names a provider, and a machine that is given back takes the parameters "
        "with it; allowed: local, on the stable host that psctl runs on, or ssh, slurm");
  }
  if (!is_rented && config.launch.rent != RentConfig()) {
    return job.Error(
        "launch.rent",
        "launch.rent is for machines that are rented; allowed: leave it out, or \"launcher\": "
        "\"ec2\" or \"gce\" in launch");
  }
  if (!is_rented && config.budget != BudgetConfig()) {
    return job.Error(
        "budget",
        "budget limits what rented machines cost, and nothing is rented; allowed: leave it out, or "
        "\"launcher\": \"ec2\" or \"gce\" in launch");
  }
  PS_TRY(Traffic(job));
  if (!is_rented) {
    return Status::Ok();
  }
  PS_TRY(NamedMachines(job));
  PS_TRY(Groups(job));
  const RentConfig& rent = config.launch.rent;
  if (rent.watch_min * 60 < rent.boot_s + rent.idle_s) {
    return job.Error(
        "launch.rent.watch_min",
        fmt::format(
            "launch.rent.watch_min is {}, and a machine may rightly be without a worker for "
            "boot_s + idle_s, {} s; allowed: {} or more",
            rent.watch_min,
            rent.boot_s + rent.idle_s,
            (rent.boot_s + rent.idle_s + 59) / 60));
  }
  if (rent.leave_above > 0 && rent.leave_above <= 1) {
    return job.Error(
        "launch.rent.leave_above",
        fmt::format(
            "launch.rent.leave_above is {}: times the price of the cheapest other pool; allowed: "
            "above 1, for example 2, or 0 for never",
            rent.leave_above));
  }
  if (IsLoopback(config.run.listen) && rent.endpoint.empty()) {
    return job.Error(
        "launch.launcher",
        fmt::format(
            "rented machines can't reach run.listen {}; set run.listen to 0.0.0.0, and "
            "run.advertise to the address at which they reach this machine",
            Quoted(config.run.listen)));
  }
  return Status::Ok();
}

}  // namespace ps::proto
