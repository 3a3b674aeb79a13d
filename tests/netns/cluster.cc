#include "tests/netns/cluster.h"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "provisioner/fleet/local_launcher.h"
#include "ps/base/time.h"
#include "ps/process/process_start.h"

namespace ps::netns {
namespace {

namespace fs = std::filesystem;

volatile std::sig_atomic_t interrupted = 0;

constexpr int kPollMillis = 50;
/// Starting and ending a run, besides its training.
constexpr double kRunOverheadS = 30;

struct CommandResult {
  int code = 0;
  std::string text;
};

CommandResult RunCommand(const std::string& command) {
  CommandResult result;
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) {
    return {127, "no pipe"};
  }
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) {
    result.text += buffer.data();
  }
  const int status = ::pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  while (!result.text.empty() && result.text.back() == '\n') {
    result.text.pop_back();
  }
  return result;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

double ChildrenCpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

proto::LayerConfig Layer(proto::LayerKind kind, int32_t out = 0) {
  proto::LayerConfig layer;
  layer.kind = kind;
  layer.out = out;
  return layer;
}

/// 2.1 MB of parameters: at 100 Mbit/s they take 0.18 s, and little of a processor.
proto::JobConfig JobBehind(const Cell& cell, const std::string& prefix) {
  using proto::LayerKind;
  proto::JobConfig job;
  job.name = "netns";
  job.model.layers = {
      Layer(LayerKind::kFlatten),
      Layer(LayerKind::kLinear, 512),
      Layer(LayerKind::kRelu),
      Layer(LayerKind::kLinear, 256),
      Layer(LayerKind::kRelu),
      Layer(LayerKind::kLinear, 10)};
  job.data.directory = "/usr/share/datasets/fashion-mnist";
  job.data.train_samples = 20000;
  job.data.test_samples = 500;
  job.optimizer.lr = 0.02F;
  job.train.epochs = 1000;
  job.train.minibatch = 32;
  job.train.overlap = cell.overlap;
  job.train.evaluate_every_epochs = 0;
  job.servers.count = static_cast<uint32_t>(cell.servers);
  for (const WorkerSpec& worker : cell.workers) {
    proto::WorkerGroup group;
    group.minibatch = static_cast<uint32_t>(worker.minibatch);
    group.step_ms = static_cast<float>(worker.step_ms);
    group.type = worker.type();
    job.workers.push_back(group);
  }
  job.fleet.max_detect_s = 5;
  job.launch.prefix = "ip netns exec " + prefix + "-{name}";
  job.launch.server_listen = "0.0.0.0";
  job.launch.server_advertise = "10.88.1.{index}";
  job.run.listen = "10.88.0.1";
  job.run.seconds_max = static_cast<float>(cell.seconds);
  job.run.stop_at_loss = static_cast<float>(cell.stop_at_loss);
  return job;
}

/// The only run directory in `folder`.
std::string RunDirectoryIn(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    return entry.path().string();
  }
  return "";
}

}  // namespace

void WatchForInterrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };
  for (const int number : SignalsToHandle({SIGINT, SIGTERM, SIGHUP})) {
    ::sigaction(number, &action, nullptr);
  }
}

bool IsInterrupted() {
  return interrupted != 0;
}

std::string Cluster::WhyNot(const std::string& hosts_script) {
  const CommandResult result = RunCommand(hosts_script + " check");
  return result.code == 0 ? "" : result.text;
}

Cluster::Cluster(Options options)
    : options_(std::move(options)), prefix_("spotps" + std::to_string(::getpid())) {}

Cluster::~Cluster() {
  const Status removed = Hosts("down " + prefix_);
  if (!removed.ok()) {
    std::fprintf(stderr, "%s\n", removed.ToString().c_str());
  }
}

Status Cluster::Hosts(const std::string& arguments) const {
  const CommandResult result = RunCommand(options_.hosts_script + " " + arguments);
  return result.code == 0 ? Status::Ok()
                          : Status::Unavailable("hosts.sh " + arguments + ": " + result.text);
}

