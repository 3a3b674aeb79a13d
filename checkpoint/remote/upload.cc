// Invariants:
// - An index is written after all pieces that it names, and deleted before any of them.
// - Only pieces that were listed before the indexes were read are deleted, so a piece that is sent
//   meanwhile stays.
// - One process changes a place at a time: writer_mark.h has the rule.
// - A process that was stopped right after its look at the mark can still write one index or delete
//   one piece later. So all pieces are listed once more after an index was written, and again when
//   the next copy begins; a copy that lacks one counts for nothing and is made again.

#include "checkpoint/remote/upload.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>

#include "checkpoint/job_store.h"
#include "checkpoint/remote/copies.h"
#include "checkpoint/remote/links.h"
#include "checkpoint/shard_store.h"
#include "checkpoint/storage/rocksdb_files.h"
#include "checkpoint/storage/rocksdb_storage.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/base/unique_fd.h"

namespace ps::checkpoint {
namespace {

/// The next `size` bytes of an open file. Errors: kIo; kCorruption when it is shorter.
Result<std::span<const std::byte>> ReadPiece(
    int fd, const std::string& path, size_t size, std::vector<std::byte>* buffer) {
  if (buffer->size() < size) {
    buffer->resize(size);
  }
  size_t got = 0;
  while (got < size) {
    const ssize_t count = ::read(fd, buffer->data() + got, size - got);
    if (count < 0) {
      return IoError("cannot read", path);
    }
    if (count == 0) {
      return Status::Corruption(fmt::format("{} became shorter while it was copied", path));
    }
    got += static_cast<size_t>(count);
  }
  return std::span<const std::byte>(*buffer).first(size);
}

}  // namespace

Uploader::Uploader(std::string path, store::ObjectStore* target, UploadOptions options)
    : path_(std::move(path)),
      target_(target),
      options_(std::move(options)),
      mark_(target, options_.writer) {}

Result<UploadReport> Uploader::Run() {
  const std::unique_ptr<Storage> storage = MakeRocksDbStorage();
  UploadReport report;
  PS_ASSIGN(std::vector<Wanted> wanted, FindNew(*storage, &report));
  if (!wanted.empty()) {
    PS_TRY(mark_.Take());
    const Status changed = Change(*storage, std::move(wanted), &report);
    mark_.Leave();
    PS_TRY(changed);
  } else if (mark_.is_taken()) {
    mark_.Leave();  // it could not be left when the copy before failed
  }
  return report;
}

/// What is done while the mark is taken.
Status Uploader::Change(Storage& storage, std::vector<Wanted> wanted, UploadReport* report) {
  PS_ASSIGN(const Links links, Links::Create(path_));
  PS_TRY(LinkDatabases(wanted, links.path()));
  PS_TRY(DropPruned(storage, links.path(), &wanted));
  PS_ASSIGN(const std::vector<CopiedDatabase> databases, DescribeAll(links.path()));
  PS_TRY(Send(databases, links.path(), report));
  std::vector<CopyIndex> written;
  for (const Wanted& checkpoint : wanted) {
    PS_ASSIGN(CopyIndex index, Commit(checkpoint, databases));
    written.push_back(std::move(index));
  }
  PS_TRY(CheckListed(written));
  for (const CopyIndex& index : written) {
    report->copied.push_back(index.id);
    std::erase(report->present, index.id);
  }
  if (options_.keep > 0) {
    PS_ASSIGN(report->removed, PruneCopies(*target_, options_.keep, mark_));
    std::erase_if(report->present, [&](CheckpointId id) {
      return std::binary_search(report->removed.begin(), report->removed.end(), id);
    });
  }
  return Status::Ok();
}

/// A copy counts when the place lists it and all that it names; others are not left there.
Status Uploader::CheckListed(const std::vector<CopyIndex>& written) {
  PS_ASSIGN(const std::vector<CheckpointId> ids, ListCopies(*target_));
  PS_ASSIGN(const PieceSizes pieces, ListPieces(*target_));
  Status checked;
  for (const CopyIndex& index : written) {
    const bool is_listed = std::find(ids.begin(), ids.end(), index.id) != ids.end();
    const size_t missing = CountMissing(index, pieces);
    if (is_listed && missing == 0) {
      continue;
    }
    PS_TRY(mark_.Check());
    PS_TRY(target_->Delete(IndexKey(index.id)));
    checked = is_listed ? Status::Unavailable(fmt::format(
                              "{} does not list {} of checkpoint {} that were sent: another "
                              "process deletes there. Copy again",
                              target_->name(),
                              Plural(missing, "piece"),
                              index.id))
                        : Status::Io(fmt::format(
                              "{} took checkpoint {} and does not list it: nobody would find the "
                              "copy. Copy to a place with a plainer name",
                              target_->name(),
                              index.id));
  }
  return checked;
}

Result<std::vector<Uploader::Wanted>> Uploader::FindNew(Storage& storage, UploadReport* report) {
  PS_ASSIGN(const auto job, JobStore::Open(storage, path_, OpenMode::kRead));
  PS_ASSIGN(std::vector<CheckpointId> here, job->Manifests());
  PS_ASSIGN(const std::vector<SetAside> set_aside, job->ReadSetAside());
  std::erase_if(here, [&](CheckpointId id) {  // it can't be read, and would stop all later ones
    return std::ranges::find(set_aside, id, &SetAside::id) != set_aside.end();
  });
  if (here.empty()) {
    return Status::NotFound(fmt::format("no checkpoint in {} is complete", path_));
  }
  PS_ASSIGN(report->present, ListCopies(*target_));
  const CheckpointId newest_there = report->present.empty() ? 0 : report->present.back();
  std::vector<Wanted> wanted;
  for (const CheckpointId id : here) {
    Wanted checkpoint;
    PS_ASSIGN(checkpoint.bytes, job->ReadManifest(id));
    PS_ASSIGN(
        checkpoint.manifest,
        DecodeManifest(id, checkpoint.bytes)
            .Annotate(fmt::format("the manifest of checkpoint {}", id)));
    if (id == newest_there) {
      PS_ASSIGN(const CopyIndex index, ReadCopyIndex(*target_, id));
      if (index.manifest != checkpoint.bytes) {
        return Status::InvalidArgument(fmt::format(
            "{} has another checkpoint {} than {}: of another run. Copy to another place",
            target_->name(),
            id,
            path_));
      }
      PS_ASSIGN(const PieceSizes listed, ListPieces(*target_));
      if (CountMissing(index, listed) > 0) {
        wanted.push_back(std::move(checkpoint));
      }
    } else if (id > newest_there) {
      wanted.push_back(std::move(checkpoint));
    }
  }
  PS_ASSIGN(const bool is_behind, IsBehind(here.back(), newest_there));
  if (is_behind) {
    return Status::InvalidArgument(fmt::format(
        "{} has checkpoint {}, {} has none so new: it is of another run, or of a later time of "
        "this one. Copy to another place",
        target_->name(),
        newest_there,
        path_));
  }
  if (newest_there != 0 && here.front() > newest_there) {
    PS_TRY(CheckFits(wanted.front().manifest, newest_there));
  }
  return wanted;
}

/// Whether the target has a whole checkpoint that is newer than all here. One that is not whole may
/// be what this path was fetched without.
Result<bool> Uploader::IsBehind(CheckpointId newest_here, CheckpointId newest_there) {
  if (newest_here >= newest_there) {
    return false;
  }
  PS_ASSIGN(const CopyList list, ListWholeCopies(*target_));
  return !list.whole.empty() && list.whole.back() > newest_here;
}

/// The target's checkpoints are all older than those here, so none can be compared. They are at
/// least of the same model.
Status Uploader::CheckFits(const Manifest& oldest_here, CheckpointId theirs) {
  PS_ASSIGN(const CopyIndex index, ReadCopyIndex(*target_, theirs));
  PS_ASSIGN(
      const Manifest manifest,
      DecodeManifest(theirs, index.manifest)
          .Annotate(fmt::format("{}: checkpoint {}", target_->name(), theirs)));
  if (manifest.tensors != oldest_here.tensors) {
    return Status::InvalidArgument(fmt::format(
        "{} has checkpoints of another model than {}. Copy to another place",
        target_->name(),
        path_));
  }
  return Status::Ok();
}

Status Uploader::LinkDatabases(const std::vector<Wanted>& wanted, const std::string& links) {
  std::set<std::string> directories;
  for (const Wanted& checkpoint : wanted) {
    for (const ManifestPart& part : checkpoint.manifest.parts) {
      directories.insert(part.directory);
    }
  }
  for (const std::string& directory : directories) {
    const std::string source = fmt::format("{}/{}", path_, directory);
    Status linked = LinkDatabase(source, fmt::format("{}/{}", links, directory));
    if (linked.code() == StatusCode::kNotFound) {
      return Status::Io(fmt::format(
          "{} is not on this machine; a copy needs the files of all shards here", source));
    }
    PS_TRY(std::move(linked));
  }
  return Status::Ok();
}

/// What the run has removed between the reading of its manifest and the linking can't be copied.
Status Uploader::DropPruned(
    Storage& storage, const std::string& links, std::vector<Wanted>* wanted) {
  std::map<std::string, std::unique_ptr<ShardStore>> stores;
  std::set<CheckpointId> gone;
  for (const Wanted& checkpoint : *wanted) {
    for (const ManifestPart& part : checkpoint.manifest.parts) {
      std::unique_ptr<ShardStore>& store = stores[part.directory];
      if (store == nullptr) {
        PS_ASSIGN(store, ShardStore::Open(storage, links, part.directory, OpenMode::kRead));
      }
      const Result<uint32_t> crc = store->PartCrc(checkpoint.manifest.id);
      if (crc.status().code() == StatusCode::kNotFound) {
        gone.insert(checkpoint.manifest.id);
        continue;
      }
      PS_TRY(crc.status());
      if (*crc != part.summary.crc) {
        return Status::Corruption(fmt::format(
            "the part of {} of checkpoint {} is another one than the manifest names",
            part.directory,
            checkpoint.manifest.id));
      }
    }
  }
  if (gone.size() == wanted->size()) {
    return Status::Unavailable(
        fmt::format("the run removed checkpoints of {} while they were copied; copy again", path_));
  }
  std::erase_if(
      *wanted, [&](const Wanted& checkpoint) { return gone.contains(checkpoint.manifest.id); });
  return Status::Ok();
}

Result<std::vector<CopiedDatabase>> Uploader::DescribeAll(const std::string& links) {
  std::vector<CopiedDatabase> databases;
  std::map<FileIdentity, std::vector<Piece>> known;
  std::error_code error;
  for (std::filesystem::directory_iterator it(links, error), end; !error && it != end;
       it.increment(error)) {
    databases.push_back({.directory = it->path().filename().string(), .files = {}});
  }
  for (CopiedDatabase& database : databases) {
    const std::string folder = fmt::format("{}/{}", links, database.directory);
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
         it.increment(error)) {
      names.push_back(it->path().filename().string());
    }
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      const std::string path = fmt::format("{}/{}", folder, name);
      struct stat found = {};
      if (::stat(path.c_str(), &found) != 0) {
        return IoError("cannot look at", path);
      }
      const FileIdentity identity(
          found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
      CopiedFile file{.name = name, .pieces = {}};
      if (const auto it = known_.find(identity); it != known_.end()) {
        file.pieces = it->second;
      } else {
        PS_ASSIGN(file, Describe(path, name, static_cast<uint64_t>(found.st_size)));
      }
      known[identity] = file.pieces;
      database.files.push_back(std::move(file));
    }
  }
  if (error) {
    return Status::Io(fmt::format("cannot read {}: {}", links, error.message()));
  }
  known_ = std::move(known);
  std::sort(databases.begin(), databases.end(), [](const auto& a, const auto& b) {
    return a.directory < b.directory;
  });
  return databases;
}

