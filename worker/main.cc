// ps_worker: one worker of a job. psctl and launchers start it; a person can too, to add a machine.

#include <fmt/core.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "ps/base/logger.h"
#include "ps/net/program.h"
#include "ps/process/process_start.h"
#include "ps/proto/job/device_choice.h"
#include "ps/proto/limits.h"
#include "worker/worker_program.h"

namespace ps::worker {
namespace {

constexpr uint64_t kThreadsMax = 1024;  // of job.fbs, likewise
constexpr uint64_t kMinibatchMax = 65536;
constexpr uint64_t kProbeAfterMax = 1000000;

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
       {"--probe-after",
        "N",
        "Times forward and backward, when each gradient is ready, and exchanges with the servers, "
        "and says at the end what they took, in the log. The first N of each do not count."},
       {"--emulate-step-us",
        "N",
        "Pads the computation of a step to this many microseconds, for tests."}},
      "ps_worker --coordinator 10.0.0.1:4711 --token-file token --threads 8",
      "0 the job is over or a notice was obeyed, 1 failed, 2 misused."};
  const std::vector<ManualFlag> notices = notice::NoticeFlags();
  text.flags.insert(text.flags.end() - 1, notices.begin(), notices.end());
  return text;
}

Result<WorkerProgram::Options> ReadOptions(const Flags& flags, const net::RunFlags& run) {
  WorkerProgram::Options options;
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
    options.threads = static_cast<int>(threads);
  }
  if (flags.Has("device")) {
    PS_ASSIGN(options.device, flags.Text("device"));
    if (const auto device = proto::ParseDevice(options.device); !device.ok()) {
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
  options.open_device = OpenDevice;
  if (flags.Has("probe-after")) {
    PS_ASSIGN(options.probe_after, flags.Number("probe-after", 0, kProbeAfterMax));
  }
  PS_ASSIGN(options.notices, notice::ReadNoticeFlags(flags));
  if (flags.Has("emulate-step-us")) {
    PS_ASSIGN(
        const uint64_t step_us, flags.Number("emulate-step-us", 0, uint64_t{600} * 1000 * 1000));
    options.emulation.step_least = std::chrono::microseconds(step_us);
  }
  return options;
}

Status Work(WorkerProgram::Options options, std::optional<int64_t> run_start, LogSink* sink) {
  const std::string node =
      options.join.has_seat ? fmt::format("w{}", options.join.seat.value) : "worker";
  Logger log(node, &SystemTime(), sink, run_start);
  options.on_named = [&log](const std::string& name) { log.Rename(name); };
  WorkerProgram program(std::move(options), &log);
  Status status = program.Run();
  // Being taken back by the provider is a normal end.
  if (status.ok() || status.code() == StatusCode::kRevoked) {
    log.Info("worker_done", {{"status", status}});
    return Status::Ok();
  }
  log.Error("worker_failed", {{"why", status}});
  return status;
}

Result<net::ProgramWork> SetUp(const Flags& flags, const net::RunFlags& run) {
  PS_ASSIGN(WorkerProgram::Options options, ReadOptions(flags, run));
  return net::ProgramWork([options = std::move(options), start = run.run_start_us](LogSink* sink) {
    return Work(options, start, sink);
  });
}

}  // namespace
}  // namespace ps::worker

int main(int argc, char** argv) {
  ps::OpenStandardStreams();
  return ps::net::RunProgram(argc, argv, ps::worker::WorkerText(), PS_VERSION, ps::worker::SetUp);
}
