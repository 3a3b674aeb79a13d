// ps_worker: one worker of a job. psctl and launchers start it; a person can too, to add a machine.

#include <unistd.h>

#include <cstdio>
#include <string>

#include "ps/base/file.h"
#include "ps/base/flags.h"
#include "ps/base/host_port.h"
#include "ps/base/logger.h"
#include "ps/base/manual.h"
#include "ps/proto/limits.h"
#include "worker/worker_program.h"

namespace ps::worker {
namespace {

constexpr uint64_t kThreadsMax = 1024;  // of job.fbs, likewise
constexpr uint64_t kMinibatchMax = 65536;

const Manual& WorkerManual() {
  static const Manual manual = {
      "ps_worker",
      "one worker of a spotps job",
      "--coordinator HOST:PORT --token-file FILE [FLAGS]",
      {{"Description",
        "",
        "Computes gradients for a job that psctl train coordinates. psctl starts the workers of "
        "the job file itself; by hand more can join at any time, from each machine that reaches "
        "the coordinator and the servers and has the dataset at the same path. It ends with the "
        "job, or after a notice: SIGTERM, Ctrl-C, or the file of --notice-file.",
        {},
        {}},
       {"Flags",
        "",
        "",
        {{"--coordinator", "HOST:PORT", "Where the run listens: its coordinator.addr. Required."},
         {"--token-file", "FILE", "A copy of the run's file token. Required."},
         {"--seat", "N", "Takes this seat, even from its holder. Default: the lowest vacant one."},
         {"--threads",
          "N",
          "Threads to compute with. Default: what the job says of the seat, else 1."},
         {"--minibatch",
          "N",
          "Samples per step. Default: what the job says of the seat, else train.minibatch."},
         {"--notice-file",
          "FILE",
          "Leaves when this file appears, within the seconds that are written in it."},
         {"--term-grace-s", "N", "Seconds from SIGTERM to the end of the machine. Default: 5."},
         {"--log-file", "FILE", "Where its log goes. Default: stderr."},
         {"--run-start-us",
          "N",
          "Zero of the log's seconds, in microseconds since 1970. Default: its own start."},
         {"--emulate-step-us",
          "N",
          "Pads the computation of a step to this many microseconds, for tests."},
         {"--emulate-link-bytes-per-s",
          "N",
          "Sends and reads no faster than this, each way, for tests."}},
        {}},
       {"Other flags",
        "",
        "",
        {{"-h, --help", "", "This text."},
         {"--man", "", "The same as a man page."},
         {"--version", "", "The version."}},
        {}},
       {"Example",
        "",
        "",
        {},
        {"scp first:runs/mnist-20260131-120000/token .",
         "ps_worker --coordinator 10.0.0.1:4711 --token-file token --threads 8"}},
       {"Exit codes",
        "",
        "0 the job is over or a notice was obeyed, 1 failed, 2 misused.",
        {},
        {}}}};
  return manual;
}

Result<WorkerProgram::Options> ReadOptions(const Flags& flags) {
  WorkerProgram::Options options;
  PS_ASSIGN(const std::string address, flags.Text("coordinator"));
  PS_ASSIGN(const HostPort coordinator, ParseHostPort(address));
  options.coordinator_host = coordinator.host;
  options.coordinator_port = coordinator.port;
  PS_ASSIGN(const std::string token_file, flags.Text("token-file"));
  PS_ASSIGN(options.token, ReadSmallFile(token_file, proto::kNameBytesMax));
  if (flags.Has("seat")) {
    PS_ASSIGN(const uint64_t seat, flags.Number("seat", 0, proto::kSeatsMax - 1));
    options.join.seat = WorkerId(static_cast<uint32_t>(seat));
    options.join.has_seat = true;
  }
  if (flags.Has("threads")) {
    PS_ASSIGN(const uint64_t threads, flags.Number("threads", 1, kThreadsMax));
    options.threads = static_cast<int>(threads);
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
  options.notice_file = flags.TextOr("notice-file", "");
  options.term_grace = std::chrono::seconds(5);
  if (flags.Has("term-grace-s")) {
    PS_ASSIGN(const uint64_t grace_s, flags.Number("term-grace-s", 0, 3600));
    options.term_grace = std::chrono::seconds(grace_s);
  }
  if (flags.Has("emulate-step-us")) {
    PS_ASSIGN(
        const uint64_t step_us, flags.Number("emulate-step-us", 0, uint64_t{600} * 1000 * 1000));
    options.emulation.step_least = std::chrono::microseconds(step_us);
  }
  if (flags.Has("emulate-link-bytes-per-s")) {
    PS_ASSIGN(const uint64_t rate, flags.Number("emulate-link-bytes-per-s", 1, uint64_t{1} << 50));
    options.emulation.link_bytes_per_s = static_cast<double>(rate);
  }
  return options;
}

/// When the run began, for the log; nothing when nobody says.
Result<std::optional<int64_t>> ReadRunStart(const Flags& flags) {
  if (!flags.Has("run-start-us")) {
    return std::optional<int64_t>();
  }
  PS_ASSIGN(const uint64_t start, flags.Number("run-start-us", 0, INT64_MAX));
  return std::optional(static_cast<int64_t>(start));
}

int Misused(const Status& status) {
  std::fprintf(stderr, "ps_worker: %s\n", std::string(status.message()).c_str());
  return 2;
}

int Main(int argc, char** argv) {
  const std::string asked = Flags::Asked(argc, argv, WorkerManual(), PS_VERSION);
  if (!asked.empty()) {
    std::fputs(asked.c_str(), stdout);
    return 0;
  }
  const Result<Flags> flags = Flags::Parse(argc, argv, WorkerManual());
  if (!flags.ok()) {
    return Misused(flags.status());
  }
  Result<WorkerProgram::Options> options = ReadOptions(*flags);
  if (!options.ok()) {
    return Misused(options.status());
  }
  const Result<std::optional<int64_t>> run_start = ReadRunStart(*flags);
  if (!run_start.ok()) {
    return Misused(run_start.status());
  }
  std::unique_ptr<LogSink> sink = MakeFdSink(STDERR_FILENO, LogLevel::kInfo);
  if (flags->Has("log-file")) {
    Result<std::unique_ptr<LogSink>> file =
        MakeFileSink(flags->TextOr("log-file", ""), LogLevel::kInfo);
    if (!file.ok()) {
      std::fprintf(stderr, "ps_worker: %s\n", file.status().ToString().c_str());
      return 1;
    }
    sink = std::move(file).value();
  }
  const std::string node =
      options->join.has_seat ? "w" + std::to_string(options->join.seat.value) : "worker";
  Logger log(node, &SystemTime(), sink.get(), *run_start);
  options->on_named = [&log](const std::string& name) { log.Rename(name); };
  WorkerProgram program(std::move(options).value(), &log);
  const Status status = program.Run();
  // Being taken back by the provider is a normal end.
  if (status.ok() || status.code() == StatusCode::kRevoked) {
    log.Info("worker_done", {{"status", status}});
    return 0;
  }
  log.Error("worker_failed", {{"why", status}});
  std::fprintf(stderr, "ps_worker: %s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace ps::worker

int main(int argc, char** argv) {
  return ps::worker::Main(argc, argv);
}
