// The manifest is put last: a path that lacks it has no checkpoint, and the next attempt goes on
// with the files that are there.

#include "checkpoint/remote/download.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "checkpoint/job_store.h"
#include "checkpoint/remote/copies.h"
#include "checkpoint/remote/index.h"
#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/base/unique_fd.h"

namespace ps::checkpoint {
namespace {

Result<std::vector<std::byte>> ReadPiece(store::ObjectStore& store, const Piece& piece) {
  PS_ASSIGN(std::vector<std::byte> bytes, store.Get(PieceKey(piece.digest), piece.bytes));
  if (bytes.size() != piece.bytes || crypto::Sha256Of(bytes) != piece.digest) {
    return Status::Corruption(fmt::format(
        "{}: {} has other bytes than its name says", store.name(), PieceKey(piece.digest)));
  }
  return bytes;
}

uint64_t BytesOf(const CopyIndex& index) {
  uint64_t sum = 0;
  for (const CopiedDatabase& database : index.databases) {
    for (const CopiedFile& file : database.files) {
      sum += file.bytes();
    }
  }
  return sum;
}

/// Whether the file has what it should, from an earlier attempt.
bool IsComplete(const std::string& path, const CopiedFile& file) {
  std::error_code error;
  if (std::filesystem::file_size(path, error) != file.bytes() || error) {
    return false;
  }
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<std::byte> bytes;
  for (const Piece& piece : file.pieces) {
    bytes.resize(piece.bytes);
    size_t got = 0;
    while (got < bytes.size()) {
      const ssize_t count = ::read(fd.get(), bytes.data() + got, bytes.size() - got);
      if (count <= 0) {
        return false;
      }
      got += static_cast<size_t>(count);
    }
    if (crypto::Sha256Of(bytes) != piece.digest) {
      return false;
    }
  }
  return true;
}

/// Whether the reason lies in the checkpoint, so that an older one may do.
bool IsDamage(const Status& status) {
  return status.code() == StatusCode::kCorruption || status.code() == StatusCode::kNotFound ||
         status.code() == StatusCode::kUnsupported;
}

/// One attempt at one checkpoint.
class Fetch {
 public:
  Fetch(
      store::ObjectStore& store,
      const std::string& path,
      const OnReceived& on_received,
      DownloadReport* report)
      : store_(store), path_(path), on_received_(on_received), report_(report) {}

  /// Returns the manifest as it is stored.
  Result<std::vector<std::byte>> Run(CheckpointId id) {
    PS_ASSIGN(CopyIndex index, ReadCopyIndex(store_, id));
    PS_ASSIGN(
        const Manifest manifest,
        DecodeManifest(id, index.manifest).Annotate("the manifest in " + IndexKey(id)));
    total_ = BytesOf(index);
    for (const ManifestPart& part : manifest.parts) {
      const auto database = std::find_if(
          index.databases.begin(), index.databases.end(), [&](const CopiedDatabase& candidate) {
            return candidate.directory == part.directory;
          });
      if (database == index.databases.end()) {
        return Status::Corruption(fmt::format("the index lacks the files of {}", part.directory));
      }
      PS_TRY(FetchDatabase(*database));
    }
    return std::move(index.manifest);
  }

 private:
  Status FetchDatabase(const CopiedDatabase& database) {
    const std::string folder = fmt::format("{}/{}", path_, database.directory);
    PS_TRY(CreateDirectories(folder));
    PS_TRY(RemoveOthers(folder, database));
    for (const CopiedFile& file : database.files) {
      const std::string path = fmt::format("{}/{}", folder, file.name);
      if (IsComplete(path, file)) {
        report_->present_bytes += file.bytes();
        done_ += file.bytes();
      } else {
        PS_TRY(FetchFile(path, file));
      }
    }
    return SyncDirectory(folder);
  }

  /// Removes what an attempt at another checkpoint has left.
  static Status RemoveOthers(const std::string& folder, const CopiedDatabase& database) {
    std::set<std::string> wanted;
    for (const CopiedFile& file : database.files) {
      wanted.insert(file.name);
    }
    std::vector<std::filesystem::path> others;
    std::error_code error;
    for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
         it.increment(error)) {
      if (!wanted.contains(it->path().filename().string())) {
        others.push_back(it->path());
      }
    }
    for (const std::filesystem::path& other : others) {
      std::filesystem::remove_all(other, error);
    }
    if (error) {
      return Status::Io(fmt::format("cannot clear {}: {}", folder, error.message()));
    }
    return Status::Ok();
  }

