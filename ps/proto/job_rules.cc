// Rules that span fields of a job. Each rule looks at values, so that a printed config passes
// again; only train.overlap asks whether it was written, since its default depends on the mode.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <set>
#include <system_error>

#include "ps/base/host_port.h"
#include "ps/proto/device_choice.h"
#include "ps/proto/job_check.h"
#include "ps/proto/limits.h"

namespace ps::proto {
namespace {

constexpr std::string_view kFashionMnist = "/usr/share/datasets/fashion-mnist";

class Rules {
 public:
  Rules(const JobConfig& config, const JsonValue& root, const std::string& file)
      : config_(config), root_(root), file_(file) {}

  Status Check() const {
    PS_TRY(Model());
    PS_TRY(Optimizer());
    PS_TRY(Train());
    PS_TRY(Servers());
    PS_TRY(Checkpoints());
    PS_TRY(Goal());
    PS_TRY(Provisioner());
    PS_TRY(Seats());
    PS_TRY(Devices());
    PS_TRY(Faults());
    PS_TRY(Addresses());
    PS_TRY(Launcher());
    return Length();
  }

  Status Dataset() const {
    const std::string& directory = config_.data.directory;
    std::error_code error;
    if (std::filesystem::is_directory(directory, error)) {
      return Status::Ok();
    }
    const bool is_packaged = std::string_view(directory).starts_with(kFashionMnist);
    return Error(
        "data.directory",
        "data.directory " + Quoted(directory) + " is no directory on this machine; " +
            (is_packaged ? "install it: sudo apt-get install dataset-fashion-mnist"
                         : "allowed: the folder with the dataset's files"));
  }

 private:
  Status Error(std::string_view path, const std::string& what) const {
    return ErrorAtPath(file_, root_, path, what);
  }

  Status Model() const {
    const ModelConfig& model = config_.model;
    if (!model.name.empty() && !model.layers.empty()) {
      return Error("model.layers", "model has both a name and layers; allowed: one of the two");
    }
    if (model.name.empty() && model.layers.empty()) {
      return Error(
          "model",
          "model has neither a name nor layers; allowed: one of the two, "
          "for example \"name\": \"mlp\"");
    }
    PS_TRY(Transformer());
    return Layers(model.layers, "model.layers");
  }

  /// What gpt and bert ask for beyond each field's range.
  Status Transformer() const {
    const ModelConfig& model = config_.model;
    if (model.name != "gpt" && model.name != "bert") {
      return Status::Ok();
    }
    const uint32_t width = model.width == 0 ? kModelWidth : model.width;
    const uint32_t heads = model.heads == 0 ? kModelHeads : model.heads;
    if (width % heads != 0) {
      return Error(
          "model.heads",
          fmt::format(
              "model.heads is {}, which does not divide model.width {}; allowed: a divisor",
              heads,
              width));
    }
    const bool is_text = config_.data.format == DatasetFormat::kText;
    const bool is_hidden = config_.data.mask > 0;
    if (is_text && is_hidden && model.name == "gpt") {
      return Error("data.mask", "data.mask hides tokens, which model gpt cannot learn; allowed: 0");
    }
    if (is_text && !is_hidden && model.name == "bert") {
      return Error(
          "data.mask",
          "data.mask is 0, and model bert learns the tokens that are hidden; allowed: above 0 to "
          "0.9, for example 0.15");
    }
    return Status::Ok();
  }

  Status Layers(const std::vector<LayerConfig>& layers, const std::string& path) const {
    for (size_t i = 0; i < layers.size(); ++i) {
      const LayerConfig& layer = layers[i];
      const std::string at = fmt::format("{}[{}]", path, i);
      const bool has_out = layer.kind == LayerKind::kLinear || layer.kind == LayerKind::kConv2d ||
                           layer.kind == LayerKind::kEmbedding;
      if (has_out && layer.out < 1) {
        return Error(at + ".out", at + ".out is missing; allowed: a whole number from 1");
      }
      if (layer.kind == LayerKind::kAttention && layer.heads < 1) {
        return Error(at + ".heads", at + ".heads is missing; allowed: a whole number from 1");
      }
      const bool is_pool = layer.kind == LayerKind::kMaxPool || layer.kind == LayerKind::kAvgPool;
      if (is_pool && layer.padding * 2 > layer.kernel) {
        return Error(
            at + ".padding",
            fmt::format(
                "{}.padding is more than half the kernel; allowed: up to {}",
                at,
                layer.kernel / 2));
      }
      if (layer.kind == LayerKind::kResidual && layer.layers.empty()) {
        return Error(at, at + ".layers is missing; allowed: the layers of the body");
      }
      PS_TRY(Layers(layer.layers, at + ".layers"));
      PS_TRY(Layers(layer.shortcut, at + ".shortcut"));
    }
    return Status::Ok();
  }

