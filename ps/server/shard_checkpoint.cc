// Checkpoints: one is begun when the coordinator asks for it, in bsp between two rounds, and a life
// begins from one.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "ps/proto/shard_state.h"
#include "ps/server/shard_core.h"

namespace ps::server {
namespace {

/// What keeps a checkpoint from being read may pass for this long.
constexpr Duration kRestorePatience = std::chrono::minutes(5);

/// A disk that finishes no request for this long is given up, and the checkpoint with it: until
/// then no mode changes, no chunk moves and no server hands over. One that is slow and gets on is
/// not.
constexpr Duration kDiskPatience = std::chrono::minutes(5);

/// What a database may hold in memory, twice over.
constexpr uint64_t kWrittenAtOnceMax = uint64_t{256} << 20;

}  // namespace

void ShardCore::OnCheckpoint(const Call& call, const proto::CheckpointRequest& request) {
  if (!is_set_up_) {
    Refuse(call, Status::Unavailable("this shard is not set up yet"), 0);
    return;
  }
  if (checkpointer_.report().checkpoint == request.checkpoint) {
    SendCheckpointReport(call.out);
    return;
  }
  if (checkpointer_.IsOpen(request.checkpoint) || checkpointer_.IsOvertaken(request.checkpoint)) {
    return;
  }
  if (is_bsp() && (commit_ || round_ < request.round)) {
    due_checkpoint_ = request;
    return;
  }
  BeginCheckpoint(request, call.out);
}

void ShardCore::BeginCheckpoint(const proto::CheckpointRequest& request, proto::Outbox* out) {
  due_checkpoint_.reset();
  if (is_bsp() && round_ != request.round) {
    checkpointer_.Fail(
        request.checkpoint,
        Status::Unavailable(fmt::format(
            "round {} was to be written, and shard {} is at round {}",
            request.round,
            shard_.value,
            round_)));
    SendCheckpointReport(out);
    return;
  }
  proto::ShardState state;
  state.round = round_;
  state.samples_done = samples_done_;
  state.lr_factor = lr_policy_.state();
  if (!is_bsp()) {
    for (const auto& [incarnation, member] : roster_.members()) {
      state.members.push_back({incarnation, member.settled_step(), AppliedOf(member)});
    }
  }
  checkpointer_.Begin(request, proto::EncodeShardState(state), store_);
  if (!checkpointer_.IsOpen(request.checkpoint)) {
    SendCheckpointReport(out);  // it failed at once
  }
}

/// The chunks that have the step under way, be it from a restore that nothing was pushed after.
std::vector<ChunkKey> ShardCore::AppliedOf(const Member& member) const {
  std::vector<ChunkKey> applied;
  if (!member.is_step_under_way()) {
    for (const size_t index : member.restored) {
      applied.push_back(store_.chunks()[index].key);
    }
    return applied;
  }
  for (size_t i = 0; i < store_.size(); ++i) {
    if (member.intake.parts_left[i] == 0) {
      applied.push_back(store_.chunks()[i].key);
    }
  }
  return applied;
}

bool ShardCore::HasStep(Incarnation incarnation, Step step, ChunkKey key) const {
  const auto member = roster_.members().find(incarnation);
  if (member == roster_.members().end() || !HasChunk(key)) {
    return false;
  }
  const Step settled = member->second.settled_step();
  const std::vector<ChunkKey> applied = AppliedOf(member->second);
  return step <= settled ||
         (step == settled + 1 && std::ranges::find(applied, key) != applied.end());
}

/// What the parameters have of the steps of members that are still there.
void ShardCore::TakeRestoredSteps(const std::vector<proto::MemberSteps>& restored) {
  for (const proto::MemberSteps& steps : restored) {
    Member* const member = roster_.Find(steps.incarnation);
    if (member == nullptr || steps.last_step < member->last_step) {
      continue;  // what is counted is later
    }
    member->last_step = steps.last_step;
    member->counted_step = std::max(member->counted_step, steps.last_step);
    for (const ChunkKey key : steps.applied) {
      if (const std::optional<size_t> index = store_.IndexOf(key); index) {
        member->restored.push_back(*index);
      }
    }
  }
}

/// For one request to the disk. A database writes what it holds in memory at once, and is held back
/// by checkpoint.write_mib_per_s.
Duration ShardCore::DiskPatience() const {
  const uint64_t rate = settings_.checkpoints.bytes_per_s;
  return rate == 0
             ? kDiskPatience
             : kDiskPatience +
                   FromSeconds(static_cast<double>(kWrittenAtOnceMax) / static_cast<double>(rate));
}

void ShardCore::SendCheckpointReport(proto::Outbox* out) {
  if (coordinator_ != proto::PeerId()) {
    out->Send(coordinator_, 0, checkpointer_.report());
  }
}

void ShardCore::OnChunkWritten(ChunkWritten written, proto::Outbox* out) {
  if (checkpointer_.OnChunkWritten(store_, std::move(written))) {
    SendCheckpointReport(out);
  }
}

void ShardCore::OnPartWritten(PartWritten written, proto::Outbox* out) {
  if (!written.pruned.ok()) {
    log_->Warning("old_parts_stay", {{"checkpoint", written.checkpoint}, {"why", written.pruned}});
  }
  const std::string usual = checkpoint::ShardDirectory(shard_);
  const bool is_told = written.directory == checkpointer_.report().directory;
  if (written.summary.ok() && written.directory != usual && !is_told) {
    log_->Warning(
        "store_is_damaged",
        {{"checkpoint", written.checkpoint},
         {"kept_aside", usual},
         {"writes_to", written.directory},
         {"remedy", "look at the disk; psctl checkpoint verify --all says what is broken"}});
  }
  if (checkpointer_.OnPartWritten(std::move(written))) {
    SendCheckpointReport(out);
  }
}

/// Everything but the settings and the connections is of the life that ends.
void ShardCore::EndLife() {
  for (auto& [incarnation, member] : roster_.members()) {
    EndAnswer(&member);
  }
  is_set_up_ = false;
  checkpointer_.BeginLife(0, 0, ChunkRefs());
  roster_ = Roster();
  staging_ = Staging();
  commit_.reset();
  model_pull_.reset();
  model_answer_.reset();
  open_setup_.reset();
  due_checkpoint_.reset();
  giving_.reset();
  taking_.reset();
  is_frozen_.clear();
  given_version_ = 0;
  taken_version_ = 0;
  mode_ = proto::ModeChoice();
  round_ = 0;
  round_since_ = {};
  answers_may_wait_ = {};
  samples_done_ = 0;
  lr_policy_.Restore(0);
}

void ShardCore::BeginRestore(const proto::ShardSetup& setup) {
  RestoreRequest request;
  request.life = setup.life;
  request.checkpoint = setup.restore.checkpoint;
  request.shards = setup.restore.shards;
  for (const Chunk& chunk : store_.chunks()) {
    if (!open_setup_->held.chunks.contains(chunk.key)) {
      request.keys.push_back(chunk.key);
    }
  }
  log_->Info(
      "restore_begins",
      {{"checkpoint", request.checkpoint},
       {"chunks", store_.size()},
       {"chunks_read", request.keys.size()}});
  disk_->Restore(std::move(request));
}

void ShardCore::OnRestored(Restored restored, TimePoint now, proto::Outbox* out) {
  if (!open_setup_ || is_shut_down_ || restored.life != open_setup_->setup.life) {
    return;  // a newer life is wanted by now
  }
  if (!restored.not_writable.ok()) {
    log_->Warning(
        "store_is_not_writable",
        {{"why", restored.not_writable},
         {"remedy", "make room on the disk; until then no checkpoint can be written"}});
  }
  const Call call{coordinator_, open_setup_->request_id, now, out};
  ChunkRefs refs(store_.size());
  Status status = restored.what.status();
  if (status.ok()) {
    status = TakeRestored(std::move(restored.what).value(), &refs);
  }
  if (status.ok()) {
    FinishSetup(call, std::move(refs));
    return;
  }
  log_->Error("restore_failed", {{"checkpoint", restored.checkpoint}, {"why", status}});
  open_setup_.reset();
  if (coordinator_ == proto::PeerId()) {
    return;
  }
  if (IsDamage(status)) {
    proto::RestoreFailed failed{shard_, restored.life, restored.checkpoint, status.code(), {}};
    failed.message = std::string(status.message());
    out->Send(coordinator_, call.request_id, std::move(failed));
  } else {
    Refuse(call, AfterPatience(restored, std::move(status), now), 0);
  }
}

/// The coordinator asks again while the answer is kUnavailable, and ends the run for any other.
Status ShardCore::AfterPatience(const Restored& restored, Status why, TimePoint now) {
  if (!restoring_ || restoring_->life != restored.life ||
      restoring_->checkpoint != restored.checkpoint) {
    restoring_ = Restoring{restored.life, restored.checkpoint, now};
  }
  why = std::move(why).Annotate(fmt::format("restore checkpoint {}", restored.checkpoint));
  if (now - restoring_->since < kRestorePatience) {
    return Status::Unavailable(fmt::format("{}; it is tried again", why.message()));
  }
  return Status::Io(fmt::format(
      "{}; it was tried again for {:.0f} s. psctl resume goes on once that is mended",
      why.message(),
      Seconds(kRestorePatience)));
}

Status ShardCore::TakeRestored(RestoredPart restored, ChunkRefs* refs) {
  HeldPart& held = open_setup_->held;
  open_setup_->state = std::move(held.chunks.empty() ? restored.state : held.state);
  if (!open_setup_->state.empty()) {
    PS_ASSIGN(proto::ShardState state, proto::DecodeShardState(open_setup_->state));
    round_ = state.round;
    samples_done_ = state.samples_done;
    lr_policy_.Restore(state.lr_factor);
    open_setup_->members = std::move(state.members);
  }
  auto read = restored.chunks.begin();
  for (size_t i = 0; i < store_.size(); ++i) {
    const auto found = held.chunks.find(store_.chunks()[i].key);
    RestoredPart::Chunk& chunk = found != held.chunks.end() ? found->second : *read++;
    PS_TRY(store_.Restore(i, std::move(chunk.data)));
    (*refs)[i] = chunk.ref;
  }
  return Status::Ok();
}

}  // namespace ps::server
