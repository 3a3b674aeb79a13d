#include "psctl/plan/child_runs.h"

#include <fmt/core.h>
#include <poll.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "provisioner/fleet/local_launcher.h"
#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "ps/base/time.h"
#include "ps/process/process_start.h"

namespace ps::psctl {
namespace {

namespace fs = std::filesystem;

constexpr int kChildPollMillis = 50;
/// Starting and ending a run, besides its training.
constexpr double kRunOverheadS = 90;

volatile std::sig_atomic_t interrupted = 0;

Status ChildFailed(const std::string& log_path, const provisioner::ProcessExit& exit) {
  const Result<std::string> log = ReadFile(log_path);
  return Status::Unavailable(
      fmt::format("the run {}{}", exit.description, log.ok() ? ":\n" + *log : ""));
}

}  // namespace

ChildRuns::ChildRuns() : launcher_(provisioner::MakeLocalLauncher()) {
  std::string folder = (fs::temp_directory_path() / "psctl-runs-XXXXXX").string();
  if (::mkdtemp(folder.data()) != nullptr) {
    folder_ = folder;
  }
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };
  for (const int number : SignalsToHandle({SIGINT, SIGTERM, SIGHUP})) {
    ::sigaction(number, &action, nullptr);
  }
}

ChildRuns::~ChildRuns() {
  std::error_code ignored;
  if (!folder_.empty()) {
    fs::remove_all(folder_, ignored);
  }
}

Result<ChildRun> ChildRuns::Run(proto::JobConfig config) {
  if (folder_.empty()) {
    return Status::Io(
        fmt::format("cannot make a folder in {}", fs::temp_directory_path().string()));
  }
  std::error_code error;
  const std::string folder = fmt::format("{}/run{}", folder_, ++count_);
  PS_TRY(CreateDirectories(folder));
  config.run.directory = folder + "/runs";
  PS_TRY(WriteFileAtomically(folder + "/job.json", proto::PrintJobConfig(config)));
  const Status end = Train(folder, config.run.seconds_max);
  if (!end.ok() && end.code() != StatusCode::kUnavailable) {
    return end;
  }
  for (const auto& entry : fs::directory_iterator(config.run.directory, error)) {
    ChildRun child;
    child.run.root = entry.path().string();
    child.end = end;
    return child;
  }
  PS_TRY(end);
  return Status::NotFound(fmt::format("the run left no directory in {}", config.run.directory));
}

Status ChildRuns::Train(const std::string& folder, double seconds_max) {
  provisioner::LaunchSpec spec;
  spec.program = "/proc/self/exe";
  spec.gets_credentials = true;  // for the copies of its checkpoints
  spec.arguments = {"train", folder + "/job.json", "--no-refine"};
  spec.log_path = folder + "/psctl.log";
  PS_ASSIGN(const provisioner::ProcessHandle process, launcher_->Start(spec));
  const TimePoint begin = SystemTime().Now();
  const auto is_late = [&] {
    return seconds_max > 0 && SystemTime().Now() > begin + FromSeconds(seconds_max + kRunOverheadS);
  };
  while (interrupted == 0 && !is_late()) {
    const auto exits = launcher_->PollExits();
    if (!exits.empty()) {
      return exits.front().is_clean ? Status::Ok() : ChildFailed(spec.log_path, exits.front());
    }
    ::poll(nullptr, 0, kChildPollMillis);
  }
  launcher_->Kill(process).Ignore("it has ended by itself");
  return interrupted != 0 ? Status::Cancelled("interrupted")
                          : Status::DeadlineExceeded("the run does not end");
}

}  // namespace ps::psctl
