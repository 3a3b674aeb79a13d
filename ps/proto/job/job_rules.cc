#include "ps/proto/job/job_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <system_error>

#include "ps/base/host_port.h"
#include "ps/proto/job/job_check.h"
#include "ps/proto/limits.h"

namespace ps::proto {
namespace {

constexpr std::string_view kInStore = "s3://";
constexpr std::string_view kFashionMnist = "/usr/share/datasets/fashion-mnist";

Status Ports(const JobInFile& job) {
  const ServerConfig& servers = job.config.servers;
  const uint32_t shards = servers.count * servers.shards_per_server;
  if (servers.port == 0) {
    return Status::Ok();
  }
  const uint32_t last = servers.port + shards - 1;
  if (last > kPortMax) {
    return job.Error(
        "servers.port",
        fmt::format(
            "servers.port gives the last of {} shards port {}; allowed: 1 to {} with these "
            "shards, or 0 for any free ports",
            shards,
            last,
            kPortMax - shards + 1));
  }
  if (job.config.run.port >= servers.port && job.config.run.port <= last) {
    return job.Error(
        "servers.port",
        fmt::format(
            "servers.port gives shard {} the coordinator's port {}; allowed: shards at other "
            "ports than run.port",
            job.config.run.port - servers.port,
            job.config.run.port));
  }
  return Status::Ok();
}

Status Servers(const JobInFile& job) {
  const ServerConfig& servers = job.config.servers;
  if (uint64_t{servers.queue_mib} * 1024 < 2 * uint64_t{servers.frame_kib}) {
    return job.Error(
        "servers.queue_mib",
        fmt::format(
            "servers.queue_mib holds less than two frames; allowed: {} or more with these "
            "frames",
            (2 * uint64_t{servers.frame_kib} + 1023) / 1024));
  }
  if (servers.count * servers.shards_per_server > kShardsMax) {
    return job.Error(
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
  if (servers.max_detect_s != 0 && servers.max_detect_s < job.config.fleet.max_detect_s) {
    return job.Error(
        "servers.max_detect_s",
        fmt::format(
            "servers.max_detect_s is less than fleet.max_detect_s, after which a worker is "
            "lost; allowed: 0, or {:g} or more",
            job.config.fleet.max_detect_s));
  }
  return Ports(job);
}

Status Checkpoints(const JobInFile& job) {
  if (!job.config.checkpoint.copy_to.empty() && !job.config.checkpoint.enabled) {
    return job.Error(
        "checkpoint.copy_to",
        "checkpoint.copy_to has nothing to copy, because checkpoint.enabled is false");
  }
  const bool is_partial = job.config.checkpoint.recovery == RecoveryKind::kPartial;
  return is_partial && job.config.train.mode == Mode::kBsp
             ? job.Error(
                   "checkpoint.recovery",
                   "checkpoint.recovery is partial in mode bsp, whose rounds are of all servers; "
                   "allowed: auto, consistent")
             : Status::Ok();
}

Status Goal(const JobInFile& job) {
  const GoalConfig& goal = job.config.goal;
  if (goal.loss == 0 && (goal.within_s > 0 || goal.budget_usd > 0)) {
    const std::string field = goal.within_s > 0 ? "goal.within_s" : "goal.budget_usd";
    return job.Error(
        field, field + " limits the way to goal.loss, which is 0; allowed: both, or 0");
  }
  return Status::Ok();
}

Status Addresses(const JobInFile& job) {
  const std::initializer_list<std::pair<const char*, const std::string*>> addresses = {
      {"run.listen", &job.config.run.listen},
      {"run.advertise", &job.config.run.advertise},
      {"run.page", &job.config.run.page},
      {"launch.server_listen", &job.config.launch.server_listen},
      {"launch.server_advertise", &job.config.launch.server_advertise}};
  for (const auto& [path, address] : addresses) {
    if (address->size() > kAddressBytesMax) {
      return job.Error(
          path,
          fmt::format(
              "{} has {} bytes; allowed: an address of at most {}",
              path,
              address->size(),
              kAddressBytesMax));
    }
  }
  const std::string& page = job.config.run.page;
  if (const Status parsed = ParseListenAddress(page).status(); page != kNoPage && !parsed.ok()) {
    return job.Error("run.page", fmt::format("run.page: {}; or \"{}\"", parsed.message(), kNoPage));
  }
  return Status::Ok();
}

/// Workers and shards get the job printed in full, which may be longer than the file.
Status Length(const JobInFile& job) {
  JobConfig model;
  model.model = job.config.model;
  const size_t model_bytes = PrintJobConfig(model).size();
  const size_t bytes = PrintJobConfig(job.config).size();
  if (bytes <= kConfigBytesMax) {
    return Status::Ok();
  }
  const std::string path = model_bytes > bytes / 2 ? "model" : "workers";
  return job.Error(
      path,
      fmt::format(
          "{} makes most of the {} bytes that this job has when it is printed with all "
          "defaults; allowed: {}",
          path,
          bytes,
          kConfigBytesMax));
}

}  // namespace

Status JobInFile::Error(std::string_view path, const std::string& what) const {
  return ErrorAtPath(file, root, path, what);
}

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
  const JobInFile job{config, root, file};
  PS_TRY(CheckTraining(job));
  PS_TRY(Servers(job));
  PS_TRY(Checkpoints(job));
  PS_TRY(Goal(job));
  PS_TRY(Addresses(job));
  PS_TRY(CheckFleet(job));
  PS_TRY(CheckRent(job));
  return Length(job);
}

Status CheckDataset(const JobConfig& config, const JsonValue& root, const std::string& file) {
  const std::string& directory = config.data.directory;
  std::error_code error;
  if (!config.worker.program.empty()) {
    return Status::Ok();  // its data are the program's own
  }
  // What is in an object store shows when it is read.
  if (directory.starts_with(kInStore) || std::filesystem::is_directory(directory, error)) {
    return Status::Ok();
  }
  const bool is_packaged = std::string_view(directory).starts_with(kFashionMnist);
  return JobInFile{config, root, file}.Error(
      "data.directory",
      "data.directory " + Quoted(directory) + " is no directory on this machine; " +
          (is_packaged ? "install it: sudo apt-get install dataset-fashion-mnist"
                       : "allowed: the folder with the dataset's files, or s3://BUCKET/PREFIX"));
}

}  // namespace ps::proto
