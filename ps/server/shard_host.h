#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "ps/base/logger.h"
#include "ps/emulation/emulation.h"
#include "ps/net/endpoint.h"
#include "ps/net/loop.h"
#include "ps/server/checkpoints/disk_thread.h"
#include "ps/server/shard_core.h"

namespace ps::server {

/// One shard with its own loop, port and connection to the coordinator; shares nothing with others
/// of the process. Thread: the one that calls Run, but Stop from any.
class ShardHost final : public net::EndpointHandler, public ShardDialer {
 public:
  struct Options {
    ShardId shard;
    std::string coordinator_host;
    uint32_t coordinator_port = 0;
    std::string token;
    std::shared_ptr<const crypto::TlsContext> tls;  // null: the run is not encrypted
    std::string listen_host;
    uint32_t port = 0;            // 0: any free one
    std::string advertised_host;  // where workers reach it
    emulation::Emulation emulation;
    int64_t pid = 0;
    LaunchId launch;                      // none: it was started by hand
    Duration term_grace{};                // what SIGTERM leaves, e.g. Kubernetes' 30 s
    std::optional<int64_t> run_start_us;  // zero of the log, microseconds since 1970 UTC
    bool says_trouble = false;            // on stderr as well, when the coordinator is not reached
  };

  /// `sink` outlives the host.
  ShardHost(Options options, std::shared_ptr<checkpoint::Storage> storage, LogSink* sink);
  ~ShardHost() override;

  /// Serves until the coordinator says Shutdown (OK), the shard can't go on, or Stop. A disk that
  /// hangs is waited for for 10 s; then the process is to end without cleanup (EndWithoutCleanup).
  /// Errors: kUnavailable (no port, coordinator gone), or whatever the coordinator refused with.
  Status Run();
  /// Leaves as soon as possible. Thread: any.
  void Stop();
  /// The machine is taken back: hands over as far as there is time. Thread: any.
  void Notice(Duration grace, const std::string& what);

 private:
  // net::EndpointHandler.
  void OnConnected(proto::PeerId peer, const proto::Hello& hello) override;
  void OnMessage(proto::PeerId peer, uint64_t request_id, proto::Message&& message) override;
  void OnClosed(proto::PeerId peer, const Status& why) override;

  void OnDrained(proto::PeerId peer) override { core_->OnDrained(peer, &endpoint_); }

  // ShardDialer.
  void Dial(const proto::ShardAddress& to) override;

  const char* WhyNotFrom(proto::PeerId peer, const proto::Message& message) const;
  void ConnectCoordinator();
  void Tick();
  void ContinueLater();
  void OnSigterm();
  void Leave(const Status& why);

  const Options options_;
  const Logger log_;
  net::Loop loop_;
  net::Endpoint endpoint_;
  std::unique_ptr<ShardCore> core_;
  DiskThread disk_;  // ends before what it answers to
  proto::PeerId coordinator_;
  std::map<proto::PeerId, WorkerId> seats_;  // of peers whose token is for one
  std::set<proto::PeerId> shards_;           // other ones, that have connected
  net::ConnectId dialled_;                   // the other shard that chunks go to
  net::TimerId tick_timer_;
  Duration tick_{};
  bool is_continuing_ = false;  // ContinueLater's function is on its way
  bool is_terminated_ = false;
  bool is_leaving_ = false;
  Status outcome_;
};

}  // namespace ps::server
