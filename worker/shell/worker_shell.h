#pragma once

#include <csignal>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ps/base/logger.h"
#include "ps/client/worker_core.h"
#include "ps/emulation/emulation.h"
#include "ps/net/endpoint.h"
#include "ps/net/loop.h"
#include "ps/notice/local_sources.h"
#include "ps/notice/notice_flags.h"
#include "worker/shell/connections.h"

namespace ps::worker {

/// A worker's process around client::WorkerCore but for its arithmetic: the loop, the connections,
/// and the sources of revocation notices (SIGTERM, a file that holds the grace seconds, the
/// provider). Who computes derives from it and is the rest of the core's host. Thread: the one that
/// runs the loop, unless a function says otherwise.
class WorkerShell : public client::WorkerHost, public net::EndpointHandler {
 public:
  struct Options {
    std::string coordinator_host;
    uint32_t coordinator_port = 0;
    std::string token;
    std::shared_ptr<const crypto::TlsContext> tls;  // null: the run is not encrypted
    proto::JoinRequest join;
    notice::NoticeOptions notices;
    emulation::Emulation emulation;
    std::function<void(const std::string&)> on_named;  // takes part under this name, as "w3"
    std::string program = "ps_worker";                 // begins what it says on stderr
    std::vector<int> notice_signals = {SIGTERM, SIGINT};
    size_t link_threads = 0;  // that shards' connections have; 0: who computes chooses
  };

  WorkerShell(const WorkerShell&) = delete;
  WorkerShell& operator=(const WorkerShell&) = delete;

 protected:
  WorkerShell(Options options, const Logger* log);
  ~WorkerShell() override;

  /// Until the job is over. OK: the job is done. kRevoked: left on a notice. Else why it can't go
  /// on.
  Status RunLoop();

  net::Loop& loop() { return loop_; }

  client::WorkerCore& core() { return *core_; }

  Connections& connections() { return *connections_; }

  const Logger& log() const { return *log_; }

  const proto::Timing& timing() const { return timing_; }

  /// The connections, as the core sees them.
  proto::Outbox* outbox() { return connections_.get(); }

  /// Shards that are connected from now on have so many threads, unless an option says how many.
  void ChooseLinkThreads(size_t threads);

  /// With each tick of the core.
  virtual void OnTick() {}

  void Name(WorkerId seat);
  void StartTicking(const proto::Timing& timing);
  /// In the log and on stderr.
  void Warn(const char* event, const std::string& text) const;

  // client::WorkerHost.
  void ConnectCoordinator(Incarnation incarnation) final;
  void ConnectShard(const proto::ShardAddress& address, Incarnation incarnation) final;
  void ForgetShard(ShardId shard) final;
  void Exit(const Status& status) final;

  // net::EndpointHandler.
  void OnConnected(proto::PeerId peer, const proto::Hello& hello) final;
  void OnMessage(proto::PeerId peer, uint64_t request_id, proto::Message&& message) override;
  void OnClosed(proto::PeerId peer, const Status& why) final;

 private:
  /// Those of an earlier session: none of its connections reaches the core any more.
  void GiveUpShards();
  /// Attempts without end; says in the log and on stderr when `what` is not reached.
  /// The peer has `role` by its certificate.
  net::RetryPolicy RetryOf(
      std::string_view role, const std::string& what, const std::string& host, uint32_t port) const;
  proto::Hello MakeHello(Incarnation incarnation) const;
  Status WatchForNotices();
  void OnNotice(const notice::ProviderNotice& notice);

  const Options options_;
  const Logger* const log_;
  net::Loop loop_;
  std::unique_ptr<client::WorkerCore> core_;
  std::unique_ptr<Connections> connections_;
  notice::SignalSource signals_;
  std::vector<std::unique_ptr<notice::NoticeWatcher>> watchers_;
  proto::Timing timing_;
  net::TimerId tick_timer_;
  std::string name_;
  // At most one connection to the coordinator and to each shard, made or under way: those of an
  // earlier session are given up before the next begins.
  Connections::Attempt coordinator_connect_;
  std::map<ShardId, Connections::Attempt> shard_connects_;
  proto::PeerId coordinator_;
  std::map<proto::PeerId, std::pair<proto::ShardAddress, Incarnation>> shards_;
  bool is_exiting_ = false;
  Status exit_status_;
};

}  // namespace ps::worker
