#include "psctl/run_checkpoints.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "checkpoint/reader.h"
#include "checkpoint/rocksdb_storage.h"
#include "checkpoint/shard_store.h"
#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "ps/coordinator/job_disk.h"
#include "ps/proto/job_config.h"
#include "ps/proto/shard_state.h"

namespace ps::psctl {
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

Result<RunCheckpoints> Lock(const std::string& path) {
  RunCheckpoints checkpoints;
  checkpoints.storage = checkpoint::MakeRocksDbStorage();
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
  for (const checkpoint::CheckpointId id : ids) {
    checkpoints.kept.push_back(KeptOf(id, checkpoints.store.get()));
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
  PS_ASSIGN(RunCheckpoints checkpoints, Lock(path));
  if (!checkpoints.kept.empty()) {
    return Status::InvalidArgument(fmt::format(
        "{} has checkpoints already, the newest is {}; go on from it with psctl resume {}, or "
        "choose "
        "another place with --set checkpoint.path=DIR",
        path,
        checkpoints.kept.back().checkpoint,
        path));
  }
  return checkpoints;
}

Result<RunCheckpoints> ReopenCheckpoints(const std::string& path) {
  return Lock(path);
}

Result<FoundCheckpoint> FindNewestCheckpoint(const std::string& path) {
  if (!IsCheckpointPath(path)) {
    return Status::NotFound(fmt::format(
        "{} has no checkpoints; give a run, or the folder that checkpoint.path named", path));
  }
  FoundCheckpoint found;
  PS_ASSIGN(found.checkpoints, Lock(path));
  std::vector<proto::KeptCheckpoint>& kept = found.checkpoints.kept;
  if (kept.empty()) {
    return Status::NotFound(fmt::format(
        "{} has no checkpoint yet: the run ended before the first one was committed", path));
  }
  PS_ASSIGN(
      const std::unique_ptr<checkpoint::Reader> reader,
      checkpoint::Reader::Open(*found.checkpoints.storage, path));
  for (; !kept.empty(); kept.pop_back()) {
    const uint64_t id = kept.back().checkpoint;
    Status status = Status::Ok();
    if (const std::vector<checkpoint::Damage> damage = reader->Verify(id); !damage.empty()) {
      status = damage.front().status;
      status = std::move(status).Annotate(damage.front().what);
    } else {
      PS_ASSIGN(found.manifest, reader->ReadManifest(id));
      Result<proto::JobState> state = proto::DecodeJobState(found.manifest.job_state);
      status = state.status();
      if (state.ok()) {
        found.state = std::move(state).value();
        PS_ASSIGN(
            found.steps_repeated,
            StepsRepeated(*found.checkpoints.storage, path, found.manifest, found.state));
        return found;
      }
    }
    found.skipped.push_back(fmt::format("checkpoint {}: {}", id, std::string(status.message())));
    PS_TRY(found.checkpoints.store->DeleteManifest(id));
  }
  std::string all;
  for (const std::string& skipped : found.skipped) {
    all += "\n  " + skipped;
  }
  return Status::NotFound(fmt::format("no checkpoint in {} is whole:{}", path, all));
}

}  // namespace ps::psctl
