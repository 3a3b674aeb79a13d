#include "checkpoint/maintenance.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "checkpoint/job_store.h"
#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "checkpoint/shard_store.h"
#include "checkpoint/storage/failure.h"

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

/// What is to be kept, and why not what is newer.
Result<PruneReport> Judge(
    Storage& storage, const std::string& path, size_t keep, CheckpointId spared) {
  PS_ASSIGN(const std::unique_ptr<Reader> reader, Reader::Open(storage, path));
  PruneReport report;
  Status newest;
  size_t whole = 0;
  for (auto id = reader->ids().rbegin(); id != reader->ids().rend(); ++id) {
    if (whole >= keep && *id != spared) {
      report.removed.push_back(*id);
      continue;
    }
    const Status read = reader->ReadWhole(*id);
    if (read.ok()) {
      report.kept.push_back(*id);
      whole += *id == spared && whole >= keep ? 0 : 1;
      continue;
    }
    const bool is_corrupt = IsProvedCorrupt(read);
    if (is_corrupt) {
      report.removed.push_back(*id);
    }
    (is_corrupt ? report.damaged : report.unread)
        .push_back({*id, is_corrupt, std::string(read.message())});
    if (newest.ok()) {
      newest = Status(read).Annotate(fmt::format("checkpoint {}", *id));
    }
  }
  if (report.kept.empty() && !newest.ok()) {
    return std::move(newest).Annotate("none can be read, so none was removed; the newest");
  }
  std::ranges::sort(report.kept);
  std::ranges::sort(report.removed);
  return report;
}

/// The directories of the shards of all that stay.
struct Needed {
  std::set<std::string> directories;
  bool are_all_known = true;  // no: a manifest can't be read now
};

Result<Needed> NeededBy(const PruneReport& report, JobStore& job) {
  Needed needed;
  const auto add = [&](CheckpointId id) -> Status {
    PS_ASSIGN(const Manifest manifest, ReadManifest(job, id));
    for (const ManifestPart& part : manifest.parts) {
      needed.directories.insert(part.directory);
    }
    return Status::Ok();
  };
  for (const CheckpointId id : report.kept) {
    PS_TRY(add(id));
  }
  for (const SetAside& unread : report.unread) {
    needed.are_all_known = add(unread.id).ok() && needed.are_all_known;
  }
  return needed;
}

/// Frees what nobody has any more. A folder without a database may be the place of a disk that is
/// not there now: opened for writing it would get an empty one.
Result<PruneReport> Tidy(
    Storage& storage, const std::string& path, const Needed& needed, PruneReport report) {
  std::vector<CheckpointId> staying = report.kept;
  for (const SetAside& unread : report.unread) {
    staying.push_back(unread.id);
  }
  std::ranges::sort(staying);
  PS_ASSIGN(const std::vector<std::string> directories, storage.List(path));
  for (const std::string& directory : directories) {
    if (needed.directories.contains(directory)) {
      if (ShardStore::Open(storage, path, directory, OpenMode::kRead).ok()) {
        PS_ASSIGN(const auto store, ShardStore::Open(storage, path, directory, OpenMode::kWrite));
        PS_TRY(store->Retain(staying));
      }
    } else if (directory.starts_with("shard-") && needed.are_all_known && !report.kept.empty()) {
      PS_TRY(storage.Remove(path + "/" + directory));
      report.removed_directories.push_back(directory);
    }
  }
  return report;
}

}  // namespace

Result<PruneReport> Prune(
    Storage& storage, const std::string& path, size_t keep, CheckpointId spared) {
  // Opening for writing would create what is not there.
  PS_TRY(JobStore::Open(storage, path, OpenMode::kRead).status());
  PS_ASSIGN(const auto job, JobStore::Open(storage, path, OpenMode::kWrite));
  PS_ASSIGN(const PruneReport report, Judge(storage, path, keep, spared));
  PS_ASSIGN(const Needed needed, NeededBy(report, *job));
  for (const CheckpointId id : report.removed) {
    PS_TRY(job->DeleteManifest(id));
  }
  return Tidy(storage, path, needed, report);
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