  Status FetchFile(const std::string& path, const CopiedFile& file) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!fd.is_open()) {
      return IoError("cannot create", path);
    }
    for (const Piece& piece : file.pieces) {
      PS_ASSIGN(const std::vector<std::byte> bytes, ReadPiece(store_, piece));
      PS_TRY(WriteAll(fd.get(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path));
      report_->received_bytes += piece.bytes;
      done_ += piece.bytes;
      if (on_received_ != nullptr) {
        on_received_(done_, total_);
      }
    }
    return ::fsync(fd.get()) == 0 ? Status::Ok() : IoError("cannot sync", path);
  }

  store::ObjectStore& store_;
  const std::string& path_;
  const OnReceived& on_received_;
  DownloadReport* const report_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

/// The manifest makes the files a checkpoint; it stays if all values are right.
Status Accept(
    Storage& storage,
    JobStore& job,
    const std::string& path,
    CheckpointId id,
    std::span<const std::byte> manifest) {
  PS_TRY(job.PutManifest(id, manifest));
  std::vector<Damage> damages;
  {
    PS_ASSIGN(const std::unique_ptr<Reader> reader, Reader::Open(storage, path));
    damages = reader->Verify(id);
  }
  if (damages.empty()) {
    return Status::Ok();
  }
  PS_TRY(job.DeleteManifest(id));
  return Status::Corruption(
      fmt::format("{}: {}", damages.front().what, damages.front().status.message()));
}

}  // namespace

Result<DownloadReport> Download(
    store::ObjectStore& store,
    Storage& storage,
    const std::string& path,
    const OnReceived& on_received) {
  PS_ASSIGN(std::vector<CheckpointId> ids, ListCopies(store));
  DownloadReport report;
  if (ids.empty()) {
    return Status::NotFound(fmt::format("{} has no checkpoint", store.name()));
  }
  report.newest = ids.back();
  PS_ASSIGN(const std::unique_ptr<JobStore> job, JobStore::Open(storage, path, OpenMode::kWrite));
  PS_ASSIGN(const std::vector<CheckpointId> present, job->Manifests());
  if (!present.empty()) {
    return Status::InvalidArgument(fmt::format(
        "{} has checkpoints already, the newest is {}; fetch to an empty place",
        path,
        present.back()));
  }
  for (; !ids.empty(); ids.pop_back()) {
    const auto manifest = Fetch(store, path, on_received, &report).Run(ids.back());
    const Status status =
        manifest.ok() ? Accept(storage, *job, path, ids.back(), *manifest) : manifest.status();
    if (status.ok()) {
      report.id = ids.back();
      return report;
    }
    if (!IsDamage(status)) {
      return status;
    }
    report.skipped.push_back(
        fmt::format("checkpoint {}: {}", ids.back(), std::string(status.message())));
  }
  std::string reasons;
  for (const std::string& skipped : report.skipped) {
    reasons += "\n  " + skipped;
  }
  return Status::NotFound(fmt::format("no checkpoint in {} is whole:{}", store.name(), reasons));
}

Result<Manifest> ReadCopiedManifest(store::ObjectStore& store, CheckpointId id) {
  PS_ASSIGN(const CopyIndex index, ReadCopyIndex(store, id));
  return DecodeManifest(id, index.manifest)
      .Annotate(fmt::format("{}: checkpoint {}", store.name(), id));
}

std::vector<Damage> VerifyCopy(store::ObjectStore& store, CheckpointId id) {
  const Result<CopyIndex> index = ReadCopyIndex(store, id);
  if (!index.ok()) {
    return {{.what = "index", .status = index.status()}};
  }
  std::vector<Damage> damages;
  if (const auto manifest = DecodeManifest(id, index->manifest); !manifest.ok()) {
    damages.push_back({.what = "manifest", .status = manifest.status()});
  }
  for (const CopiedDatabase& database : index->databases) {
    for (const CopiedFile& file : database.files) {
      for (const Piece& piece : file.pieces) {
        if (const auto bytes = ReadPiece(store, piece); !bytes.ok()) {
          damages.push_back(
              {.what = fmt::format("{}/{}", database.directory, file.name),
               .status = bytes.status()});
          if (!IsDamage(bytes.status())) {
            return damages;  // the store can't be reached
          }
        }
      }
    }
  }
  return damages;
}

}  // namespace ps::checkpoint
