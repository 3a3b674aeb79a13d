// ps_worker: one worker of a job. psctl and launchers start it; a person can too, to add a machine.

#include <unistd.h>

#include <cstdio>

#include "ps/base/file.h"
#include "ps/base/flags.h"
#include "ps/base/host_port.h"
#include "ps/base/logger.h"
#include "ps/proto/limits.h"
#include "worker/worker_program.h"

namespace ps::worker {
namespace {

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

int Misused(const Status& status) {
  std::fprintf(stderr, "ps_worker: %s\n", std::string(status.message()).c_str());
  return 2;
}

int Main(int argc, char** argv) {
  const Result<Flags> flags = Flags::Parse(
      argc,
      argv,
      {"coordinator",
       "token-file",
       "seat",
       "log-file",
       "notice-file",
       "term-grace-s",
       "emulate-step-us",
       "emulate-link-bytes-per-s"});
  if (!flags.ok()) {
    return Misused(flags.status());
  }
  Result<WorkerProgram::Options> options = ReadOptions(*flags);
  if (!options.ok()) {
    return Misused(options.status());
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
  Logger log(node, &SystemTime(), sink.get());
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
