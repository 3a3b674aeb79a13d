// ps_server: one server process of a job, with one or more shards. Started by psctl, a launcher, or
// by hand.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/rocksdb_storage.h"
#include "ps/base/file.h"
#include "ps/base/flags.h"
#include "ps/base/host_port.h"
#include "ps/base/logger.h"
#include "ps/base/manual.h"
#include "ps/net/addresses.h"
#include "ps/proto/limits.h"
#include "ps/server/shard_host.h"

namespace ps::server {
namespace {

/// Options of the first shard, and how many there are.
struct ServerOptions {
  ShardHost::Options shard;
  uint32_t shard_count = 1;
};

const Manual& ServerManual() {
  static const Manual manual = {
      "ps_server",
      "one server process of a spotps job",
      "--coordinator HOST:PORT --token-file FILE --id N [FLAGS]",
      {{"Description",
        "",
        "Holds a part of the parameters of a job that psctl train coordinates. psctl starts its "
        "servers itself, unless servers.launch is false in the job file: then it says which "
        "commands to run. It ends with the job.",
        {},
        {}},
       {"Flags",
        "",
        "",
        {{"--coordinator", "HOST:PORT", "Where the run listens: its coordinator.addr. Required."},
         {"--token-file", "FILE", "A copy of the run's file token. Required."},
         {"--id", "N", "Number of this server, from 0 to servers.count - 1. Required."},
         {"--shards",
          "N",
          "Shards in this process: servers.shards_per_server of the job. Default: 1."},
         {"--listen",
          "ADDRESS",
          "Address of this machine to bind, or 0.0.0.0 for all. Default: the one by which it "
          "reaches the coordinator."},
         {"--port", "N", "Port of its first shard; the next ones follow. Default: any free ones."},
         {"--advertise",
          "ADDRESS",
          "Address at which workers reach it. Default: the one that it binds; of 0.0.0.0 the one "
          "by which it reaches the coordinator."},
         {"--log-file", "FILE", "Where its log goes. Default: stderr."},
         {"--run-start-us",
          "N",
          "Zero of the log's seconds, in microseconds since 1970. Default: its own start."},
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
         "ps_server --coordinator 10.0.0.1:4711 --token-file token --id 1 --port 4721"}},
       {"Exit codes", "", "0 the job is over, 1 failed, 2 misused.", {}, {}}}};
  return manual;
}

/// Fills in where the server listens, and where it says that it does.
Status ReadAddresses(const Flags& flags, ShardHost::Options* shard) {
  shard->listen_host = flags.TextOr("listen", "");
  shard->advertised_host = flags.TextOr("advertise", "");
  if (BindsAll(shard->advertised_host)) {
    return Status::InvalidArgument(
        "--advertise " + shard->advertised_host +
        " is no address that workers can connect to; leave it out, or say the one that they reach");
  }
  const bool is_known = !shard->listen_host.empty() &&
                        (!shard->advertised_host.empty() || !BindsAll(shard->listen_host));
  std::string own = shard->listen_host;
  if (!is_known) {
    PS_ASSIGN(own, net::AddressTowards(shard->coordinator_host));
  }
  if (shard->listen_host.empty()) {
    shard->listen_host = own;
  }
  if (shard->advertised_host.empty()) {
    shard->advertised_host = own;
  }
  return Status::Ok();
}

Result<ServerOptions> ReadOptions(const Flags& flags) {
  ServerOptions options;
  PS_ASSIGN(const std::string address, flags.Text("coordinator"));
  PS_ASSIGN(const HostPort coordinator, ParseHostPort(address));
  options.shard.coordinator_host = coordinator.host;
  options.shard.coordinator_port = coordinator.port;
  PS_ASSIGN(const std::string token_file, flags.Text("token-file"));
  PS_ASSIGN(options.shard.token, ReadSmallFile(token_file, proto::kNameBytesMax));
  PS_ASSIGN(const uint64_t id, flags.Number("id", 0, proto::kShardsMax - 1));
  uint64_t count = 1;
  if (flags.Has("shards")) {
    PS_ASSIGN(count, flags.Number("shards", 1, proto::kShardsMax));
  }
  options.shard_count = static_cast<uint32_t>(count);
  options.shard.shard = ShardId(static_cast<uint32_t>(id * count));
  if (flags.Has("port")) {
    PS_ASSIGN(const uint64_t port, flags.Number("port", 0, proto::kPortMax + 1 - count));
    options.shard.port = static_cast<uint32_t>(port);
  }
  PS_TRY(ReadAddresses(flags, &options.shard));
  if (flags.Has("emulate-link-bytes-per-s")) {
    PS_ASSIGN(const uint64_t rate, flags.Number("emulate-link-bytes-per-s", 1, uint64_t{1} << 50));
    // Each shard has an endpoint of its own and its share of the link.
    options.shard.emulation.link_bytes_per_s =
        static_cast<double>(rate) / static_cast<double>(count);
  }
  options.shard.pid = ::getpid();
  if (flags.Has("run-start-us")) {
    PS_ASSIGN(const uint64_t start, flags.Number("run-start-us", 0, INT64_MAX));
    options.shard.run_start_us = static_cast<int64_t>(start);
  }
  return options;
}

/// Runs every shard on a thread of its own until all have ended; the first failure ends them all.
Status RunShards(const ServerOptions& options, LogSink* sink) {
  const std::unique_ptr<checkpoint::Storage> storage = checkpoint::MakeRocksDbStorage();
  std::vector<std::unique_ptr<ShardHost>> hosts;
  for (uint32_t i = 0; i < options.shard_count; ++i) {
    ShardHost::Options shard = options.shard;
    shard.shard = ShardId(options.shard.shard.value + i);
    shard.port += options.shard.port == 0 ? 0 : i;
    shard.says_trouble = i == 0;  // once for all
    hosts.push_back(std::make_unique<ShardHost>(std::move(shard), storage.get(), sink));
  }
  std::mutex mutex;
  Status outcome;
  std::vector<std::thread> threads;
  for (const auto& host : hosts) {
    threads.emplace_back([&hosts, &mutex, &outcome, self = host.get()] {
      Status status = self->Run();
      if (status.ok()) {
        return;
      }
      const std::lock_guard lock(mutex);
      if (outcome.ok()) {
        outcome = std::move(status);
        for (const auto& other : hosts) {
          other->Stop();
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return outcome;
}

int Misused(const Status& status) {
  std::fprintf(stderr, "ps_server: %s\n", std::string(status.message()).c_str());
  return 2;
}

int Main(int argc, char** argv) {
  // Ctrl-C on the terminal is for psctl, which tells its servers when to leave.
  std::signal(SIGINT, SIG_IGN);
  const std::string asked = Flags::Asked(argc, argv, ServerManual(), PS_VERSION);
  if (!asked.empty()) {
    std::fputs(asked.c_str(), stdout);
    return 0;
  }
  const Result<Flags> flags = Flags::Parse(argc, argv, ServerManual());
  if (!flags.ok()) {
    return Misused(flags.status());
  }
  const Result<ServerOptions> options = ReadOptions(*flags);
  if (!options.ok()) {
    return Misused(options.status());
  }
  std::unique_ptr<LogSink> sink = MakeFdSink(STDERR_FILENO, LogLevel::kInfo);
  if (flags->Has("log-file")) {
    Result<std::unique_ptr<LogSink>> file =
        MakeFileSink(flags->TextOr("log-file", ""), LogLevel::kInfo);
    if (!file.ok()) {
      std::fprintf(stderr, "ps_server: %s\n", file.status().ToString().c_str());
      return 1;
    }
    sink = std::move(file).value();
  }
  const Status status = RunShards(*options, sink.get());
  if (status.ok() || status.code() == StatusCode::kCancelled) {
    return 0;
  }
  std::fprintf(stderr, "ps_server: %s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace ps::server

int main(int argc, char** argv) {
  return ps::server::Main(argc, argv);
}
