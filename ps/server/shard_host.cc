#include "ps/server/shard_host.h"

#include <fmt/core.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <limits>
#include <utility>

#include "ps/crypto/certificates.h"
#include "ps/crypto/worker_token.h"
#include "ps/net/addresses.h"
#include "ps/process/process_end.h"

namespace ps::server {
namespace {

/// A disk that gives no answer holds up the end of the process for so long.
constexpr Duration kDiskEnds = std::chrono::seconds(10);

net::EndpointOptions EndpointOptionsOf(const ShardHost::Options& options) {
  net::EndpointOptions endpoint;
  endpoint.node = fmt::format("s{}", options.shard.value);
  endpoint.token = options.token;
  endpoint.tls = options.tls;
  endpoint.emulated_link = emulation::MakeLink(options.emulation.link_bytes_per_s);
  endpoint.roles = {proto::Role::kWorker, proto::Role::kShard};
  endpoint.seed = static_cast<uint64_t>(options.pid) + options.shard.value;
  return endpoint;
}

}  // namespace

ShardHost::ShardHost(Options options, std::shared_ptr<checkpoint::Storage> storage, LogSink* sink)
    : options_(std::move(options)),
      log_(fmt::format("s{}", options_.shard.value), &SystemTime(), sink, options_.run_start_us),
      endpoint_(&loop_, EndpointOptionsOf(options_), &log_, this),
      disk_(
          std::move(storage),
          options_.shard,
          &loop_,
          {[this](ChunkWritten written) { core_->OnChunkWritten(std::move(written), &endpoint_); },
           [this](PartWritten written) { core_->OnPartWritten(std::move(written), &endpoint_); },
           [this](Restored restored) {
             core_->OnRestored(std::move(restored), SystemTime().Now(), &endpoint_);
             endpoint_.SetQueueBytesMax(core_->outgoing_bytes_max());
           }}) {}

ShardHost::~ShardHost() = default;

Status ShardHost::Run() {
  PS_ASSIGN(const uint32_t port, endpoint_.Listen(options_.listen_host, options_.port));
  core_ = std::make_unique<ShardCore>(
      proto::RegisterShard{
          options_.shard, options_.advertised_host, port, options_.pid, 0, options_.launch},
      &ShardSettings::Read,
      &disk_,
      this,
      &log_);
  log_.Info("listening", {{"host", options_.listen_host}, {"port", port}});
  PS_TRY(loop_.OnSignal({SIGTERM}, [this](int /*signal*/) { OnSigterm(); }));
  ConnectCoordinator();
  Tick();
  loop_.Run();
  if (!disk_.EndWithin(kDiskEnds)) {
    log_.Error("end_without_answer", {{"of", "checkpoint.path"}, {"waited_s", Seconds(kDiskEnds)}});
    EndWithoutCleanup();
  }
  return outcome_;
}

void ShardHost::Stop() {
  loop_.Post([this] { Leave(Status::Cancelled("another shard of this server has ended")); })
      .Ignore("a loop too busy to be told ends with its process");
}

void ShardHost::Notice(Duration grace, const std::string& what) {
  loop_
      .Post([this, grace, what] {
        const TimePoint now = SystemTime().Now();
        core_->OnNotice(now + grace, what, now, &endpoint_);
      })
      .Ignore("a server too busy to be told is lost with its machine, as without a notice");
}

/// Slurm and Kubernetes announce the end by SIGTERM: it is taken as a notice. Exits at once if
/// there is nothing to hand over, or on a second SIGTERM.
void ShardHost::OnSigterm() {
  if (!core_->is_set_up() || std::exchange(is_terminated_, true)) {
    Leave(Status::Cancelled("SIGTERM"));
    return;
  }
  const TimePoint now = SystemTime().Now();
  core_->OnNotice(now + options_.term_grace, "SIGTERM", now, &endpoint_);
  loop_.RunAfter(options_.term_grace, [this] { Leave(Status::Cancelled("SIGTERM")); });
}

void ShardHost::ConnectCoordinator() {
  net::RetryPolicy retry = net::RetryPolicy::FromTiming(
      core_->timing(), std::numeric_limits<uint32_t>::max());  // the core gives up, by time
  retry.peer_roles = {std::string(crypto::kCoordinatorRole)};
  retry.on_trouble = [this](const Status& why) {
    const std::string text = net::UnreachableText(
        "the coordinator", options_.coordinator_host, options_.coordinator_port, why);
    log_.Warning("coordinator_unreachable", {{"why", text}});
    if (options_.says_trouble) {
      std::fprintf(stderr, "ps_server: %s\n", text.c_str());
    }
  };
  endpoint_.Connect(
      options_.coordinator_host,
      options_.coordinator_port,
      {proto::Role::kShard,
       options_.token,
       fmt::format("s{}", options_.shard.value),
       Incarnation(),
       core_->term()},
      [this](const Result<proto::PeerId>& peer) {
        if (!peer.ok()) {
          Leave(Status(peer.status()).Annotate("connect to the coordinator"));
          return;
        }
        coordinator_ = *peer;
        core_->OnCoordinatorConnected(
            *peer, endpoint_.TermOf(*peer), SystemTime().Now(), &endpoint_);
      },
      retry);
}

void ShardHost::Dial(const proto::ShardAddress& to) {
  net::RetryPolicy retry =
      net::RetryPolicy::FromTiming(core_->timing(), std::numeric_limits<uint32_t>::max());
  retry.peer_roles = {std::string(crypto::kServerRole)};
  retry.on_trouble = [this, to](const Status& why) {
    log_.Warning(
        "shard_unreachable",
        {{"why",
          net::UnreachableText(fmt::format("shard {}", to.shard.value), to.host, to.port, why)}});
  };
  endpoint_.CancelConnect(dialled_);
  dialled_ = endpoint_.Connect(
      to.host,
      to.port,
      {proto::Role::kShard,
       options_.token,
       fmt::format("s{}", options_.shard.value),
       Incarnation(),
       core_->term()},
      [this, shard = to.shard](const Result<proto::PeerId>& peer) {
        if (peer.ok()) {
          core_->OnDialed(shard, *peer, SystemTime().Now(), &endpoint_);
        }
      },
      retry);
}

/// The core's ticks, at the pace of the job once that is known.
void ShardHost::Tick() {
  if (tick_ != core_->timing().tick) {
    tick_ = core_->timing().tick;
    loop_.Cancel(tick_timer_);
    tick_timer_ = loop_.RunEvery(tick_, [this] { Tick(); });
  }
  core_->OnTick(SystemTime().Now(), &endpoint_);
  if (core_->is_shut_down()) {
    Leave(core_->outcome());
  }
}

void ShardHost::Leave(const Status& why) {
  if (is_leaving_) {
    return;
  }
  is_leaving_ = true;
  outcome_ = why;
  loop_.Cancel(tick_timer_);
  endpoint_.CloseAll([this] { loop_.Stop(); });
}

void ShardHost::OnConnected(proto::PeerId peer, const proto::Hello& hello) {
  if (const std::optional<WorkerId> seat = crypto::SeatOfToken(hello.token); seat) {
    seats_[peer] = *seat;
  }
  if (hello.role == proto::Role::kShard) {
    shards_.insert(peer);
    log_.Info("shard_connected", {{"node", hello.node}});
    return;
  }
  log_.Info("worker_connected", {{"node", hello.node}, {"incarnation", hello.incarnation.value}});
}

/// Why this peer may not send the message: a worker's token is for its own seat alone, and chunks
/// come from shards. Null: it may.
const char* ShardHost::WhyNotFrom(proto::PeerId peer, const proto::Message& message) const {
  const bool is_move = std::holds_alternative<proto::ChunksOffer>(message) ||
                       std::holds_alternative<proto::ChunkPart>(message);
  if (is_move || shards_.contains(peer)) {
    return is_move && shards_.contains(peer) ? nullptr : "chunks come from shards alone";
  }
  const auto seat = seats_.find(peer);
  if (seat == seats_.end()) {
    return nullptr;
  }
  const auto* const push = std::get_if<proto::PushRequest>(&message);
  const auto* const pull = std::get_if<proto::PullRequest>(&message);
  const bool is_own = (push == nullptr || push->worker == seat->second) &&
                      (pull == nullptr || pull->worker == seat->second);
  return is_own ? nullptr : "this token lets nobody push or pull as another worker";
}

void ShardHost::OnMessage(proto::PeerId peer, uint64_t request_id, proto::Message&& message) {
  if (const char* const why = WhyNotFrom(peer, message); why != nullptr) {
    endpoint_.Send(
        peer, request_id, proto::Refusal{.code = StatusCode::kInvalidArgument, .message = why});
    return;
  }
  const uint64_t outgoing_before = core_->outgoing_bytes_max();
  core_->OnMessage(peer, request_id, std::move(message), SystemTime().Now(), &endpoint_);
  if (core_->is_set_up() && core_->outgoing_bytes_max() != outgoing_before) {
    endpoint_.SetQueueBytesMax(core_->outgoing_bytes_max());
  }
  ContinueLater();
  if (core_->is_shut_down()) {
    Leave(core_->outcome());
  }
}

/// Has the core go on with its work once the loop has looked at sockets and timers.
void ShardHost::ContinueLater() {
  if (!core_->HasWork() || is_continuing_) {
    return;
  }
  is_continuing_ = true;
  loop_.RunAfter(Duration::zero(), [this] {
    is_continuing_ = false;
    core_->Continue(&endpoint_);
    ContinueLater();
  });
}

void ShardHost::OnClosed(proto::PeerId peer, const Status& why) {
  seats_.erase(peer);
  shards_.erase(peer);
  core_->OnPeerClosed(peer, SystemTime().Now(), &endpoint_);
  if (peer == coordinator_ && !is_leaving_) {
    log_.Warning("coordinator_lost", {{"why", why}});
    coordinator_ = proto::PeerId();
    ConnectCoordinator();
  }
}

}  // namespace ps::server
