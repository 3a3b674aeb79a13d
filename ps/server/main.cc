// ps_server: one server process of a job, with one or more shards. Started by psctl, a launcher, or
// by hand.

#include <fmt/core.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/storage/rocksdb_storage.h"
#include "ps/base/host_port.h"
#include "ps/net/addresses.h"
#include "ps/net/program.h"
#include "ps/notice/notice_flags.h"
#include "ps/process/process_start.h"
#include "ps/proto/limits.h"
#include "ps/server/shard_host.h"

namespace ps::server {
namespace {

/// Options of the first shard, and how many there are.
struct ServerOptions {
  ShardHost::Options shard;
  uint32_t shard_count = 1;
  notice::NoticeOptions notices;
};

net::ProgramText ServerText() {
  net::ProgramText text = {
      "ps_server",
      "one server process of a spotps job",
      " --id N",
      "Holds a part of the parameters of a job that psctl train coordinates. psctl starts its "
      "servers itself, unless servers.launch is false in the job file: then it says which "
      "commands to run. It ends with the job, or after a notice: SIGTERM, the file of "
      "--notice-file, or the provider's (--notices). Then it hands over to the process that takes "
      "its place.",
      {{"--id", "N", "Number of this server, from 0 to servers.count - 1. Required."},
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
        "by which it reaches the coordinator."}},
      "ps_server --coordinator 10.0.0.1:4711 --token-file token --id 1 --port 4721",
      "0 the job is over or a notice was obeyed, 1 failed, 2 misused."};
  const std::vector<ManualFlag> notices = notice::NoticeFlags();
  text.flags.insert(text.flags.end(), notices.begin(), notices.end());
  return text;
}

/// Fills in where the server listens, and where it says that it does.
Status ReadAddresses(const Flags& flags, ShardHost::Options* shard) {
  shard->listen_host = flags.TextOr("listen", "");
  shard->advertised_host = flags.TextOr("advertise", "");
  if (BindsAll(shard->advertised_host)) {
    return Status::InvalidArgument(fmt::format(
        "--advertise {} is no address that workers can connect to; leave it out, or say the one "
        "that they reach",
        shard->advertised_host));
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

Result<ServerOptions> ReadOptions(const Flags& flags, const net::RunFlags& run) {
  ServerOptions options;
  options.shard.coordinator_host = run.coordinator_host;
  options.shard.coordinator_port = run.coordinator_port;
  options.shard.token = run.token;
  options.shard.tls = run.tls;
  options.shard.run_start_us = run.run_start_us;
  options.shard.pid = ::getpid();
  options.shard.launch = run.launch;
  PS_ASSIGN(const uint64_t id, flags.Number("id", 0, proto::kShardsMax - 1));
  uint64_t count = 1;
  if (flags.Has("shards")) {
    PS_ASSIGN(count, flags.Number("shards", 1, proto::kShardsMax));
  }
  options.shard_count = static_cast<uint32_t>(count);
  options.shard.shard = ShardId(static_cast<uint32_t>(id * count));
  // Each shard has an endpoint of its own and its share of the link.
  options.shard.emulation.link_bytes_per_s = run.link_bytes_per_s / static_cast<double>(count);
  if (flags.Has("port")) {
    PS_ASSIGN(const uint64_t port, flags.Number("port", 0, proto::kPortMax + 1 - count));
    options.shard.port = static_cast<uint32_t>(port);
  }
  PS_ASSIGN(options.notices, notice::ReadNoticeFlags(flags));
  options.shard.term_grace = options.notices.term_grace;
  PS_TRY(ReadAddresses(flags, &options.shard));
  return options;
}

/// Runs every shard on a thread of its own until all have ended; the first failure ends them all.
Status RunShards(const ServerOptions& options, LogSink* sink) {
  const std::shared_ptr<checkpoint::Storage> storage = checkpoint::MakeRocksDbStorage();
  std::vector<std::unique_ptr<ShardHost>> hosts;
  for (uint32_t i = 0; i < options.shard_count; ++i) {
    ShardHost::Options shard = options.shard;
    shard.shard = ShardId(options.shard.shard.value + i);
    shard.port += options.shard.port == 0 ? 0 : i;
    shard.says_trouble = i == 0;  // once for all
    hosts.push_back(std::make_unique<ShardHost>(std::move(shard), storage, sink));
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
  const Logger log(
      fmt::format("s{}", options.shard.shard.value),
      &SystemTime(),
      sink,
      options.shard.run_start_us);
  notice::NoticeWatcher::Callbacks callbacks;
  callbacks.on_notice = [&hosts](const notice::ProviderNotice& notice) {
    hosts.front()->Notice(notice.grace, notice.what);  // speaks for all
  };
  const auto watchers = notice::WatchAll(options.notices, callbacks, &log);
  for (std::thread& thread : threads) {
    thread.join();
  }
  return outcome.code() == StatusCode::kCancelled ? Status::Ok() : outcome;
}

Result<net::ProgramWork> SetUp(const Flags& flags, const net::RunFlags& run) {
  PS_ASSIGN(ServerOptions options, ReadOptions(flags, run));
  return net::ProgramWork(
      [options = std::move(options)](LogSink* sink) { return RunShards(options, sink); });
}

}  // namespace
}  // namespace ps::server

int main(int argc, char** argv) {
  ps::OpenStandardStreams();
  // Ctrl-C on the terminal is for psctl, which tells its servers when to leave.
  std::signal(SIGINT, SIG_IGN);
  return ps::net::RunProgram(argc, argv, ps::server::ServerText(), PS_VERSION, ps::server::SetUp);
}