  Status Optimizer() const {
    const OptimizerConfig& optimizer = config_.optimizer;
    if (optimizer.nesterov && optimizer.momentum == 0) {
      return Error(
          "optimizer.nesterov",
          "optimizer.nesterov needs momentum; allowed: optimizer.momentum above 0, or no nesterov");
    }
    const ScheduleConfig& schedule = optimizer.schedule;
    const std::string path = "optimizer.schedule.milestones";
    if (schedule.kind == ScheduleKind::kStep && schedule.milestones.empty()) {
      return Error(path, path + " is missing; allowed: at least one number above 0 below 1");
    }
    const auto descent =
        std::ranges::adjacent_find(schedule.milestones, std::ranges::greater_equal());
    if (descent != schedule.milestones.end()) {
      const auto index = descent - schedule.milestones.begin() + 1;
      return Error(
          fmt::format("{}[{}]", path, index),
          path + " do not ascend; allowed: each larger than the one before");
    }
    return Status::Ok();
  }

  Status Train() const {
    const TrainConfig& train = config_.train;
    if (train.mode == Mode::kSsp && train.staleness_max == 0) {
      return Error(
          "train.staleness_max",
          "train.staleness_max is 0 in mode ssp; allowed: 1 or more, or \"mode\": \"bsp\"");
    }
    const bool is_switching = train.mode_policy != ModePolicy::kFixed;
    if (is_switching && train.mode != Mode::kBsp) {
      return Error(
          "train.mode_policy",
          "train.mode_policy sync_switch begins in bsp, and so do sync_switch_greedy and "
          "sync_switch_elastic; allowed: \"mode\": \"bsp\", or mode_policy fixed");
    }
    const JsonValue* overlap = root_.At("train.overlap");
    if (overlap == nullptr || !train.overlap) {
      return Status::Ok();
    }
    if (train.mode != Mode::kAsync && !is_switching) {
      return Error(
          "train.overlap",
          "train.overlap is true in a mode that bounds how old the parameters of a step may be; "
          "allowed: false, or mode async");
    }
    if (config_.optimizer.clip_norm > 0) {
      return Error(
          "train.overlap",
          "train.overlap is true with optimizer.clip_norm, which needs the whole gradient first; "
          "allowed: false, or no clip_norm");
    }
    return Status::Ok();
  }

  Status Servers() const {
    const ServerConfig& servers = config_.servers;
    if (uint64_t{servers.queue_mib} * 1024 < 2 * uint64_t{servers.frame_kib}) {
      return Error(
          "servers.queue_mib",
          fmt::format(
              "servers.queue_mib holds less than two frames; allowed: {} or more with these "
              "frames",
              (2 * uint64_t{servers.frame_kib} + 1023) / 1024));
    }
    if (servers.count * servers.shards_per_server > kShardsMax) {
      return Error(
          "servers.shards_per_server",
          fmt::format(
              "servers.shards_per_server makes {} servers of {} shards {} shards; allowed: {} in "
              "all, so {} or less with these servers",
              servers.count,
              servers.shards_per_server,
              servers.count * servers.shards_per_server,
              kShardsMax,
              kShardsMax / servers.count));
    }
    if (servers.max_detect_s != 0 && servers.max_detect_s < config_.fleet.max_detect_s) {
      return Error(
          "servers.max_detect_s",
          fmt::format(
              "servers.max_detect_s is less than fleet.max_detect_s, after which a worker is "
              "lost; allowed: 0, or {:g} or more",
              config_.fleet.max_detect_s));
    }
    return Ports();
  }

  Status Ports() const {
    const ServerConfig& servers = config_.servers;
    const uint32_t shards = servers.count * servers.shards_per_server;
    if (servers.port == 0) {
      return Status::Ok();
    }
    const uint32_t last = servers.port + shards - 1;
    if (last > kPortMax) {
      return Error(
          "servers.port",
          fmt::format(
              "servers.port gives the last of {} shards port {}; allowed: 1 to {} with these "
              "shards, or 0 for any free ports",
              shards,
              last,
              kPortMax - shards + 1));
    }
    if (config_.run.port >= servers.port && config_.run.port <= last) {
      return Error(
          "servers.port",
          fmt::format(
              "servers.port gives shard {} the coordinator's port {}; allowed: shards at other "
              "ports than run.port",
              config_.run.port - servers.port,
              config_.run.port));
    }
    return Status::Ok();
  }

