#include "ps/server/checkpoints/checkpointer.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

namespace ps::server {
namespace {

/// Copies that may be on their way to the disk: enough to keep it busy, little enough for one
/// event.
constexpr uint64_t kOutBytesMax = uint64_t{8} << 20;

}  // namespace

void Checkpointer::BeginLife(
    uint64_t life, checkpoint::CheckpointId from, ChunkRefs refs, std::vector<std::byte> state) {
  life_ = life;
  newest_part_ = from;
  has_disk_failed_ = false;
  newest_state_ = std::move(state);
  refs_ = std::move(refs);
  held_.assign(refs_.size(), {from != 0, false});
  open_.reset();
  snapshot_.reset();
  out_.clear();
  report_ = proto::CheckpointReport();
}

HeldPart Checkpointer::TakeHeld(checkpoint::CheckpointId checkpoint, ChunkStore* store) {
  HeldPart part;
  if (checkpoint == 0 || checkpoint != newest_part_) {
    return part;
  }
  for (size_t i = 0; i < held_.size(); ++i) {
    if (held_[i].by_newest) {
      part.chunks[store->chunks()[i].key] = {store->Take(i), refs_[i]};
    }
  }
  if (!part.chunks.empty()) {
    part.state = newest_state_;  // of a shard without chunks it says nothing of the job's progress
  }
  return part;
}

void Checkpointer::Reindex(const Reindexing& chunks) {
  if (open_) {
    Fail(open_->checkpoint, Status::Unavailable("chunks have moved meanwhile"));
  }
  first_write_ = newest_write_ + 1;
  ChunkRefs refs;
  std::vector<Held> held;
  for (const std::optional<Reindexing::Earlier>& earlier : chunks.earlier()) {
    refs.push_back(earlier ? refs_[earlier->index] : std::nullopt);
    held.push_back(earlier ? held_[earlier->index] : Held());
  }
  refs_ = std::move(refs);
  held_ = std::move(held);
}

void Checkpointer::Fail(uint64_t checkpoint, const Status& why) {
  open_.reset();
  snapshot_.reset();
  out_.clear();
  report_ = proto::CheckpointReport();
  report_.shard = shard_;
  report_.checkpoint = checkpoint;
  report_.code = why.code();
  report_.message = std::string(why.message());
}

bool Checkpointer::GiveUpIfStalled(TimePoint now, Duration pause, Duration patience) {
  if (!open_) {
    progress_at_.reset();
    return false;
  }
  if (!progress_at_ || answers_ != answers_seen_) {
    progress_at_ = now;
    answers_seen_ = answers_;
    return false;
  }
  *progress_at_ += pause;
  if (now - *progress_at_ < patience) {
    return false;
  }
  stalled_ = open_->checkpoint;
  Fail(
      open_->checkpoint,
      Status::DeadlineExceeded(fmt::format(
          "the disk has finished nothing for {:.0f} s; look at the disk of checkpoint.path on this "
          "machine",
          Seconds(now - *progress_at_))));
  return true;
}

void Checkpointer::ReleaseGivenUp(const proto::CheckpointRequest& request) {
  const uint64_t newest_kept = request.kept.empty() ? 0 : std::ranges::max(request.kept);
  const bool has_part = newest_part_ > newest_kept;
  if (!has_part && !has_disk_failed_) {
    return;
  }
  has_disk_failed_ = false;
  for (size_t i = 0; i < refs_.size(); ++i) {
    if (refs_[i] && refs_[i]->written > newest_kept) {
      refs_[i].reset();
    }
    held_[i].by_newest = held_[i].by_newest && !has_part;
  }
  newest_part_ = std::min(newest_part_, newest_kept);
  first_write_ = request.checkpoint;  // answers about earlier ones name what goes now
  disk_->Release({request.checkpoint, request.kept});
}

/// A disk that failed may have lost what was not committed: it is written again.
void Checkpointer::FailBy(uint64_t checkpoint, const Status& why) {
  if (why.code() == StatusCode::kStale) {
    for (std::optional<checkpoint::ChunkRef>& ref : refs_) {
      if (ref && ref->written > newest_part_) {
        ref.reset();
      }
    }
  }
  has_disk_failed_ = true;
  Fail(checkpoint, why);
}

void Checkpointer::Begin(
    const proto::CheckpointRequest& request,
    std::vector<std::byte> state,
    const ChunkStore& store) {
  if (disk_ == nullptr) {
    Fail(request.checkpoint, Status::Unsupported("this shard has no disk for checkpoints"));
    return;
  }
  if (stalled_) {
    Fail(
        request.checkpoint,
        Status::Unavailable(fmt::format(
            "the disk has not answered since checkpoint {} was given up; look at the disk of "
            "checkpoint.path on this machine",
            *stalled_)));
    return;
  }
  out_.clear();
  progress_at_.reset();
  ReleaseGivenUp(request);
  newest_write_ = request.checkpoint;
  open_.emplace();
  open_->life = life_;
  open_->checkpoint = request.checkpoint;
  open_->record.state = std::move(state);
  open_->kept = request.kept;
  for (Held& held : held_) {
    held.by_open = true;
  }
  snapshot_.emplace(store, refs_, kOutBytesMax);
  WriteMore(store);
}

void Checkpointer::WriteMore(const ChunkStore& store) {
  while (std::optional<Snapshot::Image> image = snapshot_->Take(store)) {
    const size_t chunk = image->chunk;
    ChunkWrite write;
    write.life = life_;
    write.checkpoint = open_->checkpoint;
    write.chunk = chunk;
    write.key = store.chunks()[chunk].key;
    write.image = image->data;
    write.previous = refs_[chunk];
    out_[chunk] = *std::move(image);
    disk_->Write(std::move(write));
  }
  if (!snapshot_->is_done()) {
    return;
  }
  copied_bytes_ = snapshot_->copied_bytes_max();
  snapshot_.reset();
  for (const std::optional<checkpoint::ChunkRef>& ref : refs_) {
    open_->record.chunks.push_back(*ref);
  }
  disk_->Commit(*open_);
}

bool Checkpointer::OnChunkWritten(const ChunkStore& store, ChunkWritten written) {
  NoteAnswer();
  if (written.life != life_ || written.checkpoint < first_write_) {
    return false;
  }
  // What was written for a checkpoint that was given up is there all the same. A second record of
  // one version, of a checkpoint that was begun meanwhile, is not: a part that refers to the first
  // may be on its way, and with it the second goes.
  std::optional<checkpoint::ChunkRef>& ref = refs_[written.chunk];
  if (written.ref.ok() && (!ref || ref->version != written.ref->version)) {
    ref = *written.ref;
  }
  if (!IsOpen(written.checkpoint) || !snapshot_) {
    return false;
  }
  if (!written.ref.ok()) {
    FailBy(written.checkpoint, written.ref.status());
    return true;
  }
  const auto out = out_.find(written.chunk);
  snapshot_->Return(out->second);
  out_.erase(out);
  WriteMore(store);
  return false;
}

bool Checkpointer::OnPartWritten(PartWritten written) {
  NoteAnswer();
  if (written.life != life_ || !IsOpen(written.checkpoint)) {
    return false;
  }
  if (!written.summary.ok()) {
    FailBy(written.checkpoint, written.summary.status());
    return true;
  }
  newest_part_ = written.checkpoint;
  has_disk_failed_ = false;
  newest_state_ = std::move(open_->record.state);
  for (Held& held : held_) {
    held.by_newest = held.by_open;
  }
  const checkpoint::PartSummary& summary = *written.summary;
  report_ = proto::CheckpointReport();
  report_.shard = shard_;
  report_.checkpoint = written.checkpoint;
  report_.part_crc = summary.crc;
  report_.sizes.logical_bytes = summary.stats.logical_bytes;
  report_.part_bytes = summary.bytes;
  report_.directory = std::move(written.directory);
  report_.sizes.written_bytes = summary.stats.written_bytes;
  report_.sizes.shared_bytes = summary.stats.shared_bytes;
  report_.sizes.chunks_written = summary.stats.chunks_written;
  report_.sizes.chunks_shared = summary.stats.chunks_shared;
  report_.sizes.copied_bytes = copied_bytes_;
  open_.reset();
  return true;
}

}  // namespace ps::server
