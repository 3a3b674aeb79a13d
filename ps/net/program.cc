#include "ps/net/program.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "ps/base/host_port.h"
#include "ps/crypto/token_file.h"

namespace ps::net {
namespace {

constexpr uint64_t kLinkBytesPerSecondMax = uint64_t{1} << 50;

int Say(const ProgramText& text, std::string_view what, int exit_code) {
  std::fprintf(stderr, "%s: %s\n", text.name.c_str(), std::string(what).c_str());
  return exit_code;
}

Result<RunFlags> ReadRunFlags(const Flags& flags) {
  RunFlags run;
  PS_ASSIGN(const std::string address, flags.Text("coordinator"));
  PS_ASSIGN(HostPort coordinator, ParseHostPort(address));
  run.coordinator_host = std::move(coordinator.host);
  run.coordinator_port = coordinator.port;
  PS_ASSIGN(const std::string token_file, flags.Text("token-file"));
  PS_ASSIGN(const crypto::TokenFile token, crypto::ReadTokenFile(token_file));
  run.token = token.token;
  run.token_file = token.Text();
  PS_ASSIGN(run.tls, crypto::TlsOf(token, "--token-file " + token_file));
  if (flags.Has("run-start-us")) {
    PS_ASSIGN(const uint64_t start, flags.Number("run-start-us", 0, INT64_MAX));
    run.run_start_us = static_cast<int64_t>(start);
  }
  if (flags.Has("launch")) {
    PS_ASSIGN(run.launch.value, flags.Number("launch", 1, UINT64_MAX));
  }
  if (flags.Has("emulate-link-bytes-per-s")) {
    PS_ASSIGN(
        const uint64_t rate, flags.Number("emulate-link-bytes-per-s", 1, kLinkBytesPerSecondMax));
    run.link_bytes_per_s = static_cast<double>(rate);
  }
  return run;
}

}  // namespace

Manual ManualOf(const ProgramText& text) {
  std::vector<ManualFlag> flags = {
      {"--coordinator", "HOST:PORT", "Where the run listens: its coordinator.addr. Required."},
      {"--token-file", "FILE", "A copy of the run's file token. Required."}};
  flags.insert(flags.end(), text.flags.begin(), text.flags.end());
  flags.push_back({"--log-file", "FILE", "Where its log goes. Default: stderr."});
  flags.push_back(
      {"--run-start-us",
       "N",
       "Zero of the log's seconds, in microseconds since 1970. Default: its own start."});
  flags.push_back(
      {"--launch",
       "ID",
       "By which psctl knows a process that it starts. Default: none, it was started by hand."});
  flags.push_back(
      {"--emulate-link-bytes-per-s",
       "N",
       "Sends and reads no faster than this, each way, for tests."});
  return {
      text.name,
      text.summary,
      "--coordinator HOST:PORT --token-file FILE" + text.required_flags + " [FLAGS]",
      {{"Description", "", text.description, {}, {}},
       {"Flags", "", "", std::move(flags), {}},
       {"Other flags",
        "",
        "",
        {{"-h, --help", "", "This text."},
         {"--man", "", "The same as a man page."},
         {"--version", "", "The version."}},
        {}},
       {"Example", "", "", {}, {"scp first:runs/mnist-20260131-120000/token .", text.example}},
       {"Exit codes", "", text.exit_codes, {}, {}}}};
}

Result<ProgramFlags> ReadProgramFlags(int argc, const char* const* argv, const ProgramText& text) {
  PS_ASSIGN(Flags flags, Flags::Parse(argc, argv, ManualOf(text)));
  PS_ASSIGN(RunFlags run, ReadRunFlags(flags));
  return ProgramFlags{std::move(flags), std::move(run)};
}

Result<std::unique_ptr<LogSink>> LogSinkOf(const Flags& flags) {
  return flags.Has("log-file") ? MakeFileSink(flags.TextOr("log-file", ""), LogLevel::kInfo)
                               : MakeFdSink(STDERR_FILENO, LogLevel::kInfo);
}

int RunProgram(
    int argc,
    const char* const* argv,
    const ProgramText& text,
    std::string_view version,
    const ProgramSetup& set_up) {
  const std::string asked = Flags::Asked(argc, argv, ManualOf(text), version);
  if (!asked.empty()) {
    std::fputs(asked.c_str(), stdout);
    return 0;
  }
  const Result<ProgramFlags> read = ReadProgramFlags(argc, argv, text);
  if (!read.ok()) {
    return Say(text, read.status().message(), 2);
  }
  const Result<ProgramWork> work = set_up(read->flags, read->run);
  if (!work.ok()) {
    return Say(text, work.status().message(), 2);
  }
  const Result<std::unique_ptr<LogSink>> sink = LogSinkOf(read->flags);
  if (!sink.ok()) {
    return Say(text, sink.status().ToString(), 1);
  }
  const Status status = (*work)(sink->get());
  return status.ok() ? 0 : Say(text, status.ToString(), 1);
}

}  // namespace ps::net
