#include "ps/server/checkpoints/shard_checkpoints.h"

#include <fmt/core.h>

#include <chrono>
#include <string>
#include <utility>

#include "ps/proto/state/shard_state.h"

namespace ps::server {
namespace {

/// A disk that finishes no request for this long is given up, and the checkpoint with it: until
/// then no mode changes, no chunk moves and no server hands over. One that is slow and gets on is
/// not.
constexpr Duration kDiskPatience = std::chrono::minutes(5);

/// What a database may hold in memory, twice over.
constexpr uint64_t kWrittenAtOnceMax = uint64_t{256} << 20;

}  // namespace

ShardCheckpoints::ShardCheckpoints(
    const Life& life,
    ChunkStore& store,
    const Rounds& rounds,
    const LrSchedule& schedule,
    const AppliedSteps& steps,
    const CoordinatorLink& coordinator,
    ShardDisk* disk,
    const Logger& log)
    : life_(life),
      store_(store),
      rounds_(rounds),
      schedule_(schedule),
      steps_(steps),
      coordinator_(coordinator),
      log_(log),
      writer_(life.shard, disk) {}

void ShardCheckpoints::BeginLife(
    checkpoint::CheckpointId from, ChunkRefs refs, std::vector<std::byte> state) {
  writer_.BeginLife(life_.number, from, std::move(refs), std::move(state));
  store_.SetBeforeUpdate([this](size_t chunk) { writer_.BeforeUpdate(store_, chunk); });
}

void ShardCheckpoints::EndLife() {
  writer_.BeginLife(0, 0, ChunkRefs());
  due_.reset();
}

void ShardCheckpoints::OnRequest(const Call& call, const proto::CheckpointRequest& request) {
  if (const Status status = life_.CheckSetUp(); !status.ok()) {
    call.Refuse(status);
    return;
  }
  if (writer_.report().checkpoint == request.checkpoint) {
    SendReport(call.out);
    return;
  }
  if (writer_.IsOpen(request.checkpoint) || writer_.IsOvertaken(request.checkpoint)) {
    return;
  }
  if (rounds_.is_bsp() && (rounds_.is_committing() || rounds_.newest() < request.round)) {
    due_ = request;
    return;
  }
  Begin(request, call.out);
}

void ShardCheckpoints::OnRound(proto::Outbox* out) {
  if (due_ && due_->round <= rounds_.newest()) {
    Begin(*std::exchange(due_, std::nullopt), out);
  }
}

void ShardCheckpoints::Begin(const proto::CheckpointRequest& request, proto::Outbox* out) {
  due_.reset();
  if (rounds_.is_bsp() && rounds_.newest() != request.round) {
    writer_.Fail(
        request.checkpoint,
        Status::Unavailable(fmt::format(
            "round {} was to be written, and shard {} is at round {}",
            request.round,
            life_.shard.value,
            rounds_.newest())));
    SendReport(out);
    return;
  }
  proto::ShardState state;
  state.round = rounds_.newest();
  state.samples_done = schedule_.samples_done();
  state.lr_factor = schedule_.policy().state();
  if (!rounds_.is_bsp()) {
    state.members = steps_.Saved();
  }
  writer_.Begin(request, proto::EncodeShardState(state), store_);
  if (!writer_.IsOpen(request.checkpoint)) {
    SendReport(out);  // it failed at once
  }
}

void ShardCheckpoints::OnTick(TimePoint now, Duration pause, proto::Outbox* out) {
  if (writer_.GiveUpIfStalled(now, pause, Patience())) {
    log_.Warning("checkpoint_stalled", {{"why", writer_.report().message}});
    SendReport(out);
  }
}

/// For one request to the disk. A database writes what it holds in memory at once, and is held back
/// by checkpoint.write_mib_per_s.
Duration ShardCheckpoints::Patience() const {
  const uint64_t rate = life_.settings.checkpoints.bytes_per_s;
  return rate == 0
             ? kDiskPatience
             : kDiskPatience +
                   FromSeconds(static_cast<double>(kWrittenAtOnceMax) / static_cast<double>(rate));
}

void ShardCheckpoints::OnChunkWritten(ChunkWritten written, proto::Outbox* out) {
  if (writer_.OnChunkWritten(store_, std::move(written))) {
    SendReport(out);
  }
}

void ShardCheckpoints::OnPartWritten(PartWritten written, proto::Outbox* out) {
  if (!written.pruned.ok()) {
    log_.Warning("old_parts_stay", {{"checkpoint", written.checkpoint}, {"why", written.pruned}});
  }
  const std::string usual = checkpoint::ShardDirectory(life_.shard);
  const bool is_told = written.directory == writer_.report().directory;
  if (written.summary.ok() && written.directory != usual && !is_told) {
    log_.Warning(
        "store_is_damaged",
        {{"checkpoint", written.checkpoint},
         {"kept_aside", usual},
         {"writes_to", written.directory},
         {"remedy", "look at the disk; psctl checkpoint verify --all says what is broken"}});
  }
  if (writer_.OnPartWritten(std::move(written))) {
    SendReport(out);
  }
}

}  // namespace ps::server
