#include "psctl/job_view.h"

#include <fmt/core.h>

#include "ps/base/host_port.h"
#include "ps/base/text.h"
#include "ps/proto/timing.h"

namespace ps::psctl {
namespace {

constexpr uint32_t kServerLinesMax = 16;

uint32_t WorkersStarted(const proto::JobConfig& config) {
  uint32_t workers = 0;
  for (const proto::WorkerGroup& group : config.workers) {
    workers += group.count;
  }
  return workers;
}

std::string_view HowServersStart(const proto::ServerConfig& servers) {
  if (!servers.launch) {
    return " started by hand";
  }
  constexpr std::string_view kHow[] = {"", " over ssh", " by Slurm"};
  return kHow[static_cast<size_t>(servers.launcher)];
}

std::string ServerCommand(
    const proto::ServerConfig& servers, const std::string& common, uint32_t server) {
  std::string text = fmt::format("  ps_server {} --id {}", common, server);
  if (servers.shards_per_server != 1) {
    text += fmt::format(" --shards {}", servers.shards_per_server);
  }
  if (servers.port != 0) {
    text += fmt::format(" --port {}", servers.port + server * servers.shards_per_server);
  }
  return text + "\n";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> DescribeJob(
    const proto::JobConfig& config, const JobParts& parts) {
  const proto::Timing timing = proto::Timing::Of(config);
  const uint32_t workers = WorkersStarted(config);
  const std::string faults =
      config.faults.empty() ? "" : ", " + Plural(config.faults.size(), "planned disturbance");
  return {
      {"job", Printable(config.name)},
      {"model",
       FormatCount(static_cast<uint64_t>(parts.model.parameter_count())) + " parameters in " +
           Plural(parts.model.tensors.size(), "tensor")},
      {"data",
       FormatCount(parts.data.train_count) + " training and " + FormatCount(parts.data.test_count) +
           " test samples"},
      {"fleet",
       Plural(config.servers.count, "server") + " of " +
           Plural(config.servers.shards_per_server, "shard") +
           std::string(HowServersStart(config.servers)) + ", " +
           (workers == 0 ? "workers started by hand" : Plural(workers, "worker")) + faults},
      {"times",
       "a silent worker is lost after " + FormatDuration(Seconds(timing.detect)) +
           ", a server after " + FormatDuration(Seconds(timing.server_detect)) +
           ", heartbeat every " + FormatDuration(Seconds(timing.heartbeat))}};
}

std::string RenderHandStart(const proto::JobConfig& config, const HandStart& start) {
  const proto::ServerConfig& servers = config.servers;
  const bool has_workers = WorkersStarted(config) > 0;
  if (servers.launch && has_workers) {
    return "";
  }
  std::string text = fmt::format(
      "start these within {} (fleet.join_timeout_s), on machines that have a copy of {}:\n",
      FormatDuration(config.fleet.join_timeout_s),
      Printable(start.token_file));
  const std::string common = "--coordinator " + start.coordinator + " --token-file token";
  if (!servers.launch) {
    for (uint32_t i = 0; i < servers.count && i < kServerLinesMax; ++i) {
      text += ServerCommand(servers, common, i);
    }
    if (servers.count > kServerLinesMax) {
      text += "  ... and so on to\n" + ServerCommand(servers, common, servers.count - 1);
    }
  }
  if (!has_workers) {
    text += "  ps_worker " + common + "   (as many as there are to be, now or later)\n";
  }
  const Result<HostPort> coordinator = ParseHostPort(start.coordinator);
  if (coordinator.ok() && IsLoopback(coordinator->host)) {
    text += fmt::format(
        "other machines do not reach {}: for them set run.listen to {}, or to 0.0.0.0 for all "
        "addresses of this machine\n",
        coordinator->host,
        start.own_address.empty() ? "an address of this machine" : start.own_address);
  }
  return text;
}

}  // namespace ps::psctl
