#include "ps/server/life_start.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <span>
#include <utility>

namespace ps::server {
namespace {

/// What keeps a checkpoint from being read may pass for this long.
constexpr Duration kRestorePatience = std::chrono::minutes(5);

}  // namespace

LifeStart::LifeStart(
    const Life& life,
    ChunkStore& store,
    Rounds& rounds,
    LrSchedule& schedule,
    CoordinatorLink& coordinator,
    ShardDisk* disk,
    const Logger& log)
    : life_(life),
      store_(store),
      rounds_(rounds),
      schedule_(schedule),
      coordinator_(coordinator),
      disk_(disk),
      log_(log) {}

void LifeStart::Open(HeldPart held) {
  open_ = Opened();
  open_->held = std::move(held);
}

bool LifeStart::Ask(const Call& call, const proto::ShardSetup& setup) {
  open_->ready.request_id = call.request_id;
  open_->ready.setup = setup;
  const bool is_first = !std::exchange(open_->has_begun, true);
  if (store_.size() == 0) {
    return true;
  }
  if (setup.restore.checkpoint != 0) {
    if (is_first) {
      BeginRestore();
    }
    return false;
  }
  if (!setup.has_values) {
    open_->ready.refs.resize(store_.size());
    return true;
  }
  if (is_first) {
    std::vector<proto::ChunkAssignment> own;
    std::ranges::copy_if(
        setup.placement.chunks, std::back_inserter(own), [this](const proto::ChunkAssignment& c) {
          return c.shard == life_.shard;
        });
    open_->values = {std::move(own), life_.settings.frame_bytes};
  }
  AskForValues(call.now, call.out);
  return false;
}

/// What did not come yet is asked for. An answer that is still on its way ends with the new
/// question.
void LifeStart::AskForValues(TimePoint now, proto::Outbox* out) {
  open_->next_ask = now + life_.settings.timing.lease;
  proto::PullRequest pull;
  pull.held = open_->values.Held();
  coordinator_.Ask(std::move(pull), out);
}

bool LifeStart::OnValues(const Call& call, const proto::PullReply& reply) {
  if (!open_ || !open_->ready.setup.has_values) {
    return false;  // a part that came twice
  }
  const Result<bool> is_new = open_->values.Take(
      reply, [this](size_t index, uint32_t begin, std::span<const float> values) {
        store_.Initialize(index, begin, values);
        return Status::Ok();
      });
  if (!is_new.ok()) {
    call.Refuse(is_new.status());
    return false;
  }
  open_->next_ask = call.now + life_.settings.timing.lease;
  open_->ready.refs.resize(store_.size());
  return open_->values.is_complete();
}

void LifeStart::OnTick(TimePoint now, proto::Outbox* out) {
  if (open_ && open_->ready.setup.has_values && coordinator_.is_registered() &&
      now >= open_->next_ask) {
    AskForValues(now, out);
  }
}

LifeStart::Ready LifeStart::Take() {
  Ready ready = std::move(open_->ready);
  open_.reset();
  return ready;
}

void LifeStart::BeginRestore() {
  const proto::ShardSetup& setup = open_->ready.setup;
  RestoreRequest request;
  request.life = setup.life;
  request.checkpoint = setup.restore.checkpoint;
  request.shards = setup.restore.shards;
  for (const Chunk& chunk : store_.chunks()) {
    if (!open_->held.chunks.contains(chunk.key)) {
      request.keys.push_back(chunk.key);
    }
  }
  log_.Info(
      "restore_begins",
      {{"checkpoint", request.checkpoint},
       {"chunks", store_.size()},
       {"chunks_read", request.keys.size()}});
  disk_->Restore(std::move(request));
}

bool LifeStart::OnRestored(Restored restored, TimePoint now, proto::Outbox* out) {
  if (!IsOpen(restored.life)) {
    return false;  // a newer life is wanted by now
  }
  if (!restored.not_writable.ok()) {
    log_.Warning(
        "store_is_not_writable",
        {{"why", restored.not_writable},
         {"remedy", "make room on the disk; until then no checkpoint can be written"}});
  }
  Status status = restored.what.status();
  if (status.ok()) {
    status = TakeRestored(std::move(restored.what).value());
  }
  if (status.ok()) {
    return true;
  }
  log_.Error("restore_failed", {{"checkpoint", restored.checkpoint}, {"why", status}});
  const uint64_t request_id = open_->ready.request_id;
  open_.reset();
  if (!coordinator_.is_connected()) {
    return false;
  }
  if (IsDamage(status)) {
    proto::RestoreFailed failed{life_.shard, restored.life, restored.checkpoint, status.code(), {}};
    failed.message = std::string(status.message());
    coordinator_.Tell(std::move(failed), out, request_id);
  } else {
    const Call call{coordinator_.peer(), request_id, now, out, life_.settings.timing.retry_first};
    call.Refuse(AfterPatience(restored, std::move(status), now));
  }
  return false;
}

/// The coordinator asks again while the answer is kUnavailable, and ends the run for any other.
Status LifeStart::AfterPatience(const Restored& restored, Status why, TimePoint now) {
  if (!failing_ || failing_->life != restored.life || failing_->checkpoint != restored.checkpoint) {
    failing_ = Failing{restored.life, restored.checkpoint, now};
  }
  why = std::move(why).Annotate(fmt::format("restore checkpoint {}", restored.checkpoint));
  if (now - failing_->since < kRestorePatience) {
    return Status::Unavailable(fmt::format("{}; it is tried again", why.message()));
  }
  return Status::Io(fmt::format(
      "{}; it was tried again for {:.0f} s. psctl resume goes on once that is mended",
      why.message(),
      Seconds(kRestorePatience)));
}

Status LifeStart::TakeRestored(RestoredPart restored) {
  Ready& ready = open_->ready;
  HeldPart& held = open_->held;
  ready.state = std::move(held.chunks.empty() ? restored.state : held.state);
  if (!ready.state.empty()) {
    PS_ASSIGN(proto::ShardState state, proto::DecodeShardState(ready.state));
    rounds_.Restore(state.round);
    schedule_.Restore(state.samples_done, state.lr_factor);
    ready.members = std::move(state.members);
  }
  auto read = restored.chunks.begin();
  for (size_t i = 0; i < store_.size(); ++i) {
    const auto found = held.chunks.find(store_.chunks()[i].key);
    RestoredPart::Chunk& chunk = found != held.chunks.end() ? found->second : *read++;
    PS_TRY(store_.Restore(i, std::move(chunk.data)));
    ready.refs.push_back(chunk.ref);
  }
  return Status::Ok();
}

}  // namespace ps::server
