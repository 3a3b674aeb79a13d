#include "checkpoint/maintenance.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "checkpoint/job_store.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_store.h"

namespace ps::checkpoint {
namespace {

Result<Manifest> ReadManifest(JobStore& job, CheckpointId id) {
  PS_ASSIGN(const std::vector<std::byte> bytes, job.ReadManifest(id));
  return DecodeManifest(id, bytes).Annotate(fmt::format("the manifest of checkpoint {}", id));
}

ChunkImage ImageOf(ChunkKey key, ChunkData& data) {
  ChunkImage image{.key = key, .version = data.version, .value = data.value.floats(), .slots = {}};
  for (size_t i = 0; i < kSlotsMax; ++i) {
    image.slots[i] = data.slots[i].floats();
  }
  return image;
}

/// Copies the parts of one directory, one checkpoint after another.
class PartCopier {
 public:
  static Result<std::unique_ptr<PartCopier>> Open(
      Storage& storage,
      const std::string& source,
      const std::string& target,
      const std::string& directory,
      CheckpointId newest) {
    std::unique_ptr<PartCopier> copier(new PartCopier());
    PS_ASSIGN(copier->source_, ShardStore::Open(storage, source, directory, OpenMode::kRead));
    PS_ASSIGN(copier->target_, ShardStore::Open(storage, target, directory, OpenMode::kWrite));
    PS_TRY(copier->target_->ForgetAbove(newest));  // a copy that was cut off
    return copier;
  }

  /// Notes a checkpoint that both have: what later ones share with it is not written again.
  Status Learn(CheckpointId id) {
    PS_ASSIGN(const PartRecord from, source_->ReadPart(id));
    PS_ASSIGN(const PartRecord to, target_->ReadPart(id));
    if (from.chunks.size() != to.chunks.size()) {
      return Status::InvalidArgument(fmt::format("both have another checkpoint {}", id));
    }
    for (size_t i = 0; i < from.chunks.size(); ++i) {
      if (from.chunks[i].key != to.chunks[i].key || from.chunks[i].crc != to.chunks[i].crc) {
        return Status::InvalidArgument(fmt::format("both have another checkpoint {}", id));
      }
      copies_[from.chunks[i].key] = {.source = from.chunks[i], .target = to.chunks[i]};
    }
    return Status::Ok();
  }

  Result<PartSummary> CopyPart(CheckpointId id) {
    PS_ASSIGN(PartRecord part, source_->ReadPart(id));
    for (ChunkRef& ref : part.chunks) {
      const auto known = copies_.find(ref.key);
      if (known == copies_.end() || known->second.source != ref) {
        PS_ASSIGN(ChunkData data, source_->ReadChunk(ref));
        const ChunkRef* previous = known == copies_.end() ? nullptr : &known->second.target;
        PS_ASSIGN(
            const ChunkRef copy,
            target_->PutChunk(id, ImageOf(ref.key, data), previous, ChunkFormat()));
        copies_[ref.key] = {.source = ref, .target = copy};
      }
      ref = copies_[ref.key].target;
    }
    return target_->CommitPart(id, part);
  }

 private:
  /// The newest record of a chunk, here and there.
  struct Pair {
    ChunkRef source;
    ChunkRef target;
  };

  PartCopier() = default;

  std::unique_ptr<ShardStore> source_;
  std::unique_ptr<ShardStore> target_;
  std::map<ChunkKey, Pair> copies_;
};

}  // namespace

Result<PruneReport> Prune(
    Storage& storage, const std::string& path, size_t keep, CheckpointId spared) {
  // Opening for writing would create what is not there.
  PS_TRY(JobStore::Open(storage, path, OpenMode::kRead).status());
  PS_ASSIGN(const auto job, JobStore::Open(storage, path, OpenMode::kWrite));
  PruneReport report;
  PS_ASSIGN(const std::vector<CheckpointId> all, job->Manifests());
  const size_t older = all.size() - std::min(keep, all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    (i < older && all[i] != spared ? report.removed : report.kept).push_back(all[i]);
  }

  std::set<std::string> needed;
  for (const CheckpointId id : report.kept) {
    PS_ASSIGN(const Manifest manifest, ReadManifest(*job, id));
    for (const ManifestPart& part : manifest.parts) {
      needed.insert(part.directory);
    }
  }
  for (const CheckpointId id : report.removed) {
    PS_TRY(job->DeleteManifest(id));
  }
  PS_ASSIGN(const std::vector<std::string> directories, storage.List(path));
  for (const std::string& directory : directories) {
    if (needed.contains(directory)) {
      PS_ASSIGN(const auto store, ShardStore::Open(storage, path, directory, OpenMode::kWrite));
      PS_TRY(store->Retain(report.kept));
    } else if (directory.starts_with("shard-") && !report.kept.empty()) {
      PS_TRY(storage.Remove(path + "/" + directory));
      report.removed_directories.push_back(directory);
    }
  }
  return report;
}

Result<CopyReport> Copy(Storage& storage, const std::string& source, const std::string& target) {
  if (source == target) {
    return Status::InvalidArgument(
        fmt::format("source and target of the copy are the same: {}", source));
  }
  PS_ASSIGN(const auto from, JobStore::Open(storage, source, OpenMode::kRead));
  PS_ASSIGN(const auto to, JobStore::Open(storage, target, OpenMode::kWrite));
  PS_ASSIGN(const std::vector<CheckpointId> ids, from->Manifests());
  CopyReport report;
  PS_ASSIGN(report.present, to->Manifests());
  const CheckpointId newest = report.present.empty() ? 0 : report.present.back();
  std::map<std::string, std::unique_ptr<PartCopier>> copiers;
  const auto copier_of = [&](const std::string& directory) -> Result<PartCopier*> {
    std::unique_ptr<PartCopier>& copier = copiers[directory];
    if (copier == nullptr) {
      PS_ASSIGN(copier, PartCopier::Open(storage, source, target, directory, newest));
    }
    return copier.get();
  };
  for (const CheckpointId id : ids) {
    if (id < newest) {
      continue;
    }
    PS_ASSIGN(Manifest manifest, ReadManifest(*from, id));
    for (ManifestPart& part : manifest.parts) {
      PS_ASSIGN(PartCopier* const copier, copier_of(part.directory));
      if (id == newest) {
        PS_TRY(copier->Learn(id));
        continue;
      }
      PS_ASSIGN(part.summary, copier->CopyPart(id));
      report.written_bytes += part.summary.stats.written_bytes;
    }
    if (id > newest) {
      PS_TRY(to->PutManifest(id, EncodeManifest(manifest)));
      report.copied.push_back(id);
    }
  }
  return report;
}

}  // namespace ps::checkpoint
