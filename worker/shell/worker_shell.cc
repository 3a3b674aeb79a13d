#include "worker/shell/worker_shell.h"

#include <fmt/core.h>

#include <cstdio>
#include <limits>

#include "ps/crypto/certificates.h"
#include "ps/net/addresses.h"

namespace ps::worker {
namespace {

/// Until the job's own is known.
constexpr Duration kFirstMaxDetect = std::chrono::seconds(3);
/// The core decides when to give up, the transport does not.
constexpr uint32_t kEndless = std::numeric_limits<uint32_t>::max();

std::string NameOf(WorkerId seat) {
  return fmt::format("w{}", seat.value);
}

}  // namespace

WorkerShell::WorkerShell(Options options, const Logger* log)
    : options_(std::move(options)),
      log_(log),
      signals_(options_.notices.term_grace, &SystemTime()),
      timing_(proto::Timing::FromMaxDetect(kFirstMaxDetect)) {
  name_ = options_.join.has_seat ? NameOf(options_.join.seat) : "worker";
  const auto seed = static_cast<uint64_t>(options_.join.pid);
  core_ = std::make_unique<client::WorkerCore>(
      client::WorkerCore::Options{options_.join, timing_, seed}, this, log);
  net::EndpointOptions endpoint_options;
  endpoint_options.node = name_;
  endpoint_options.token = options_.token;
  endpoint_options.tls = options_.tls;
  endpoint_options.seed = seed;
  endpoint_options.emulated_link = emulation::MakeLink(options_.emulation.link_bytes_per_s);
  connections_ = std::make_unique<Connections>(&loop_, std::move(endpoint_options), log, this);
  connections_->SetThreads(options_.link_threads);
}

WorkerShell::~WorkerShell() = default;

void WorkerShell::ChooseLinkThreads(size_t threads) {
  connections_->SetThreads(options_.link_threads == 0 ? threads : options_.link_threads);
}

Status WorkerShell::RunLoop() {
  PS_TRY(WatchForNotices());
  StartTicking(timing_);
  core_->Start(SystemTime().Now());
  loop_.Run();
  watchers_.clear();
  return exit_status_;
}

void WorkerShell::StartTicking(const proto::Timing& timing) {
  timing_ = timing;
  loop_.Cancel(tick_timer_);
  tick_timer_ = loop_.RunEvery(timing.tick, [this] {
    core_->OnTick(SystemTime().Now(), outbox());
    OnTick();
  });
}

Status WorkerShell::WatchForNotices() {
  PS_TRY(loop_.OnSignal(options_.notice_signals, [this](int signal) {
    signals_.Note(signal);
    if (const auto notice = signals_.Ask(); notice.ok() && *notice) {
      OnNotice(**notice);
    }
  }));
  notice::NoticeWatcher::Callbacks callbacks;
  callbacks.on_notice = [this](const notice::ProviderNotice& notice) {
    loop_.Post([this, notice] { OnNotice(notice); })
        .Ignore("a worker whose mailbox is full is lost with its machine, as without a notice");
  };
  callbacks.on_risk = [this](bool is_at_risk) {
    loop_.Post([this, is_at_risk] { core_->OnRisk(is_at_risk); })
        .Ignore("a worker whose mailbox is full is replaced when its notice comes");
  };
  callbacks.on_ignored = [this](const std::string& what) {
    loop_.Post([this, what] { core_->OnIgnoredNotice(what); }).Ignore("the worker's log has it");
  };
  watchers_ = notice::WatchAll(options_.notices, callbacks, log_);
  return Status::Ok();
}

void WorkerShell::OnNotice(const notice::ProviderNotice& notice) {
  const TimePoint now = SystemTime().Now();
  core_->OnNotice(now + notice.grace, notice.what, now, outbox());
}

proto::Hello WorkerShell::MakeHello(Incarnation incarnation) const {
  return {proto::Role::kWorker, options_.token, name_, incarnation, core_->term()};
}

void WorkerShell::Name(WorkerId seat) {
  name_ = NameOf(seat);
  if (options_.on_named) {
    options_.on_named(name_);
  }
}

void WorkerShell::ConnectCoordinator(Incarnation incarnation) {
  if (incarnation == Incarnation()) {
    GiveUpShards();  // a new session
  }
  connections_->Cancel(coordinator_connect_);
  if (coordinator_ != proto::PeerId()) {
    connections_->Close(coordinator_);
    coordinator_ = proto::PeerId();
  }
  coordinator_connect_ = connections_->ConnectCoordinator(
      options_.coordinator_host,
      options_.coordinator_port,
      MakeHello(incarnation),
      [this](const Result<proto::PeerId>& peer) {
        if (!peer.ok()) {
          Exit(Status(peer.status()).Annotate("connect to the coordinator"));
          return;
        }
        coordinator_ = *peer;
        core_->OnCoordinatorConnected(
            *peer, connections_->TermOf(*peer), SystemTime().Now(), outbox());
      },
      RetryOf(
          crypto::kCoordinatorRole,
          "the coordinator",
          options_.coordinator_host,
          options_.coordinator_port));
}

net::RetryPolicy WorkerShell::RetryOf(
    std::string_view role, const std::string& what, const std::string& host, uint32_t port) const {
  net::RetryPolicy retry = net::RetryPolicy::FromTiming(timing_, kEndless);
  retry.peer_roles = {std::string(role)};
  retry.on_trouble = [this, what, host, port](const Status& why) {
    Warn("unreachable", net::UnreachableText(what, host, port, why));
  };
  return retry;
}

void WorkerShell::GiveUpShards() {
  for (const auto& [shard, connect] : shard_connects_) {
    connections_->Cancel(connect);
  }
  shard_connects_.clear();
  std::erase_if(shards_, [](const auto& entry) { return Connections::IsOnThread(entry.first); });
  for (const auto& [peer, shard] : shards_) {
    connections_->Close(peer);
  }
  connections_->EndThreads();
}

void WorkerShell::ConnectShard(const proto::ShardAddress& address, Incarnation incarnation) {
  // What is told of an earlier connection may come late: it is not to take the place of this one.
  std::erase_if(
      shards_, [&](const auto& entry) { return entry.second.first.shard == address.shard; });
  Connections::Attempt& connect = shard_connects_[address.shard];
  connections_->Cancel(connect);
  connect = connections_->ConnectShard(
      address,
      MakeHello(incarnation),
      [this, address, incarnation](const Result<proto::PeerId>& peer) {
        if (!peer.ok()) {
          Exit(Status(peer.status())
                   .Annotate(fmt::format("connect to shard {}", address.shard.value)));
          return;
        }
        shards_[*peer] = {address, incarnation};
        core_->OnShardConnected(address.shard, *peer, SystemTime().Now(), outbox());
      },
      RetryOf(
          crypto::kServerRole,
          fmt::format("shard {}", address.shard.value),
          address.host,
          address.port));
}

void WorkerShell::ForgetShard(ShardId shard) {
  if (const auto connect = shard_connects_.find(shard); connect != shard_connects_.end()) {
    connections_->Cancel(connect->second);
    shard_connects_.erase(connect);
  }
  std::erase_if(shards_, [&](const auto& entry) { return entry.second.first.shard == shard; });
}

void WorkerShell::Warn(const char* event, const std::string& text) const {
  log_->Warning(event, {{"why", text}});
  std::fprintf(stderr, "%s: %s\n", options_.program.c_str(), text.c_str());
}

void WorkerShell::Exit(const Status& status) {
  if (is_exiting_) {
    return;
  }
  is_exiting_ = true;
  exit_status_ = status;
  // Not from inside the core's call: the endpoint still sends the core's messages.
  loop_.RunAfter({}, [this] { connections_->CloseAll([this] { loop_.Stop(); }); });
}

void WorkerShell::OnConnected(proto::PeerId peer, const proto::Hello& /*hello*/) {
  connections_->Close(peer);  // a worker never listens, so no peer may connect to it
}

void WorkerShell::OnMessage(proto::PeerId peer, uint64_t request_id, proto::Message&& message) {
  core_->OnMessage(peer, request_id, std::move(message), SystemTime().Now(), outbox());
}

void WorkerShell::OnClosed(proto::PeerId peer, const Status& why) {
  core_->OnPeerClosed(peer, SystemTime().Now());
  const bool is_wanted = !is_exiting_ && why.code() != StatusCode::kCancelled;
  if (peer == coordinator_) {
    coordinator_ = proto::PeerId();
    if (!is_exiting_) {
      log_->Warning("coordinator_lost", {{"why", why}});
      ConnectCoordinator(core_->incarnation());
    }
  } else if (const auto it = shards_.find(peer); it != shards_.end()) {
    const auto [address, incarnation] = it->second;
    shards_.erase(it);
    if (is_wanted && incarnation == core_->incarnation()) {
      log_->Warning("shard_lost", {{"shard", address.shard.value}, {"why", why}});
      ConnectShard(address, incarnation);
    }
  }
}

}  // namespace ps::worker