Result<CopiedFile> Uploader::Describe(
    const std::string& path, const std::string& name, uint64_t size) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) {
    return IoError("cannot open", path);
  }
  CopiedFile file{.name = name, .pieces = {}};
  for (uint64_t at = 0; at < size; at += store::kObjectBytesMax) {
    const auto bytes_left =
        static_cast<size_t>(std::min<uint64_t>(size - at, store::kObjectBytesMax));
    PS_ASSIGN(
        const std::span<const std::byte> bytes, ReadPiece(fd.get(), path, bytes_left, &buffer_));
    file.pieces.push_back(
        {.digest = crypto::Sha256Of(bytes), .bytes = static_cast<uint32_t>(bytes.size())});
  }
  return file;
}

Status Uploader::Send(
    const std::vector<CopiedDatabase>& databases, const std::string& links, UploadReport* report) {
  PS_ASSIGN(PieceSizes there, ListPieces(*target_));
  uint64_t bytes_since_check = 0;
  const auto is_there = [&](const Piece& piece) {
    const auto it = there.find(PieceKey(piece.digest));
    return it != there.end() && it->second == piece.bytes;
  };
  uint64_t total = 0;
  std::set<std::string> counted;
  for (const CopiedDatabase& database : databases) {
    for (const CopiedFile& file : database.files) {
      for (const Piece& piece : file.pieces) {
        if (counted.insert(PieceKey(piece.digest)).second) {
          (is_there(piece) ? report->shared_bytes : total) += piece.bytes;
        }
      }
    }
  }
  for (const CopiedDatabase& database : databases) {
    for (const CopiedFile& file : database.files) {
      if (std::all_of(file.pieces.begin(), file.pieces.end(), is_there)) {
        continue;
      }
      const std::string path = fmt::format("{}/{}/{}", links, database.directory, file.name);
      const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      if (!fd.is_open()) {
        return IoError("cannot open", path);
      }
      for (const Piece& piece : file.pieces) {
        PS_ASSIGN(
            const std::span<const std::byte> bytes,
            ReadPiece(fd.get(), path, piece.bytes, &buffer_));
        if (is_there(piece)) {
          continue;
        }
        if (crypto::Sha256Of(bytes) != piece.digest) {
          return Status::Corruption(fmt::format("{} changed while it was copied", path));
        }
        if (bytes_since_check >= store::kObjectBytesMax) {
          PS_TRY(mark_.Check());
          bytes_since_check = 0;
        }
        PS_TRY(target_->Put(PieceKey(piece.digest), bytes));
        bytes_since_check += piece.bytes;
        there[PieceKey(piece.digest)] = piece.bytes;
        report->sent_bytes += piece.bytes;
        if (options_.on_progress != nullptr) {
          options_.on_progress(report->sent_bytes, total);
        }
      }
    }
  }
  return Status::Ok();
}

Result<CopyIndex> Uploader::Commit(
    const Wanted& wanted, const std::vector<CopiedDatabase>& databases) {
  CopyIndex index;
  index.id = wanted.manifest.id;
  index.manifest = wanted.bytes;
  for (const CopiedDatabase& database : databases) {
    const bool is_part = std::any_of(
        wanted.manifest.parts.begin(), wanted.manifest.parts.end(), [&](const ManifestPart& part) {
          return part.directory == database.directory;
        });
    if (is_part) {
      index.databases.push_back(database);
    }
  }
  const std::vector<std::byte> bytes = EncodeIndex(index);
  if (bytes.size() > store::kObjectBytesMax) {
    return Status::Unsupported(fmt::format(
        "the index of checkpoint {} has {}; at most {} can be copied",
        index.id,
        FormatBytes(bytes.size()),
        FormatBytes(store::kObjectBytesMax)));
  }
  PS_TRY(mark_.Check());
  PS_TRY(target_->Put(IndexKey(index.id), bytes));
  // Whoever took over meanwhile may have written the same index since, so it is not deleted.
  PS_TRY(mark_.Check());
  return index;
}

}  // namespace ps::checkpoint
