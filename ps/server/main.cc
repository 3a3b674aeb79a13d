// ps_server: one server process of a job, with one or more shards. Started by psctl or a launcher.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "ps/base/file.h"
#include "ps/base/flags.h"
#include "ps/base/host_port.h"
#include "ps/base/logger.h"
#include "ps/proto/limits.h"
#include "ps/server/shard_host.h"

namespace ps::server {
namespace {

/// Options of the first shard, and how many there are.
struct ServerOptions {
  ShardHost::Options shard;
  uint32_t shard_count = 1;
};

Result<ServerOptions> ReadOptions(const Flags& flags) {
  ServerOptions options;
  PS_ASSIGN(const std::string address, flags.Text("coordinator"));
  PS_ASSIGN(const HostPort coordinator, ParseHostPort(address));
  options.shard.coordinator_host = coordinator.host;
  options.shard.coordinator_port = coordinator.port;
  PS_ASSIGN(const std::string token_file, flags.Text("token-file"));
  PS_ASSIGN(options.shard.token, ReadSmallFile(token_file, proto::kNameBytesMax));
  PS_ASSIGN(const uint64_t id, flags.Number("id", 0, proto::kShardsMax - 1));
  PS_ASSIGN(const uint64_t count, flags.Number("shards", 1, proto::kShardsMax));
  options.shard_count = static_cast<uint32_t>(count);
  options.shard.shard = ShardId(static_cast<uint32_t>(id * count));
  if (flags.Has("port")) {
    PS_ASSIGN(const uint64_t port, flags.Number("port", 0, proto::kPortMax + 1 - count));
    options.shard.port = static_cast<uint32_t>(port);
  }
  options.shard.listen_host = flags.TextOr("listen", "127.0.0.1");
  options.shard.advertised_host = flags.TextOr("advertise", options.shard.listen_host);
  if (options.shard.advertised_host == "0.0.0.0" || options.shard.advertised_host == "::") {
    return Status::InvalidArgument(
        "--listen " + options.shard.listen_host +
        " is every address of this machine and none that workers can connect to; say --advertise "
        "with the one that they reach");
  }
  if (flags.Has("emulate-link-bytes-per-s")) {
    PS_ASSIGN(const uint64_t rate, flags.Number("emulate-link-bytes-per-s", 1, uint64_t{1} << 50));
    // Each shard has an endpoint of its own and its share of the link.
    options.shard.emulation.link_bytes_per_s =
        static_cast<double>(rate) / static_cast<double>(count);
  }
  options.shard.pid = ::getpid();
  return options;
}

/// Runs every shard on a thread of its own until all have ended; the first failure ends them all.
Status RunShards(const ServerOptions& options, LogSink* sink) {
  std::vector<std::unique_ptr<ShardHost>> hosts;
  for (uint32_t i = 0; i < options.shard_count; ++i) {
    ShardHost::Options shard = options.shard;
    shard.shard = ShardId(options.shard.shard.value + i);
    shard.port += options.shard.port == 0 ? 0 : i;
    hosts.push_back(std::make_unique<ShardHost>(std::move(shard), sink));
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
  const Result<Flags> flags = Flags::Parse(
      argc,
      argv,
      {"coordinator",
       "token-file",
       "id",
       "shards",
       "listen",
       "advertise",
       "port",
       "log-file",
       "emulate-link-bytes-per-s"});
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
