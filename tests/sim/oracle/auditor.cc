#include "tests/sim/oracle/auditor.h"

#include <algorithm>
#include <memory>

#include "checkpoint/job_store.h"
#include "checkpoint/shard_store.h"
#include "tests/sim/scenario.h"

namespace ps::sim {

using checkpoint::JobStore;
using checkpoint::OpenMode;
using checkpoint::ShardStore;

namespace {

/// Slots may be as bf16 has them: a life that begins from the disk has them so. Where all that was
/// gathered for a momentum is gone with a life, the record of the life before still has it.
bool IsSame(const checkpoint::ChunkData& data, const ChunkState& expected) {
  const auto is_same = [&](const ChunkState& state) {
    const bool is_gathered_gone =
        state.every == 0 && std::ranges::all_of(state.slots[1], [](float x) { return x == 0; });
    return std::ranges::equal(data.value.floats(), state.value) &&
           std::ranges::equal(data.slots[0].floats(), state.slots[0]) &&
           (is_gathered_gone || std::ranges::equal(data.slots[1].floats(), state.slots[1]));
  };
  return is_same(expected) || is_same(OptimizerModel::Rounded(expected));
}

}  // namespace

/// They stay open: decoders are large.
Result<ShardStore*> Auditor::StoreIn(const std::string& directory) {
  std::unique_ptr<ShardStore>& store = stores_[directory];
  if (store == nullptr) {
    PS_ASSIGN(store, ShardStore::Open(*storage_, kCheckpointPath, directory, OpenMode::kRead));
  }
  return store.get();
}

Status Auditor::Check(const checkpoint::Manifest& manifest, const checkpoint::ManifestPart& part) {
  PS_ASSIGN(ShardStore* const store, StoreIn(part.directory));
  PS_ASSIGN(const uint32_t crc, store->PartCrc(manifest.id));
  if (crc != part.summary.crc) {
    return Status::Corruption("its record is not the one that the manifest names");
  }
  PS_ASSIGN(const checkpoint::PartRecord record, store->ReadPart(manifest.id));
  for (const checkpoint::ChunkRef& ref : record.chunks) {
    PS_ASSIGN(const checkpoint::ChunkData data, store->ReadChunk(ref));
    const ChunkState* const expected = oracle_->StateAt(manifest.id, part.shard, ref.key);
    if (expected == nullptr || !IsSame(data, *expected)) {
      violations_->push_back(
          "checkpoint " + std::to_string(manifest.id) + " has chunk " +
          std::to_string(ref.key.value) + " not as the shard had it");
    }
  }
  return Status::Ok();
}

bool Auditor::IsDamaged(const std::string& name) const {
  return damaged_.contains(std::string(kCheckpointPath) + "/" + name);
}

void Auditor::OnManifest(const checkpoint::Manifest& manifest) {
  const auto job = proto::DecodeJobState(manifest.job_state);
  if (!job.ok()) {
    violations_->push_back("the job in a checkpoint: " + job.status().ToString());
    return;
  }
  oracle_->OnManifest(manifest, *job);
  for (const checkpoint::ManifestPart& part : manifest.parts) {
    const Status status = Check(manifest, part);
    if (!status.ok() && !IsDamaged(part.directory)) {
      violations_->push_back(
          "checkpoint " + std::to_string(manifest.id) + " can't be restored: " + part.directory +
          ": " + status.ToString());
    }
  }
}

void Auditor::CheckParts(ShardId shard) {
  const auto store = JobStore::Open(*storage_, kCheckpointPath, OpenMode::kRead);
  if (!store.ok()) {
    return;  // there are no checkpoints yet
  }
  const auto ids = (*store)->Manifests();
  PS_CHECK(ids.ok()) << ids.status();
  for (const checkpoint::CheckpointId id : *ids) {
    const auto bytes = (*store)->ReadManifest(id);
    const auto manifest = bytes.ok() ? checkpoint::DecodeManifest(id, *bytes)
                                     : Result<checkpoint::Manifest>(bytes.status());
    if (!manifest.ok() && IsDamaged("job")) {
      continue;
    }
    PS_CHECK(manifest.ok()) << manifest.status();
    // One with a damaged part is given up, and then nobody keeps the others. Its manifest stays
    // when the disk was full.
    if (std::ranges::any_of(manifest->parts, [this](const checkpoint::ManifestPart& part) {
          return IsDamaged(part.directory);
        })) {
      continue;
    }
    for (const checkpoint::ManifestPart& part : manifest->parts) {
      const Status status = part.shard == shard ? Check(*manifest, part) : Status::Ok();
      if (!status.ok()) {
        violations_->push_back(
            "checkpoint " + std::to_string(id) +
            " exists and can't be restored any more: " + part.directory + ": " + status.ToString());
      }
    }
  }
}

}  // namespace ps::sim
