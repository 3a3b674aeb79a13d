#include "run/directory/run_checkpoints.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "checkpoint/reader.h"
#include "checkpoint/shard_store.h"
#include "checkpoint/storage/failure.h"
#include "checkpoint/storage/rocksdb_storage.h"
#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "ps/coordinator/checkpoints/job_disk.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/state/shard_state.h"

namespace ps::run {
namespace {

using checkpoint::OpenMode;

/// One whose manifest can't be read is found out when it is asked for.
proto::KeptCheckpoint KeptOf(checkpoint::CheckpointId id, checkpoint::JobStore* store) {
  const Result<std::vector<std::byte>> bytes = store->ReadManifest(id);
  Result<checkpoint::Manifest> manifest = bytes.ok() ? checkpoint::DecodeManifest(id, *bytes)
                                                     : Result<checkpoint::Manifest>(bytes.status());
  return manifest.ok() ? proto::KeptCheckpoint{
                             id,
                             static_cast<uint32_t>(manifest->parts.size()),
                             manifest->progress.steps,
                             manifest->progress.samples}
                       : proto::KeptCheckpoint{id, 0, 0, 0};
}

bool IsSetAside(const RunCheckpoints& checkpoints, checkpoint::CheckpointId id) {
  return std::ranges::find(checkpoints.set_aside, id, &checkpoint::SetAside::id) !=
         checkpoints.set_aside.end();
}

/// Takes the path for a run, with what it may use and what is set aside.
Result<RunCheckpoints> Lock(const std::string& path, std::unique_ptr<checkpoint::Storage> storage) {
  RunCheckpoints checkpoints;
  checkpoints.storage = std::move(storage);
  PS_TRY(CreateDirectories(path).Annotate("checkpoint.path"));
  Result<std::unique_ptr<checkpoint::JobStore>> store =
      checkpoint::JobStore::Open(*checkpoints.storage, path, OpenMode::kWrite);
  if (store.status().code() == StatusCode::kUnavailable) {
    return Status::Unavailable(fmt::format(
        "another run writes its checkpoints to {}; stop it (psctl stop), or choose another place "
        "with --set checkpoint.path=DIR",
        path));
  }
  if (!store.ok()) {
    return std::move(store).status().Annotate("checkpoint.path " + path);
  }
  checkpoints.store = std::move(store).value();
  PS_ASSIGN(const std::vector<checkpoint::CheckpointId> ids, checkpoints.store->Manifests());
  PS_ASSIGN(checkpoints.set_aside, checkpoints.store->ReadSetAside());
  for (const checkpoint::CheckpointId id : ids) {
    if (!IsSetAside(checkpoints, id)) {
      checkpoints.kept.push_back(KeptOf(id, checkpoints.store.get()));
    }
  }
  PS_ASSIGN(
      const std::vector<checkpoint::Row> rows,
      checkpoints.store->ReadRows(coordinator::kNextCheckpointRow));
  checkpoints.next = ids.empty() ? 1 : ids.back() + 1;
  for (const checkpoint::Row& row : rows) {
    const auto* const text = reinterpret_cast<const char*>(row.value.data());
    uint64_t next = 0;
    if (std::from_chars(text, text + row.value.size(), next).ec == std::errc()) {
      checkpoints.next = std::max(checkpoints.next, next);
    }
  }
  return checkpoints;
}

/// Steps that some shard has in its part and that were not counted when the checkpoint was opened.
Result<uint64_t> StepsRepeated(
    checkpoint::Storage& storage,
    const std::string& path,
    const checkpoint::Manifest& manifest,
    const proto::JobState& state) {
  std::map<Incarnation, Step> newest;
  for (const checkpoint::ManifestPart& part : manifest.parts) {
    PS_ASSIGN(
        const std::unique_ptr<checkpoint::ShardStore> store,
        checkpoint::ShardStore::Open(storage, path, part.directory, OpenMode::kRead));
    PS_ASSIGN(const checkpoint::PartRecord record, store->ReadPart(manifest.id));
    PS_ASSIGN(const proto::ShardState shard, proto::DecodeShardState(record.state));
    for (const proto::MemberSteps& member : shard.members) {
      newest[member.incarnation] = std::max(newest[member.incarnation], member.last_step);
    }
  }
  const bool is_staged = state.rounds.committed > 0;  // bsp: a last step may wait for its round
  uint64_t repeated = 0;
  for (const auto& [incarnation, step] : newest) {
    const auto member = state.membership.members.find(incarnation);
    if (!is_staged && member != state.membership.members.end()) {
      repeated += step - std::min(step, member->second.reported);
    }
  }
  return repeated;
}

/// Reads all of a checkpoint into `found`. Errors: why a run can't go on from it.
Status ReadWhole(
    checkpoint::CheckpointId id,
    const std::string& path,
    checkpoint::Reader* reader,
    FoundCheckpoint* found) {
  PS_TRY(reader->ReadWhole(id));
  PS_ASSIGN(found->manifest, reader->ReadManifest(id));
  PS_ASSIGN(found->state, proto::DecodeJobState(found->manifest.job_state));
  PS_ASSIGN(
      found->steps_repeated,
      StepsRepeated(*found->checkpoints.storage, path, found->manifest, found->state));
  return Status::Ok();
}

/// The run uses checkpoint `id` and what is older and was not set aside before.
void SetAsideWhatIsNewer(
    checkpoint::CheckpointId id,
    std::vector<checkpoint::CheckpointId> ids,
    FoundCheckpoint* found) {
  RunCheckpoints& checkpoints = found->checkpoints;
  std::erase_if(
      checkpoints.set_aside, [id](const checkpoint::SetAside& one) { return one.id >= id; });
  std::erase_if(ids, [&](checkpoint::CheckpointId other) {
    return other > id || IsSetAside(checkpoints, other);
  });
  checkpoints.set_aside.insert(
      checkpoints.set_aside.end(), found->skipped.rbegin(), found->skipped.rend());
  checkpoints.kept.clear();
  for (const checkpoint::CheckpointId kept : ids) {
    checkpoints.kept.push_back(KeptOf(kept, checkpoints.store.get()));
  }
}

}  // namespace

std::string CheckpointPathOf(const RunPaths& run) {
  const Result<std::string> text = ReadFile(run.config());
  const Result<proto::JobConfig> config =
      text.ok() ? proto::ParsePrintedJobConfig(*text) : Result<proto::JobConfig>(text.status());
  return config.ok() && !config->checkpoint.path.empty() ? config->checkpoint.path
                                                         : run.checkpoints();
}

bool IsCheckpointPath(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(checkpoint::JobDirectory(path), error);
}

Result<RunCheckpoints> OpenNewCheckpoints(const std::string& path) {
  PS_ASSIGN(RunCheckpoints checkpoints, Lock(path, checkpoint::MakeRocksDbStorage()));
  PS_ASSIGN(const std::vector<checkpoint::CheckpointId> ids, checkpoints.store->Manifests());
  if (!ids.empty()) {
    return Status::InvalidArgument(fmt::format(
        "{} has checkpoints already, the newest is {}; go on from it with psctl resume {}, or "
        "choose another place with --set checkpoint.path=DIR",
        path,
        ids.back(),
        path));
  }
  return checkpoints;
}

Result<RunCheckpoints> ReopenCheckpoints(const std::string& path) {
  return Lock(path, checkpoint::MakeRocksDbStorage());
}

Result<FoundCheckpoint> FindNewestCheckpoint(const std::string& path) {
  return FindNewestCheckpoint(path, checkpoint::MakeRocksDbStorage());
}

Result<FoundCheckpoint> FindNewestCheckpoint(
    const std::string& path, std::unique_ptr<checkpoint::Storage> storage) {
  if (!IsCheckpointPath(path)) {
    return Status::NotFound(fmt::format(
        "{} has no checkpoints; give a run, or the folder that checkpoint.path named", path));
  }
  FoundCheckpoint found;
  PS_ASSIGN(found.checkpoints, Lock(path, std::move(storage)));
  PS_ASSIGN(
      const std::unique_ptr<checkpoint::Reader> reader,
      checkpoint::Reader::Open(*found.checkpoints.storage, path));
  const std::vector<checkpoint::CheckpointId> ids = reader->ids();
  if (ids.empty()) {
    return Status::NotFound(fmt::format(
        "{} has no checkpoint yet: the run ended before the first one was committed", path));
  }
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
    const Status read = ReadWhole(*id, path, reader.get(), &found);
    if (read.ok()) {
      SetAsideWhatIsNewer(*id, ids, &found);
      return found;
    }
    found.skipped.push_back({*id, checkpoint::IsProvedCorrupt(read), std::string(read.message())});
  }
  std::string all;
  for (const checkpoint::SetAside& skipped : found.skipped) {
    all += fmt::format("\n  checkpoint {}: {}", skipped.id, skipped.why);
  }
  const std::string text = fmt::format(
      "no checkpoint in {} can be read now, and none was deleted; put back what is missing and "
      "resume again:{}",
      path,
      all);
  const bool may_pass = !std::ranges::all_of(found.skipped, &checkpoint::SetAside::is_corrupt);
  return may_pass ? Status::Unavailable(text) : Status::NotFound(text);
}

Status NoteSkipped(const FoundCheckpoint& found) {
  return found.checkpoints.store->NoteSetAside(found.checkpoints.set_aside)
      .Annotate("noting which checkpoints were skipped");
}

}  // namespace ps::run
