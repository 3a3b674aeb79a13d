#include "provisioner/fleet/process_arguments.h"

#include <fmt/core.h>

#include <cstddef>

#include "provisioner/fleet/launch_check.h"
#include "ps/base/host_port.h"
#include "ps/emulation/emulation.h"

namespace ps::provisioner {
namespace {

using proto::ProcessKind;
using proto::ProcessKindName;

void Add(const std::vector<std::string>& from, std::vector<std::string>* to) {
  to->insert(to->end(), from.begin(), from.end());
}

void AppendGrace(const char* flag, uint32_t term_grace_s, std::vector<std::string>* arguments) {
  if (term_grace_s != proto::kTermGraceSeconds) {
    Add({flag, std::to_string(term_grace_s)}, arguments);
  }
}

/// Whom it asks whether its machine is taken back, and what SIGTERM leaves it.
void AppendNotices(
    proto::NoticeService service, uint32_t term_grace_s, std::vector<std::string>* arguments) {
  if (service != proto::NoticeService::kNone) {
    const auto number = static_cast<size_t>(service);
    Add({"--notices", std::string(proto::kNoticeServiceNames[number])}, arguments);
  }
  AppendGrace("--term-grace-s", term_grace_s, arguments);
}

}  // namespace

std::vector<std::string> ServerArguments(const FleetOptions& options, uint32_t server) {
  const proto::LaunchConfig& launch = options.launch;
  const proto::ServerConfig& servers = options.servers;
  const auto filled = [server](const std::string& text) {
    return FillLaunchText(text, ProcessKindName(ProcessKind::kServer), server);
  };
  std::vector<std::string> arguments = {
      "--id", std::to_string(server), "--shards", std::to_string(servers.shards_per_server)};
  const bool is_here = servers.launcher == proto::LauncherKind::kLocal;
  const std::string listen =
      launch.server_listen.empty() && is_here ? options.listen : filled(launch.server_listen);
  const std::string advertise = filled(launch.server_advertise);
  if (!listen.empty()) {
    Add({"--listen", listen}, &arguments);
  }
  if (is_here || !advertise.empty()) {
    Add({"--advertise", is_here ? ReachableHost(listen, advertise, options.machine) : advertise},
        &arguments);
  }
  if (servers.port != 0) {
    const uint32_t port = servers.port + server * servers.shards_per_server;
    Add({"--port", std::to_string(port)}, &arguments);
  }
  AppendNotices(servers.notices, servers.term_grace_s, &arguments);
  Add(emulation::ArgumentsOf(emulation::OfServer(servers)), &arguments);
  return arguments;
}

std::vector<std::string> WorkerArguments(
    const FleetOptions& options, WorkerId seat, const proto::WorkerGroup& group) {
  std::vector<std::string> arguments = {"--seat", std::to_string(seat.value)};
  AppendNotices(group.notices, options.launch.term_grace_s, &arguments);
  Add(emulation::ArgumentsOf(emulation::OfWorker(group)), &arguments);
  Add(options.worker_flags, &arguments);
  return arguments;
}

std::vector<std::string> RunArguments(
    const FleetOptions& options, LaunchId launch, const std::string& token_file) {
  return {
      "--coordinator",
      options.coordinator,
      "--token-file",
      token_file,
      "--run-start-us",
      fmt::format("{}", options.run_start_us),
      "--launch",
      std::to_string(launch.value)};
}

}  // namespace ps::provisioner
