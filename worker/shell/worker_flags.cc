#include "worker/shell/worker_flags.h"

#include <fmt/core.h>
#include <unistd.h>

#include <vector>

#include "ps/proto/job/device_choice.h"
#include "ps/proto/limits.h"

namespace ps::worker {
namespace {

constexpr uint64_t kThreadsMax = 1024;  // of job.fbs, likewise
constexpr uint64_t kMinibatchMax = 65536;

}  // namespace

net::ProgramText WorkerText() {
  net::ProgramText text = {
      "ps_worker",
      "one worker of a spotps job",
      "",
      "Computes gradients for a job that psctl train coordinates. psctl starts the workers of "
      "the job file itself; by hand more can join at any time, from each machine that reaches "
      "the coordinator and the servers and has the dataset at the same path. It ends with the "
      "job, or after a notice: SIGTERM, Ctrl-C, the file of --notice-file, or the provider's "
      "(--notices).",
      {{"--seat", "N", "Takes this seat, even from its holder. Default: the lowest vacant one."},
       {"--threads",
        "N",
        "Threads to compute with. Default: what the job says of the seat, else 1."},
       {"--device",
        "NAME",
        "What to compute on: cpu, auto, cuda, cuda:1, cuda:0,1. Default: what the job says of the "
        "seat."},
       {"--minibatch",
        "N",
        "Samples per step. Default: what the job says of the seat, else train.minibatch."},
       {"--program",
        "JSON",
        "Becomes this program, which computes instead: its words, as [\"python3\", \"train.py\"]. "
        "It "
        "finds the other flags in its environment. Default: ps_worker computes."},
       {"--directory", "DIR", "With --program: where that starts. Default: here."},
       {"--emulate-step-us",
        "N",
        "Pads the computation of a step to this many microseconds, for tests."}},
      "ps_worker --coordinator 10.0.0.1:4711 --token-file token --threads 8",
      "0 the job is over or a notice was obeyed, 1 failed, 2 misused."};
  const std::vector<ManualFlag> notices = notice::NoticeFlags();
  text.flags.insert(text.flags.end() - 1, notices.begin(), notices.end());
  return text;
}

Result<WorkerFlags> ReadWorkerFlags(const Flags& flags, const net::RunFlags& run) {
  WorkerFlags worker;
  WorkerShell::Options& options = worker.shell;
  options.coordinator_host = run.coordinator_host;
  options.coordinator_port = run.coordinator_port;
  options.token = run.token;
  options.tls = run.tls;
  options.emulation.link_bytes_per_s = run.link_bytes_per_s;
  if (flags.Has("seat")) {
    PS_ASSIGN(const uint64_t seat, flags.Number("seat", 0, proto::kSeatsMax - 1));
    options.join.seat = WorkerId(static_cast<uint32_t>(seat));
    options.join.has_seat = true;
  }
  if (flags.Has("threads")) {
    PS_ASSIGN(const uint64_t threads, flags.Number("threads", 1, kThreadsMax));
    worker.threads = static_cast<int>(threads);
  }
  if (flags.Has("device")) {
    PS_ASSIGN(worker.device, flags.Text("device"));
    if (const auto device = proto::ParseDevice(worker.device); !device.ok()) {
      return Status::InvalidArgument(fmt::format("--device {}", device.status().message()));
    }
  }
  if (flags.Has("minibatch")) {
    PS_ASSIGN(const uint64_t minibatch, flags.Number("minibatch", 1, kMinibatchMax));
    options.join.minibatch = static_cast<uint32_t>(minibatch);
  }
  char host[256] = "";
  if (::gethostname(host, sizeof(host) - 1) == 0) {
    options.join.host = host;
  }
  options.join.pid = ::getpid();
  options.join.launch = run.launch;
  PS_ASSIGN(options.notices, notice::ReadNoticeFlags(flags));
  if (flags.Has("emulate-step-us")) {
    PS_ASSIGN(
        const uint64_t step_us, flags.Number("emulate-step-us", 0, uint64_t{600} * 1000 * 1000));
    options.emulation.step_least = std::chrono::microseconds(step_us);
  }
  if (flags.Has("directory") && !flags.Has("program")) {
    return Status::InvalidArgument("--directory is for --program; allowed: both");
  }
  worker.program = flags.TextOr("program", "");
  worker.directory = flags.TextOr("directory", "");
  return worker;
}

}  // namespace ps::worker