  Status Checkpoints() const {
    if (!config_.checkpoint.copy_to.empty() && !config_.checkpoint.enabled) {
      return Error(
          "checkpoint.copy_to",
          "checkpoint.copy_to has nothing to copy, because checkpoint.enabled is false");
    }
    const bool is_partial = config_.checkpoint.recovery == RecoveryKind::kPartial;
    return is_partial && config_.train.mode == Mode::kBsp
               ? Error(
                     "checkpoint.recovery",
                     "checkpoint.recovery is partial in mode bsp, whose rounds are of all servers; "
                     "allowed: auto, consistent")
               : Status::Ok();
  }

  Status Goal() const {
    const GoalConfig& goal = config_.goal;
    if (goal.loss == 0 && (goal.within_s > 0 || goal.budget_usd > 0)) {
      const std::string field = goal.within_s > 0 ? "goal.within_s" : "goal.budget_usd";
      return Error(field, field + " limits the way to goal.loss, which is 0; allowed: both, or 0");
    }
    return Status::Ok();
  }

  bool HasType(const std::string& type) const {
    return std::ranges::count(config_.workers, type, &WorkerGroup::type) > 0;
  }

  Status Provisioner() const {
    const ProvisionerConfig& provisioner = config_.provisioner;
    const std::string path = "provisioner.policy";
    if (provisioner.policy == FleetPolicyKind::kNone) {
      return Status::Ok();
    }
    if (provisioner.policy == FleetPolicyKind::kOracle) {
      return Error(
          path,
          path +
              " oracle knows when each machine goes, which nobody knows of a run; allowed: any "
              "other one, and oracle in psctl simulate");
    }
    if (config_.goal.loss > 0) {
      return Error(
          path,
          path +
              " and goal.loss would both decide how many workers there are; allowed: one of the "
              "two");
    }
    if (config_.workers.empty() || !config_.fleet.replace) {
      return Error(
          path,
          path + " decides how many workers are started, and " +
              (config_.workers.empty() ? "the job has no group of workers; allowed: one or more"
                                       : "fleet.replace is false; allowed: true"));
    }
    if (!provisioner.type.empty() && !HasType(provisioner.type)) {
      return Error(
          "provisioner.type",
          "provisioner.type " + Quoted(provisioner.type) + " is the type of no group of workers");
    }
    return provisioner.policy == FleetPolicyKind::kDeadline ? Deadline() : Status::Ok();
  }

  Status Deadline() const {
    const ProvisionerConfig& provisioner = config_.provisioner;
    if (!(provisioner.within_s > 0)) {
      return Error(
          "provisioner.policy",
          "provisioner.policy deadline needs provisioner.within_s; allowed: above 0");
    }
    const std::string path = "provisioner.on_demand_type";
    const std::string& type = provisioner.on_demand_type;
    const std::string& spot =
        provisioner.type.empty() ? config_.workers.front().type : provisioner.type;
    if (!HasType(type) || type == spot) {
      return Error(
          path,
          path + " " + Quoted(type) + " is not the type of another group of workers than " +
              Quoted(spot) + "; allowed: that of machines that stay, its count may be 0");
    }
    const auto group = std::ranges::find(config_.workers, type, &WorkerGroup::type);
    return group->usd_per_hour > 0
               ? Status::Ok()
               : Error(path, path + " " + Quoted(type) + " has no usd_per_hour; allowed: above 0");
  }

  Status Seats() const {
    uint64_t seats = 0;
    const auto add = [&](const WorkerGroup& group, const std::string& path) {
      seats += group.count;
      return seats <= kSeatsMax ? Status::Ok()
                                : Error(
                                      path,
                                      fmt::format(
                                          "{} brings the job to {} workers; allowed: {} in all",
                                          path,
                                          seats,
                                          kSeatsMax));
    };
    for (size_t i = 0; i < config_.workers.size(); ++i) {
      PS_TRY(add(config_.workers[i], fmt::format("workers[{}].count", i)));
    }
    for (size_t i = 0; i < config_.faults.size(); ++i) {
      if (config_.faults[i].kind == FaultKind::kAdd) {
        PS_TRY(add(config_.faults[i].add, fmt::format("faults[{}].add.count", i)));
      }
    }
    return Status::Ok();
  }

