#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ps/base/logger.h"
#include "ps/client/host_tensors.h"
#include "ps/client/worker_core.h"
#include "ps/emulation/emulation.h"
#include "ps/net/endpoint.h"
#include "ps/net/loop.h"
#include "ps/notice/local_sources.h"
#include "ps/notice/notice_flags.h"
#include "worker/compute_thread.h"
#include "worker/device.h"
#include "worker/link_probe.h"
#include "worker/loader.h"

namespace ps::worker {

/// The worker process around client::WorkerCore: its loop, its connections, its compute thread, and
/// the sources of revocation notices (SIGTERM, a file that holds the grace seconds, the provider).
class WorkerProgram final : public client::WorkerHost, public net::EndpointHandler {
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
    int threads = 0;                                   // 0: what the job says of the seat
    std::string device;                                // empty: likewise
    DeviceOpener open_device;
    Loader::Make make_trainer = Trainer::Make;
    /// Times passes and exchanges, and says at the end what they took, in the log; so many of each
    /// at the beginning do not count.
    std::optional<uint64_t> probe_after;
  };

  WorkerProgram(Options options, const Logger* log);
  ~WorkerProgram() override;

  /// Until the job is over. OK: the job is done. kRevoked: left on a notice. Else why it can't go
  /// on.
  Status Run();

 private:
  // client::WorkerHost.
  Result<std::optional<proto::Timing>> Load(const proto::JoinReply& reply) override;
  std::string LoadingText() const override;
  Result<client::WorkerSettings> Configure(const proto::JoinReply& reply) override;
  void ConnectCoordinator(Incarnation incarnation) override;
  void ConnectShard(const proto::ShardAddress& address, Incarnation incarnation) override;
  void ForgetShard(ShardId shard) override;
  Status Prepare(const client::ChunkLayout& layout, size_t gradients) override;
  Status ChangeEncodings(const client::ChunkLayout& layout, bool has_feedback) override;
  void TakeChunk(const client::PullIntake::Fresh& fresh) override;
  Result<client::GradientLoan> StartCompute(const client::ComputeTask& task) override;
  void EndStepEarly(Step step) override;
  void OnSamplesAhead(const client::SamplesAhead& next) override;
  void Exit(const Status& status) override;

  // net::EndpointHandler.
  void OnConnected(proto::PeerId peer, const proto::Hello& hello) override;
  void OnMessage(proto::PeerId peer, uint64_t request_id, proto::Message&& message) override;
  void OnClosed(proto::PeerId peer, const Status& why) override;

  /// The endpoint, as the core sees it.
  proto::Outbox* outbox() {
    return link_probe_ ? static_cast<proto::Outbox*>(&*link_probe_) : endpoint_.get();
  }

  void TellProbes() const;
  /// Those of an earlier session: none of its connections reaches the core any more.
  void GiveUpShards();
  Status ChooseDevice(const proto::JoinReply& reply);
  void Name(WorkerId seat);
  /// Puts what was loaded for the config in the place of the trainer before it.
  Status TakeTrainer(const proto::JobConfig& config);
  /// Now and then, how far loading is.
  void LogLoading();
  void OnComputeFailed(const Status& why);
  /// In the log and on stderr.
  void Warn(const char* event, const std::string& text) const;
  /// Attempts without end; says in the log and on stderr when `what` is not reached.
  /// The peer has `role` by its certificate.
  net::RetryPolicy RetryOf(
      std::string_view role, const std::string& what, const std::string& host, uint32_t port) const;
  proto::Hello MakeHello(Incarnation incarnation) const;
  void StartTicking(const proto::Timing& timing);
  Status WatchForNotices();
  void OnNotice(const notice::ProviderNotice& notice);
  void OnComputeDone(const client::ComputeTask& task, const client::ComputeResult& result);

  const Options options_;
  const Logger* const log_;
  net::Loop loop_;
  std::unique_ptr<client::WorkerCore> core_;
  std::unique_ptr<net::Endpoint> endpoint_;
  std::optional<LinkProbe> link_probe_;
  std::unique_ptr<ComputeThread> compute_;
  std::unique_ptr<Loader> loader_;
  notice::SignalSource signals_;
  std::vector<std::unique_ptr<notice::NoticeWatcher>> watchers_;
  proto::Timing timing_;
  net::TimerId tick_timer_;
  // What the last JoinReply's config led to. A worker that joins anew has the same.
  std::string config_json_;
  std::string loaded_json_;     // what the loader is at, or has
  std::string data_directory_;  // of that
  TimePoint loading_since_{};
  TimePoint loading_told_{};
  std::optional<proto::DeviceChoice> device_choice_;
  Device device_;
  Trainer* trainer_ = nullptr;  // the compute thread's
  std::optional<client::HostTensors> tensors_;
  std::string name_;
  client::WorkerSettings settings_;
  bool is_encoding_ = false;  // the compute thread, of gradients
  bool has_error_feedback_ = false;
  // At most one connection to the coordinator and to each shard, made or under way: those of an
  // earlier session are given up before the next begins.
  net::ConnectId coordinator_connect_;
  std::map<ShardId, net::ConnectId> shard_connects_;
  proto::PeerId coordinator_;
  std::map<proto::PeerId, std::pair<proto::ShardAddress, Incarnation>> shards_;
  bool is_exiting_ = false;
  Status exit_status_;
};

}  // namespace ps::worker
