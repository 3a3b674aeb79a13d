// ps_worker: one worker of a job. psctl and launchers start it; a person can too, to add a machine.

#include <fmt/core.h>

#include <optional>
#include <string>
#include <utility>

#include "ps/base/logger.h"
#include "ps/net/program.h"
#include "ps/process/process_start.h"
#include "worker/script/script_start.h"
#include "worker/shell/worker_flags.h"
#include "worker/worker_program.h"

namespace ps::worker {
namespace {

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
  PS_ASSIGN(const WorkerFlags worker, ReadWorkerFlags(flags, run));
  if (!worker.program.empty()) {
    return StartScript(worker.program, worker.directory, flags, run.token_file);
  }
  WorkerProgram::Options options;
  static_cast<WorkerShell::Options&>(options) = worker.shell;
  options.threads = worker.threads;
  options.device = worker.device;
  options.open_device = OpenDevice;
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
