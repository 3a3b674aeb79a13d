#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <set>

#include "ps/base/host_port.h"
#include "ps/proto/job/device_choice.h"
#include "ps/proto/job/job_rules.h"
#include "ps/proto/limits.h"

namespace ps::proto {
namespace {

bool HasType(const JobInFile& job, const std::string& type) {
  return std::ranges::count(job.config.workers, type, &WorkerGroup::type) > 0;
}

Status Deadline(const JobInFile& job) {
  const ProvisionerConfig& provisioner = job.config.provisioner;
  if (!(provisioner.within_s > 0)) {
    return job.Error(
        "provisioner.policy",
        "provisioner.policy deadline needs provisioner.within_s; allowed: above 0");
  }
  const std::string path = "provisioner.on_demand_type";
  const std::string& type = provisioner.on_demand_type;
  const std::string& spot =
      provisioner.type.empty() ? job.config.workers.front().type : provisioner.type;
  if (!HasType(job, type) || type == spot) {
    return job.Error(
        path,
        path + " " + Quoted(type) + " is not the type of another group of workers than " +
            Quoted(spot) + "; allowed: that of machines that stay, its count may be 0");
  }
  const auto group = std::ranges::find(job.config.workers, type, &WorkerGroup::type);
  return group->usd_per_hour > 0
             ? Status::Ok()
             : job.Error(
                   path, path + " " + Quoted(type) + " has no usd_per_hour; allowed: above 0");
}

Status Provisioner(const JobInFile& job) {
  const ProvisionerConfig& provisioner = job.config.provisioner;
  const std::string path = "provisioner.policy";
  if (provisioner.policy == FleetPolicyKind::kNone) {
    return Status::Ok();
  }
  if (provisioner.policy == FleetPolicyKind::kOracle) {
    return job.Error(
        path,
        path +
            " oracle knows when each machine goes, which nobody knows of a run; allowed: any "
            "other one, and oracle in psctl simulate");
  }
  if (job.config.goal.loss > 0) {
    return job.Error(
        path,
        path +
            " and goal.loss would both decide how many workers there are; allowed: one of the "
            "two");
  }
  if (job.config.workers.empty() || !job.config.fleet.replace) {
    return job.Error(
        path,
        path + " decides how many workers are started, and " +
            (job.config.workers.empty() ? "the job has no group of workers; allowed: one or more"
                                        : "fleet.replace is false; allowed: true"));
  }
  if (!provisioner.type.empty() && !HasType(job, provisioner.type)) {
    return job.Error(
        "provisioner.type",
        "provisioner.type " + Quoted(provisioner.type) + " is the type of no group of workers");
  }
  return provisioner.policy == FleetPolicyKind::kDeadline ? Deadline(job) : Status::Ok();
}

Status Seats(const JobInFile& job) {
  uint64_t seats = 0;
  const auto add = [&](const WorkerGroup& group, const std::string& path) {
    seats += group.count;
    return seats <= kSeatsMax ? Status::Ok()
                              : job.Error(
                                    path,
                                    fmt::format(
                                        "{} brings the job to {} workers; allowed: {} in all",
                                        path,
                                        seats,
                                        kSeatsMax));
  };
  for (size_t i = 0; i < job.config.workers.size(); ++i) {
    PS_TRY(add(job.config.workers[i], fmt::format("workers[{}].count", i)));
  }
  for (size_t i = 0; i < job.config.faults.size(); ++i) {
    if (job.config.faults[i].kind == FaultKind::kAdd) {
      PS_TRY(add(job.config.faults[i].add, fmt::format("faults[{}].add.count", i)));
    }
  }
  return Status::Ok();
}

/// `check` of each group and its path.
template <typename Check>
Status ForGroups(const JobInFile& job, Check check) {
  for (size_t i = 0; i < job.config.workers.size(); ++i) {
    PS_TRY(check(job.config.workers[i], fmt::format("workers[{}]", i)));
  }
  for (size_t i = 0; i < job.config.faults.size(); ++i) {
    PS_TRY(check(job.config.faults[i].add, fmt::format("faults[{}].add", i)));
  }
  return Status::Ok();
}

Status Devices(const JobInFile& job) {
  return ForGroups(job, [&](const WorkerGroup& group, const std::string& at) {
    const std::string path = at + ".device";
    const Status status = ParseDevice(group.device).status();
    return status.ok() ? status : job.Error(path, path + " " + std::string(status.message()));
  });
}

Status Faults(const JobInFile& job) {
  uint64_t seats = 0;
  for (const WorkerGroup& group : job.config.workers) {
    seats += group.count;
  }
  for (size_t i = 0; i < job.config.faults.size(); ++i) {
    const FaultConfig& fault = job.config.faults[i];
    uint64_t seats_then = seats;
    for (const FaultConfig& other : job.config.faults) {
      seats_then += other.kind == FaultKind::kAdd && other.at < fault.at ? other.add.count : 0;
    }
    const std::string at = fmt::format("faults[{}]", i);
    if (fault.kind == FaultKind::kAdd && fault.add.count == 0) {
      return job.Error(at + ".add.count", at + ".add.count is 0; allowed: 1 or more");
    }
    if (fault.kind != FaultKind::kAdd && fault.worker >= seats_then) {
      return job.Error(
          at + ".worker",
          fmt::format(
              "{}.worker is {}, a seat that nobody has then; allowed: {}",
              at,
              fault.worker,
              seats_then == 0 ? "no fault, since psctl starts no workers then"
                              : fmt::format("0 to {}", seats_then - 1)));
    }
  }
  return Status::Ok();
}

/// Each has a name of its own, and groups name those that there are.
Status Zones(const JobInFile& job) {
  const LaunchConfig& launch = job.config.launch;
  std::set<std::string> names;
  for (size_t i = 0; i < launch.zones.size(); ++i) {
    if (!names.insert(launch.zones[i].name).second) {
      const std::string path = fmt::format("launch.zones[{}].name", i);
      return job.Error(
          path,
          fmt::format("{} is {} again; allowed: each once", path, Quoted(launch.zones[i].name)));
    }
  }
  for (const HostConfig& host : launch.hosts) {
    if (!host.zone.empty()) {
      names.insert(host.zone);
    }
  }
  names.insert(launch.rent.zones.begin(), launch.rent.zones.end());
  const auto check = [&](const WorkerGroup& group, const std::string& path) {
    for (size_t i = 0; i < group.zones.size(); ++i) {
      if (!names.contains(group.zones[i])) {
        const std::string item = fmt::format("{}.zones[{}]", path, i);
        return job.Error(
            item,
            fmt::format(
                "{} is {}; allowed: {}",
                item,
                Quoted(group.zones[i]),
                names.empty() ? "the names that launch.zones (slurm), launch.hosts[].zone (ssh) or "
                                "launch.rent.zones give, and there are none"
                              : fmt::format("{}", fmt::join(names, ", "))));
      }
    }
    return Status::Ok();
  };
  return ForGroups(job, check);
}

/// Those of `section`: each once, each where it can reach the coordinator, and room for all.
Status Hosts(
    const JobInFile& job,
    const std::vector<HostConfig>& hosts,
    std::string_view section,
    std::string_view what,
    uint64_t wanted) {
  uint64_t slots = 0;
  for (size_t i = 0; i < hosts.size(); ++i) {
    const std::string path = fmt::format("{}.hosts[{}].host", section, i);
    const std::string& host = hosts[i].host;
    slots += hosts[i].slots;
    if (std::any_of(
            hosts.begin(),
            hosts.begin() + static_cast<std::ptrdiff_t>(i),
            [&](const HostConfig& other) { return other.host == host; })) {
      return job.Error(
          path,
          fmt::format(
              "{} is {} again; allowed: each host once, with its slots", path, Quoted(host)));
    }
    const std::string_view name = std::string_view(host).substr(host.find('@') + 1);
    if (IsLoopback(job.config.run.listen) && !IsLoopback(name)) {
      return job.Error(
          path,
          fmt::format(
              "{} is {}, which can't reach run.listen {}; set run.listen to an address of this "
              "machine that others reach, for example 0.0.0.0",
              path,
              Quoted(host),
              Quoted(job.config.run.listen)));
    }
  }
  if (hosts.empty() || slots < wanted) {
    return job.Error(
        fmt::format("{}.{}", section, hosts.empty() ? "launcher" : "hosts"),
        fmt::format(
            "{}.hosts has {} slots for {} {}; add hosts, for example {{\"host\": \"10.0.0.3\", "
            "\"slots\": {}}}",
            section,
            slots,
            wanted,
            what,
            wanted));
  }
  return Status::Ok();
}

Status WorkerHosts(const JobInFile& job) {
  uint64_t workers = 0;
  for (const WorkerGroup& group : job.config.workers) {
    workers += group.count;
  }
  return Hosts(job, job.config.launch.hosts, "launch", "workers", workers);
}

Status ServerHosts(const JobInFile& job) {
  const std::vector<HostConfig>& hosts = job.config.servers.hosts;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (!hosts[i].zone.empty()) {
      const std::string path = fmt::format("servers.hosts[{}].zone", i);
      return job.Error(path, path + " is for workers; allowed: leave it out");
    }
  }
  return Hosts(job, hosts, "servers", "servers", job.config.servers.count);
}

/// Each has the form "claim:/path", no path twice.
Status Volumes(const JobInFile& job, const KubernetesConfig& kubernetes, const std::string& path) {
  std::set<std::string> folders;
  for (size_t i = 0; i < kubernetes.volumes.size(); ++i) {
    const std::string& volume = kubernetes.volumes[i];
    const std::string item = fmt::format("{}.volumes[{}]", path, i);
    const size_t colon = volume.find(":/");
    if (colon == 0 || colon == std::string::npos || volume.size() == colon + 2) {
      return job.Error(
          item,
          fmt::format(
              "{} is {}; allowed: the name of a PersistentVolumeClaim and the folder that it is "
              "mounted at, for example \"shared:/shared\"",
              item,
              Quoted(volume)));
    }
    if (!folders.insert(volume.substr(colon + 1)).second) {
      return job.Error(
          item, fmt::format("{} is mounted where another one is; allowed: each folder once", item));
    }
  }
  return Status::Ok();
}

Status Tolerations(
    const JobInFile& job, const KubernetesConfig& kubernetes, const std::string& path) {
  for (size_t i = 0; i < kubernetes.tolerations.size(); ++i) {
    const std::string_view text = kubernetes.tolerations[i];
    const size_t colon = text.find(':');
    const std::string_view effect = colon == text.npos ? "" : text.substr(colon + 1);
    const std::string_view key = text.substr(0, std::min(colon, text.find('=')));
    const bool is_effect = colon == text.npos || effect == "NoSchedule" || effect == "NoExecute" ||
                           effect == "PreferNoSchedule";
    if (key.empty() || !is_effect || text.find_first_of(" ,\t") != text.npos) {
      const std::string item = fmt::format("{}.tolerations[{}]", path, i);
      return job.Error(
          item,
          fmt::format(
              "{} is {}; allowed: a taint as key, key=value, key:Effect or key=value:Effect; the "
              "effects are NoSchedule, NoExecute and PreferNoSchedule",
              item,
              Quoted(text)));
    }
  }
  return Status::Ok();
}

/// What Pods need to start, and to reach the coordinator.
Status Kubernetes(
    const JobInFile& job, const KubernetesConfig& kubernetes, const std::string& section) {
  const std::string path = section + ".kubernetes";
  if (kubernetes.image.empty()) {
    return job.Error(
        section + ".launcher",
        fmt::format(
            "{0}.launcher is kubernetes, and {0}.kubernetes.image is absent; allowed: an image "
            "with the package spotps, which scripts/container.sh builds, for example "
            "{{\"image\": \"registry.example/spotps:1\"}}",
            section));
  }
  PS_TRY(Volumes(job, kubernetes, path));
  PS_TRY(Tolerations(job, kubernetes, path));
  const float wait_s = static_cast<float>(kubernetes.wait_s);
  if (wait_s >= job.config.fleet.join_timeout_s) {
    return job.Error(
        path + ".wait_s",
        fmt::format(
            "{}.wait_s is {}, and after fleet.join_timeout_s, {} s, nobody waits any more; "
            "allowed: less than that, or a longer fleet.join_timeout_s",
            path,
            kubernetes.wait_s,
            job.config.fleet.join_timeout_s));
  }
  return IsLoopback(job.config.run.listen)
             ? job.Error(
                   section + ".launcher",
                   fmt::format(
                       "{}.launcher is kubernetes, and no Pod reaches run.listen {}; set "
                       "run.listen to an address of this machine that Pods reach, for example "
                       "0.0.0.0",
                       section,
                       Quoted(job.config.run.listen)))
             : Status::Ok();
}

Status Launcher(const JobInFile& job) {
  const LaunchConfig& launch = job.config.launch;
  const ServerConfig& servers = job.config.servers;
  const bool is_ssh = launch.launcher == LauncherKind::kSsh;
  const bool is_slurm = launch.launcher == LauncherKind::kSlurm;
  const bool is_rented = IsRented(launch.launcher);
  const bool is_server_ssh = servers.launcher == LauncherKind::kSsh;
  const bool is_server_slurm = servers.launcher == LauncherKind::kSlurm;
  const bool is_kubernetes = launch.launcher == LauncherKind::kKubernetes;
  const bool is_server_kubernetes = servers.launcher == LauncherKind::kKubernetes;

  struct Owned {
    const char* path;
    bool is_given;
    bool is_allowed;
    const char* owner;
    const char* section;
  };

  const std::initializer_list<Owned> owned = {
      {"launch.hosts", !launch.hosts.empty(), is_ssh, "ssh", "launch"},
      {"launch.ssh_config",
       !launch.ssh_config.empty(),
       is_ssh || is_server_ssh || is_rented,
       "ssh",
       "launch or servers"},
      {"launch.sbatch", !launch.sbatch.empty(), is_slurm, "slurm", "launch"},
      {"launch.zones", !launch.zones.empty(), is_slurm, "slurm", "launch"},
      {"launch.prefix",
       !launch.prefix.empty(),
       launch.launcher == LauncherKind::kLocal,
       "local",
       "launch"},
      {"launch.kubernetes",
       launch.kubernetes != KubernetesConfig{},
       is_kubernetes,
       "kubernetes",
       "launch"},
      {"servers.hosts", !servers.hosts.empty(), is_server_ssh, "ssh", "servers"},
      {"servers.sbatch", !servers.sbatch.empty(), is_server_slurm, "slurm", "servers"},
      {"servers.kubernetes",
       servers.kubernetes != KubernetesConfig{},
       is_server_kubernetes,
       "kubernetes",
       "servers"}};
  for (const Owned& field : owned) {
    if (field.is_given && !field.is_allowed) {
      return job.Error(
          field.path,
          fmt::format(
              "{0} is for the launcher {1}; allowed: leave it out, or \"launcher\": "
              "\"{1}\" in {2}",
              field.path,
              field.owner,
              field.section));
    }
  }
  if (launch.launcher != LauncherKind::kLocal) {
    PS_TRY(ForGroups(job, [&](const WorkerGroup& group, const std::string& at) {
      return group.cpu_share == 0
                 ? Status::Ok()
                 : job.Error(
                       at + ".cpu_share",
                       at + ".cpu_share is for the launcher local; allowed: leave it out");
    }));
  }
  if (!servers.launch && servers.launcher != LauncherKind::kLocal) {
    return job.Error(
        "servers.launcher",
        "servers.launcher says how psctl starts servers, and servers.launch is false; allowed: "
        "one of the two");
  }
  if (!servers.launch && servers.term_grace_s != kTermGraceSeconds) {
    return job.Error(
        "servers.term_grace_s",
        fmt::format(
            "servers.term_grace_s is for servers that psctl starts, and servers.launch is false; "
            "allowed: leave it out, and start them with ps_server --term-grace-s {}",
            servers.term_grace_s));
  }
  PS_TRY(Zones(job));
  if (is_kubernetes) {
    PS_TRY(Kubernetes(job, launch.kubernetes, "launch"));
  }
  if (is_server_kubernetes) {
    PS_TRY(Kubernetes(job, servers.kubernetes, "servers"));
  }
  if (is_server_ssh) {
    PS_TRY(ServerHosts(job));
  }
  return is_ssh ? WorkerHosts(job) : Status::Ok();
}

}  // namespace

Status CheckFleet(const JobInFile& job) {
  PS_TRY(Provisioner(job));
  PS_TRY(Seats(job));
  PS_TRY(Devices(job));
  PS_TRY(Faults(job));
  return Launcher(job);
}

}  // namespace ps::proto