  /// `check` of each group and its path.
  template <typename Check>
  Status ForGroups(Check check) const {
    for (size_t i = 0; i < config_.workers.size(); ++i) {
      PS_TRY(check(config_.workers[i], fmt::format("workers[{}]", i)));
    }
    for (size_t i = 0; i < config_.faults.size(); ++i) {
      PS_TRY(check(config_.faults[i].add, fmt::format("faults[{}].add", i)));
    }
    return Status::Ok();
  }

  Status Devices() const {
    return ForGroups([this](const WorkerGroup& group, const std::string& at) {
      const std::string path = at + ".device";
      const Status status = ParseDevice(group.device).status();
      return status.ok() ? status : Error(path, path + " " + std::string(status.message()));
    });
  }

  Status Addresses() const {
    const std::initializer_list<std::pair<const char*, const std::string*>> addresses = {
        {"run.listen", &config_.run.listen},
        {"run.advertise", &config_.run.advertise},
        {"launch.server_listen", &config_.launch.server_listen},
        {"launch.server_advertise", &config_.launch.server_advertise}};
    for (const auto& [path, address] : addresses) {
      if (address->size() > kAddressBytesMax) {
        return Error(
            path,
            fmt::format(
                "{} has {} bytes; allowed: an address of at most {}",
                path,
                address->size(),
                kAddressBytesMax));
      }
    }
    return Status::Ok();
  }

