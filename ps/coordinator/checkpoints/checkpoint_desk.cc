#include "ps/coordinator/checkpoints/checkpoint_desk.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string_view>
#include <utility>

#include "checkpoint/storage/failure.h"
#include "ps/proto/job/task.h"

namespace ps::coordinator {
namespace {

/// After so much training a run has a first one: until then a lost server begins anew, and what a
/// resumed run does would be lost with it.
constexpr Duration kFirstMax = std::chrono::seconds(2);

/// The disk may take this long for a manifest, which is small.
constexpr Duration kManifestMax = std::chrono::minutes(5);

/// A change that waits for the end of a checkpoint does so for this long.
constexpr Duration kInTheWayMax = std::chrono::minutes(10);

/// And then it has so much time to begin before the next one is opened.
constexpr Duration kWayMin = std::chrono::minutes(1);

/// The last checkpoint of a run may take this long, whatever the disk is.
constexpr Duration kLastMax = std::chrono::minutes(10);

}  // namespace

CheckpointDesk::CheckpointDesk(Job* job)
    : job_(job),
      disk_(job->options.manifests),
      ask_timer_(job->timing.retry_limit, job->timing.lease),
      set_aside_(job->options.set_aside) {
  // The state has none whose manifest can't be read, unless it knew it. It may be readable one day.
  for (const proto::KeptCheckpoint& found : job->options.checkpoints) {
    if (found.shards == 0 &&
        std::ranges::find(
            job->state.checkpoints.kept, found.checkpoint, &proto::KeptCheckpoint::checkpoint) ==
            job->state.checkpoints.kept.end()) {
      set_aside_.push_back({found.checkpoint, false, "its manifest can't be read"});
    }
  }
}

Duration CheckpointDesk::Every() const {
  return FromSeconds(static_cast<double>(job_->options.config.checkpoint.every_s));
}

void CheckpointDesk::OpenIfDue(const Call& call) {
  if (!is_on() || job_->state.phase != JobPhase::kTraining || !job_->training_began ||
      job_->is_finishing()) {
    return;
  }
  if (!next_due_) {
    const Duration newest_at = job_->state.checkpoints.newest_at;  // a predecessor's, perhaps
    next_due_ = newest_at != Duration::zero() ? job_->started_at + newest_at + Every()
                                              : call.now + std::min(Every(), kFirstMax);
  }
  if (call.now < *next_due_ || !job_->shards.are_all_ready() || job_->state.servers.chunks ||
      job_->state.modes.is_holding || job_->state.pause.checkpoint != 0) {
    return;
  }
  next_due_ = call.now + Every();
  if (open_ || !late_.empty()) {
    const Open& before = open_ ? *open_ : late_.begin()->second;
    ++job_->edit.checkpoints.skipped;
    job_->events.Tell(
        proto::EventCode::kCheckpointSkipped,
        {{"checkpoint", before.checkpoint},
         {"under_way_s", Seconds(call.now - before.since)},
         {"remedy", "raise checkpoint.every_s, or use a faster disk"}});
    return;
  }
  Begin(call);
}

uint64_t CheckpointDesk::OpenNow(const Call& call) {
  // Never of the best epoch's model, which is older than what is counted.
  if (open_ || !late_.empty() || job_->state.phase != JobPhase::kTraining ||
      job_->state.checkpoints.is_best_taken || !job_->training_began ||
      !job_->shards.are_all_ready() || job_->state.servers.chunks ||
      ((job_->is_holding() || job_->is_bsp()) && !job_->is_idle())) {
    return 0;
  }
  next_due_ = call.now + Every();
  Begin(call);
  return open_ ? open_->checkpoint : 0;
}

void CheckpointDesk::OpenSoon(const Call& call) {
  if (OpenNow(call) == 0 && job_->is_bsp() && !open_) {
    next_due_ = std::min(next_due_.value_or(call.now), call.now);
  }
}

uint64_t CheckpointDesk::CheckpointOfNow(const Call& call) {
  const uint64_t steps = job_->state.counters.steps_counted;
  if (open_ || !late_.empty()) {  // which may drop the newest one
    return open_ && open_->steps == steps ? open_->checkpoint : 0;
  }
  const proto::KeptCheckpoint newest = job_->state.checkpoints.newest();
  return newest.checkpoint != 0 && newest.steps == steps ? newest.checkpoint : OpenNow(call);
}

void CheckpointDesk::Begin(const Call& call) {
  proto::CheckpointsState& state = job_->edit.checkpoints;
  Open open;
  open.checkpoint = state.next++;
  open.round = job_->is_bsp() ? job_->rounds.committed() : 0;
  open.steps = job_->state.counters.steps_counted;
  open.samples = job_->ledger.samples_counted();
  open.lives = job_->shards.lives();
  open.since = call.now;
  JobState saved = job_->StateAt(call.now);
  saved.events = {};  // they are the run's, and stay when it goes back
  open.state = proto::EncodeJobState(saved);
  open_ = std::move(open);
  disk_->NoteOpened(open_->checkpoint);
  job_->log->Info("checkpoint_begins", {{"checkpoint", open_->checkpoint}});
  for (const Shard& shard : job_->shards.all()) {
    Ask(shard, call);
  }
  ask_timer_.Start(call.now, &job_->random);
}

void CheckpointDesk::Ask(const Shard& shard, const Call& call) const {
  if (shard.peer == proto::PeerId() || !shard.record->is_ready) {
    return;
  }
  proto::CheckpointRequest request{open_->checkpoint, open_->round, {}};
  for (const proto::KeptCheckpoint& kept : job_->state.checkpoints.kept) {
    request.kept.push_back(kept.checkpoint);
  }
  for (const checkpoint::SetAside& set_aside : set_aside_) {
    request.kept.push_back(set_aside.id);
  }
  call.out->Send(shard.peer, 0, std::move(request));
}

void CheckpointDesk::On(const Call& call, const proto::CheckpointReport& message) {
  const Shard* const shard = job_->shards.FindPeer(call.from);
  if (shard == nullptr || shard->shard != message.shard || !open_ || open_->is_writing ||
      message.checkpoint != open_->checkpoint) {
    return;  // of one that was given up, or a repetition
  }
  if (open_->lives != job_->shards.lives()) {
    GiveUp("a shard was lost meanwhile");  // what it is restored from lacks what counts here
    return;
  }
  if (message.code != StatusCode::kOk) {
    GiveUp(fmt::format("shard {}: {}", message.shard.value, message.message));
    return;
  }
  open_->reports[message.shard] = message;
  if (open_->reports.size() == job_->shards.size()) {
    Commit(call);
  }
}

proto::CheckpointSizes CheckpointDesk::SizesOf(const Open& open) const {
  proto::CheckpointSizes sizes;
  for (const auto& [shard, report] : open.reports) {
    sizes.logical_bytes += report.sizes.logical_bytes;
    sizes.written_bytes += report.sizes.written_bytes;
    sizes.shared_bytes += report.sizes.shared_bytes;
    sizes.chunks_written += report.sizes.chunks_written;
    sizes.chunks_shared += report.sizes.chunks_shared;
    sizes.copied_bytes += report.sizes.copied_bytes;
  }
  return sizes;
}

void CheckpointDesk::Commit(const Call& call) {
  const proto::MeterState& meter = job_->state.meter;
  checkpoint::Manifest manifest;
  manifest.id = open_->checkpoint;
  manifest.software = job_->options.software;
  manifest.config_json = job_->state.config_json;
  manifest.job_state = open_->state;
  manifest.tensors = job_->options.tensors;
  for (const proto::ChunkAssignment& chunk : job_->state.placement.chunks) {
    manifest.chunks.push_back(
        {chunk.key, static_cast<uint64_t>(chunk.element_begin), chunk.element_count, chunk.shard});
  }
  for (const auto& [shard, report] : open_->reports) {
    checkpoint::ManifestPart part;
    part.shard = shard;
    part.directory =
        report.directory.empty() ? fmt::format("shard-{}", shard.value) : report.directory;
    part.summary.bytes = report.part_bytes;
    part.summary.crc = report.part_crc;
    part.summary.stats = {
        report.sizes.logical_bytes,
        report.sizes.written_bytes,
        report.sizes.shared_bytes,
        report.sizes.chunks_written,
        report.sizes.chunks_shared};
    manifest.parts.push_back(std::move(part));
  }
  manifest.progress.epoch = job_->state.epochs_finished;
  manifest.progress.steps = open_->steps;
  manifest.progress.samples = open_->samples;
  manifest.progress.loss = meter.has_step ? meter.loss : std::numeric_limits<double>::quiet_NaN();
  const bool has_share = proto::IsShare(proto::MetricOf(proto::TaskOf(job_->options.config.model)));
  manifest.progress.accuracy =
      has_share ? meter.accuracy : std::numeric_limits<double>::quiet_NaN();
  if (const Status status = checkpoint::CheckManifest(manifest); !status.ok()) {
    GiveUp(std::string(status.message()));
    return;
  }
  ManifestWrite write;
  write.checkpoint = open_->checkpoint;
  write.manifest = std::move(manifest);
  open_->dropped = Droppable();
  for (const checkpoint::SetAside& set_aside : set_aside_) {
    if (set_aside.is_corrupt) {
      open_->dropped.push_back(set_aside.id);
    }
  }
  write.dropped = open_->dropped;
  open_->is_writing = true;
  open_->writing_since = call.now;
  disk_->Commit(std::move(write));
}

/// With one more there are checkpoint.keep of the newest; those of the best epochs, and of epochs
/// that may be among them, stay besides.
std::vector<uint64_t> CheckpointDesk::Droppable() const {
  const proto::CheckpointsState& state = job_->state.checkpoints;
  const auto is_worth_it = [&](uint64_t checkpoint) {
    const auto is_it = [&](const proto::EpochCheckpoint& one) {
      return one.checkpoint == checkpoint;
    };
    return std::ranges::any_of(state.best, is_it) || std::ranges::any_of(state.candidates, is_it);
  };
  const size_t keep = job_->options.config.checkpoint.keep;
  std::vector<uint64_t> dropped;
  for (size_t i = 0; i + keep < state.kept.size() + 1; ++i) {
    if (!is_worth_it(state.kept[i].checkpoint)) {
      dropped.push_back(state.kept[i].checkpoint);
    }
  }
  return dropped;
}

void CheckpointDesk::OnManifestWritten(
    uint64_t checkpoint, const Status& status, const Call& call) {
  if (const auto late = late_.extract(checkpoint); !late.empty()) {
    if (status.ok()) {
      NoteWritten(late.mapped(), call);  // it exists all the same
    }
    return;
  }
  if (!open_ || open_->checkpoint != checkpoint) {
    return;
  }
  if (!status.ok()) {
    open_->is_writing = false;
    GiveUp(std::string(status.message()));
    return;
  }
  NoteWritten(*open_, call);
  open_.reset();
}

/// The disk answers in the order of the requests, so no later one has been written before.
void CheckpointDesk::NoteWritten(const Open& written, const Call& call) {
  proto::CheckpointsState& state = job_->edit.checkpoints;
  const auto shards = static_cast<uint32_t>(written.reports.size());
  state.kept.push_back({written.checkpoint, shards, written.steps, written.samples});
  const auto is_dropped = [&](uint64_t checkpoint) {
    return std::ranges::find(written.dropped, checkpoint) != written.dropped.end();
  };
  std::erase_if(
      state.kept, [&](const proto::KeptCheckpoint& kept) { return is_dropped(kept.checkpoint); });
  std::erase_if(set_aside_, [&](const checkpoint::SetAside& one) { return is_dropped(one.id); });
  ++state.committed;
  state.newest_at = written.since - job_->started_at;
  newest_sizes_ = SizesOf(written);
  trouble_.clear();
  job_->events.Tell(
      proto::EventCode::kCheckpoint,
      {{"checkpoint", written.checkpoint},
       {"seconds", Seconds(call.now - written.since)},
       {"written_bytes", newest_sizes_.written_bytes},
       {"copied_bytes", newest_sizes_.copied_bytes},
       {"chunks_written", newest_sizes_.chunks_written},
       {"chunks_shared", newest_sizes_.chunks_shared}});
}

void CheckpointDesk::GiveUp(const std::string& why) {
  ++job_->edit.checkpoints.failed;
  trouble_ = why;
  job_->events.Tell(
      proto::EventCode::kCheckpointFailed, {{"checkpoint", open_->checkpoint}, {"why", why}});
  if (open_->is_writing) {
    late_[open_->checkpoint] = *std::move(open_);
  }
  open_.reset();
}

bool CheckpointDesk::Cancel(const std::string& why) {
  if ((open_ && open_->is_writing) || !late_.empty()) {
    return false;
  }
  if (open_) {
    GiveUp(why);
  }
  return true;
}

std::optional<proto::KeptCheckpoint> CheckpointDesk::GiveUpKept(
    uint64_t checkpoint, const Status& why) {
  proto::CheckpointsState& state = job_->edit.checkpoints;
  const auto kept = std::ranges::find(state.kept, checkpoint, &proto::KeptCheckpoint::checkpoint);
  if (kept == state.kept.end()) {
    return std::nullopt;
  }
  const proto::KeptCheckpoint given_up = *kept;
  state.newest_at = given_up == state.newest() ? Duration::zero() : state.newest_at;
  state.kept.erase(kept);
  ++state.damaged;
  const std::string text(why.message());
  state.damage = fmt::format("checkpoint {}: {}", checkpoint, text);
  job_->events.Tell(
      proto::EventCode::kCheckpointDamaged, {{"checkpoint", checkpoint}, {"why", text}});
  set_aside_.push_back({checkpoint, checkpoint::IsProvedCorrupt(why), text});
  disk_->NoteSetAside(set_aside_);
  return given_up;
}

void CheckpointDesk::Remember(const CheckpointDesk& before) {
  trouble_ = before.trouble_;
  newest_sizes_ = before.newest_sizes_;
  late_ = before.late_;
  set_aside_ = before.set_aside_;
}

/// The mode, the servers or the places of chunks are to change, and do so between checkpoints.
bool CheckpointDesk::IsChangeWanted() const {
  const proto::ServersState& servers = job_->state.servers;
  return job_->state.modes.wanted != job_->state.modes.in_force || servers.is_spreading ||
         servers.wanted != job_->shards.server_count();
}

/// Once for a change: where something else keeps it from happening, checkpoints are made meanwhile.
void CheckpointDesk::MakeWay(const Call& call) {
  if (!IsChangeWanted()) {
    has_made_way_ = false;
  }
  if (!open_ || has_made_way_ || !IsChangeWanted()) {
    in_the_way_since_.reset();
    return;
  }
  in_the_way_since_ = in_the_way_since_.value_or(call.now);
  if (!open_->is_writing && call.now - *in_the_way_since_ >= kInTheWayMax) {
    has_made_way_ = true;
    next_due_ = call.now + std::max(Every(), kWayMin);
    GiveUp(fmt::format(
        "a change of the mode or of the servers has waited for it for {:.0f} s; a faster disk, or "
        "fewer parameters a server, make checkpoints shorter",
        Seconds(kInTheWayMax)));
  }
}

void CheckpointDesk::OnTick(const Call& call) {
  MakeWay(call);
  if (!job_->is_bsp()) {
    OpenIfDue(call);
  }
  if (open_ && open_->is_writing && call.now - open_->writing_since >= kManifestMax) {
    GiveUp(fmt::format(
        "its manifest was not written within {:.0f} s: look at the disk of checkpoint.path",
        Seconds(kManifestMax)));
  }
  if (open_ && !open_->is_writing && open_->lives != job_->shards.lives()) {
    GiveUp("a shard was lost meanwhile");
  }
  if (!open_ || open_->is_writing || !ask_timer_.IsDue(call.now)) {
    return;
  }
  for (const Shard& shard : job_->shards.all()) {
    if (!open_->reports.contains(shard.shard)) {
      Ask(shard, call);
    }
  }
  ask_timer_.Again(call.now, &job_->random);
}

bool CheckpointDesk::FinishLast(const Call& call) {
  const StatusCode outcome = job_->state.outcome.code();
  const bool is_worth_it = outcome == StatusCode::kOk || outcome == StatusCode::kCancelled;
  if (!is_on() || !job_->training_began || !is_worth_it || job_->state.checkpoints.is_best_taken) {
    return true;
  }
  if (last_deadline_ == TimePoint()) {
    last_deadline_ = call.now + kLastMax;
  }
  const auto& shards = job_->shards.all();
  const bool is_anybody_away = std::any_of(shards.begin(), shards.end(), [&](const Shard& shard) {
    return shard.peer == proto::PeerId() ||
           call.now - shard.last_heard > job_->timing.server_detect;
  });
  if (open_) {
    if (is_anybody_away || call.now >= last_deadline_) {
      GiveUp(is_anybody_away ? "a shard is away" : "it took too long");
    }
    return !open_ && has_tried_last_;
  }
  const bool is_disk_behind = !late_.empty();
  if ((is_disk_behind || (job_->state.servers.chunks && !is_anybody_away)) &&
      call.now < last_deadline_) {
    return false;  // or chunks are on two shards
  }
  const proto::CheckpointsState& state = job_->state.checkpoints;
  const bool is_saved =
      !state.kept.empty() && state.newest().steps == job_->state.counters.steps_counted;
  if (has_tried_last_ || is_saved || is_anybody_away || is_disk_behind ||
      !job_->shards.are_all_ready()) {
    return true;
  }
  std::string_view why_not;
  if (job_->state.servers.chunks) {
    why_not = "parameters were on their way to another server for too long";
  } else if (!job_->rounds.is_empty() || !job_->rounds.is_commit_acknowledged()) {
    why_not = "the run ended in the middle of a round";
  }
  has_tried_last_ = true;
  if (!why_not.empty()) {
    trouble_ = fmt::format("no last checkpoint was written: {}", why_not);
    job_->events.Tell(proto::EventCode::kNoLastCheckpoint, {{"why", trouble_}});
    return true;
  }
  Begin(call);
  return false;
}

proto::CheckpointStatus CheckpointDesk::StatusAt(TimePoint now) const {
  const proto::CheckpointsState& state = job_->state.checkpoints;
  proto::CheckpointStatus status;
  status.is_on = is_on();
  status.newest = state.newest().checkpoint;
  // One that an earlier run has left is as old as this run, whose work it lacks.
  const TimePoint since = state.newest_at != Duration::zero() ? job_->started_at + state.newest_at
                          : state.kept.empty()                ? job_->training_began.value_or(now)
                                                              : job_->started_at;
  status.age_s = std::max(0.0, Seconds(now - since));
  status.open = open_ ? open_->checkpoint : 0;
  status.committed = state.committed;
  status.failed = state.failed;
  status.skipped = state.skipped;
  status.trouble = trouble_;
  status.shards_restored = state.shards_restored;
  status.steps_undone = state.steps_undone;
  status.rollbacks = state.rollbacks;
  status.samples_undone = state.samples_undone;
  status.seconds_undone = state.seconds_undone;
  status.damaged = state.damaged;
  status.damage = state.damage;
  status.sizes = newest_sizes_;
  return status;
}

}  // namespace ps::coordinator