Result<std::unique_ptr<Cluster>> Cluster::Make(const Options& options) {
  std::unique_ptr<Cluster> cluster(new Cluster(options));
  PS_TRY(cluster->Hosts(
      "up " + cluster->prefix_ + " " + std::to_string(options.servers) + " " +
      std::to_string(options.workers)));
  return cluster;
}

/// Real-time priority keeps what else runs on this machine out of the measurement; the processes
/// spend most of their time waiting.
Status Cluster::Train(const std::string& job_path, double seconds_max) {
  const std::unique_ptr<provisioner::Launcher> launcher = provisioner::MakeLocalLauncher();
  provisioner::LaunchSpec spec;
  spec.program = "ip";
  spec.arguments = {
      "netns",
      "exec",
      prefix_ + "-coordinator",
      "chrt",
      "-r",
      "1",
      options_.psctl,
      "train",
      job_path,
      "--no-refine"};
  spec.log_path = folder_ / "psctl.log";
  PS_ASSIGN(const provisioner::ProcessHandle process, launcher->Start(spec));
  const TimePoint deadline = SystemTime().Now() + FromSeconds(seconds_max + kRunOverheadS);
  while (true) {
    const auto exits = launcher->PollExits();
    if (!exits.empty()) {
      return exits.front().is_clean
                 ? Status::Ok()
                 : Status::Unavailable(exits.front().description + ": " + ReadText(spec.log_path));
    }
    if (IsInterrupted() || SystemTime().Now() > deadline) {
      launcher->Kill(process).Ignore("it has ended by itself");
      return Status::DeadlineExceeded(
          IsInterrupted() ? "interrupted" : "a run takes too long: " + ReadText(spec.log_path));
    }
    ::poll(nullptr, 0, kPollMillis);
  }
}

Result<CellResult> Cluster::Run(const Cell& cell) {
  const proto::JobConfig job = JobOf(cell);
  PS_ASSIGN(CellResult result, RunJob(job, cell.server_mbit_per_s));
  if (result.profile.fleets.empty()) {
    return Status::Unavailable(
        "a run of " + std::to_string(job.run.seconds_max) + " s tells no speed");
  }
  return result;
}

proto::JobConfig Cluster::JobOf(const Cell& cell) const {
  return JobBehind(cell, prefix_);
}

Result<CellResult> Cluster::RunJob(proto::JobConfig job, double server_mbit_per_s) {
  for (int server = 0; server < options_.servers; ++server) {
    PS_TRY(Hosts(
        "rate " + prefix_ + " server" + std::to_string(server) + " " +
        std::to_string(static_cast<int>(server_mbit_per_s))));
  }
  const std::string folder = folder_ / "cell";
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  fs::create_directories(folder);
  const std::string job_path = folder + "/job.json";
  job.run.directory = folder + "/runs";
  std::ofstream(job_path) << proto::PrintJobConfig(job);
  const double cpu_before_s = ChildrenCpuSeconds();
  const TimePoint begin = SystemTime().Now();
  PS_TRY(Train(job_path, job.run.seconds_max));
  const std::string path = RunDirectoryIn(folder + "/runs") + "/profile.json";
  CellResult result;
  PS_ASSIGN(result.profile, proto::ParseProfile(ReadText(path), path));
  // "t=... event=enough elapsed_s=12.3 ...": when the run had what it was asked for.
  const std::string log = ReadText(RunDirectoryIn(folder + "/runs") + "/logs/coordinator.log");
  const size_t enough = log.find("event=enough elapsed_s=");
  if (enough != std::string::npos) {
    result.elapsed_s = std::strtod(log.c_str() + log.find("elapsed_s=", enough) + 10, nullptr);
  }
  const double wall_s = Seconds(SystemTime().Now() - begin);
  result.cpu_share = (ChildrenCpuSeconds() - cpu_before_s) / wall_s;
  return result;
}

}  // namespace ps::netns