  Status Launcher() const {
    const LaunchConfig& launch = config_.launch;
    const ServerConfig& servers = config_.servers;
    const bool is_ssh = launch.launcher == LauncherKind::kSsh;
    const bool is_slurm = launch.launcher == LauncherKind::kSlurm;
    const bool is_server_ssh = servers.launcher == LauncherKind::kSsh;
    const bool is_server_slurm = servers.launcher == LauncherKind::kSlurm;

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
         is_ssh || is_server_ssh,
         "ssh",
         "launch or servers"},
        {"launch.sbatch", !launch.sbatch.empty(), is_slurm, "slurm", "launch"},
        {"launch.zones", !launch.zones.empty(), is_slurm, "slurm", "launch"},
        {"launch.prefix", !launch.prefix.empty(), !is_ssh && !is_slurm, "local", "launch"},
        {"servers.hosts", !servers.hosts.empty(), is_server_ssh, "ssh", "servers"},
        {"servers.sbatch", !servers.sbatch.empty(), is_server_slurm, "slurm", "servers"}};
    for (const Owned& field : owned) {
      if (field.is_given && !field.is_allowed) {
        return Error(
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
      PS_TRY(ForGroups([this](const WorkerGroup& group, const std::string& at) {
        return group.cpu_share == 0
                   ? Status::Ok()
                   : Error(
                         at + ".cpu_share",
                         at + ".cpu_share is for the launcher local; allowed: leave it out");
      }));
    }
    if (!servers.launch && servers.launcher != LauncherKind::kLocal) {
      return Error(
          "servers.launcher",
          "servers.launcher says how psctl starts servers, and servers.launch is false; allowed: "
          "one of the two");
    }
    PS_TRY(Zones());
    if (is_server_ssh) {
      PS_TRY(ServerHosts());
    }
    return is_ssh ? WorkerHosts() : Status::Ok();
  }

  /// Each has a name of its own, and groups name those that there are.
  Status Zones() const {
    const LaunchConfig& launch = config_.launch;
    std::set<std::string> names;
    for (size_t i = 0; i < launch.zones.size(); ++i) {
      if (!names.insert(launch.zones[i].name).second) {
        const std::string path = fmt::format("launch.zones[{}].name", i);
        return Error(
            path,
            fmt::format("{} is {} again; allowed: each once", path, Quoted(launch.zones[i].name)));
      }
    }
    for (const HostConfig& host : launch.hosts) {
      if (!host.zone.empty()) {
        names.insert(host.zone);
      }
    }
    const auto check = [&](const WorkerGroup& group, const std::string& path) {
      for (size_t i = 0; i < group.zones.size(); ++i) {
        if (!names.contains(group.zones[i])) {
          const std::string item = fmt::format("{}.zones[{}]", path, i);
          return Error(
              item,
              fmt::format(
                  "{} is {}; allowed: {}",
                  item,
                  Quoted(group.zones[i]),
                  names.empty()
                      ? "the names that launch.zones (slurm) or launch.hosts[].zone (ssh) "
                        "give, and there are none"
                      : fmt::format("{}", fmt::join(names, ", "))));
        }
      }
      return Status::Ok();
    };
    return ForGroups(check);
  }

  Status WorkerHosts() const {
    uint64_t workers = 0;
    for (const WorkerGroup& group : config_.workers) {
      workers += group.count;
    }
    return Hosts(config_.launch.hosts, "launch", "workers", workers);
  }

  Status ServerHosts() const {
    const std::vector<HostConfig>& hosts = config_.servers.hosts;
    for (size_t i = 0; i < hosts.size(); ++i) {
      if (!hosts[i].zone.empty()) {
        const std::string path = fmt::format("servers.hosts[{}].zone", i);
        return Error(path, path + " is for workers; allowed: leave it out");
      }
    }
    return Hosts(hosts, "servers", "servers", config_.servers.count);
  }

  /// Those of `section`: each once, each where it can reach the coordinator, and room for all.
  Status Hosts(
      const std::vector<HostConfig>& hosts,
      std::string_view section,
      std::string_view what,
      uint64_t wanted) const {
    uint64_t slots = 0;
    for (size_t i = 0; i < hosts.size(); ++i) {
      const std::string path = fmt::format("{}.hosts[{}].host", section, i);
      const std::string& host = hosts[i].host;
      slots += hosts[i].slots;
      if (std::any_of(
              hosts.begin(),
              hosts.begin() + static_cast<std::ptrdiff_t>(i),
              [&](const HostConfig& other) { return other.host == host; })) {
        return Error(
            path,
            fmt::format(
                "{} is {} again; allowed: each host once, with its slots", path, Quoted(host)));
      }
      const std::string_view name = std::string_view(host).substr(host.find('@') + 1);
      if (IsLoopback(config_.run.listen) && !IsLoopback(name)) {
        return Error(
            path,
            fmt::format(
                "{} is {}, which can't reach run.listen {}; set run.listen to an address of this "
                "machine that others reach, for example 0.0.0.0",
                path,
                Quoted(host),
                Quoted(config_.run.listen)));
      }
    }
    if (hosts.empty() || slots < wanted) {
      return Error(
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

  /// Workers and shards get the job printed in full, which may be longer than the file.
  Status Length() const {
    JobConfig model;
    model.model = config_.model;
    const size_t model_bytes = PrintJobConfig(model).size();
    const size_t bytes = PrintJobConfig(config_).size();
    if (bytes <= kConfigBytesMax) {
      return Status::Ok();
    }
    const std::string path = model_bytes > bytes / 2 ? "model" : "workers";
    return Error(
        path,
        fmt::format(
            "{} makes most of the {} bytes that this job has when it is printed with all "
            "defaults; allowed: {}",
            path,
            bytes,
            kConfigBytesMax));
  }

  Status Faults() const {
    uint64_t seats = 0;
    for (const WorkerGroup& group : config_.workers) {
      seats += group.count;
    }
    for (size_t i = 0; i < config_.faults.size(); ++i) {
      const FaultConfig& fault = config_.faults[i];
      uint64_t seats_then = seats;
      for (const FaultConfig& other : config_.faults) {
        seats_then += other.kind == FaultKind::kAdd && other.at < fault.at ? other.add.count : 0;
      }
      const std::string at = fmt::format("faults[{}]", i);
      if (fault.kind == FaultKind::kAdd && fault.add.count == 0) {
        return Error(at + ".add.count", at + ".add.count is 0; allowed: 1 or more");
      }
      if (fault.kind != FaultKind::kAdd && fault.worker >= seats_then) {
        return Error(
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

  const JobConfig& config_;
  const JsonValue& root_;
  const std::string& file_;
};

}  // namespace

bool UsesTls(const JobConfig& config) {
  if (config.run.tls != TlsUse::kAuto) {
    return config.run.tls == TlsUse::kOn;
  }
  const std::initializer_list<std::string> addresses = {
      config.run.listen,
      config.run.advertise,
      config.launch.server_listen,
      config.launch.server_advertise};
  return std::any_of(addresses.begin(), addresses.end(), [](const std::string& address) {
    return !address.empty() && !IsLoopback(address);
  });
}

Status CheckRules(const JobConfig& config, const JsonValue& root, const std::string& file) {
  return Rules(config, root, file).Check();
}

Status CheckDataset(const JobConfig& config, const JsonValue& root, const std::string& file) {
  return Rules(config, root, file).Dataset();
}

}  // namespace ps::proto
