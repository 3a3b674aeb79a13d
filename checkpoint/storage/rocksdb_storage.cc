#include "checkpoint/storage/rocksdb_storage.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/rate_limiter.h>
#include <rocksdb/write_batch.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "checkpoint/storage/file_mark.h"
#include "checkpoint/storage/rocksdb_failure.h"
#include "checkpoint/storage/rocksdb_options.h"
#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "ps/base/unique_fd.h"

namespace ps::checkpoint {
namespace {

rocksdb::Slice SliceOf(std::string_view text) {
  return {text.data(), text.size()};
}

rocksdb::Slice SliceOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> BytesOf(const rocksdb::Slice& slice) {
  return {reinterpret_cast<const std::byte*>(slice.data()), slice.size()};
}

class RocksDatabase final : public Database {
 public:
  RocksDatabase(
      std::string directory,
      std::span<const std::string_view> columns,
      OpenMode mode,
      rocksdb::Env* env)
      : directory_(std::move(directory)), mode_(mode), options_(MakeDbOptions(mode, env)) {
    for (const std::string_view column : columns) {
      columns_.emplace_back(column);
      rules_.push_back(std::make_shared<KeepRule>());
    }
  }

  RocksDatabase(const RocksDatabase&) = delete;
  RocksDatabase& operator=(const RocksDatabase&) = delete;

  ~RocksDatabase() override { Close(); }

  /// What is open stays so when this fails.
  rocksdb::Status Open(OpenMode mode);

  Status Write(std::span<const Change> changes, Durability durability) override;
  Status Flush() override;
  Status Read(Column column, std::string_view key, ReadCheck check, const Visitor& visit) override;
  Status Scan(Column column, std::string_view prefix, const Visitor& visit) override;
  Status Prune(Column column, KeepFunction keep) override;

  uint64_t losses() const override { return losses_; }

  void LimitWrites(uint64_t bytes_per_s) override {
    const auto limit = static_cast<int64_t>(
        std::min<uint64_t>(bytes_per_s, static_cast<uint64_t>(kUnlimitedBytesPerS)));
    options_.rate_limiter->SetBytesPerSecond(limit == 0 ? kUnlimitedBytesPerS : limit);
  }

 private:
  /// Before a write: after a failure RocksDB takes no more until it is told that the cause may be
  /// gone, and then writes what it still holds.
  Status PrepareWrite();
  Status OpenAnew();
  void Close();
  Status Written(const rocksdb::Status& status);

  rocksdb::ColumnFamilyHandle* Handle(Column column) const { return handles_[column + 1U]; }

  std::string directory_;
  OpenMode mode_;
  rocksdb::DBOptions options_;
  std::vector<std::string> columns_;
  std::vector<std::shared_ptr<KeepRule>> rules_;  // by column
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;  // RocksDB's default one, then by column
  rocksdb::WriteBatch batch_;                          // of one Write; keeps its memory
  OpenMode open_mode_ = OpenMode::kRead;  // of db_: kRead also while a writer waits for its disk
  bool has_failed_ = false;
  uint64_t losses_ = 0;
};

rocksdb::Status RocksDatabase::Open(OpenMode mode) {
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  descriptors.emplace_back(
      rocksdb::kDefaultColumnFamilyName, MakeColumnOptions(std::make_shared<KeepRule>()));
  for (size_t i = 0; i < columns_.size(); ++i) {
    descriptors.emplace_back(columns_[i], MakeColumnOptions(rules_[i]));
  }
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const rocksdb::Status status =
      mode == OpenMode::kWrite
          ? rocksdb::DB::Open(options_, directory_, descriptors, &handles, &db)
          : rocksdb::DB::OpenForReadOnly(options_, directory_, descriptors, &handles, &db);
  if (status.ok()) {
    Close();
    db_.reset(db);
    handles_ = std::move(handles);
    open_mode_ = mode;
  }
  return status;
}

void RocksDatabase::Close() {
  for (rocksdb::ColumnFamilyHandle* handle : handles_) {
    db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
  handles_.clear();
  db_.reset();
}

Status RocksDatabase::PrepareWrite() {
  if (mode_ == OpenMode::kRead) {
    return Status::InvalidArgument(fmt::format("{} is open for reading alone", directory_));
  }
  if (!has_failed_) {
    return Status::Ok();
  }
  // One that is open for reading has nothing to resume, and would say that it has done so.
  if (db_ == nullptr || open_mode_ == OpenMode::kRead || !db_->Resume().ok()) {
    PS_TRY(OpenAnew());
  }
  has_failed_ = false;
  return Status::Ok();
}

/// What can be read stays so when it can't be opened for writing. Each write of the owner is one
/// attempt: who writes often enough for that to cost something waits in between itself.
Status RocksDatabase::OpenAnew() {
  if (db_ != nullptr && open_mode_ == OpenMode::kWrite) {
    Close();
    ++losses_;
  }
  const rocksdb::Status opened = Open(OpenMode::kWrite);
  if (!opened.ok() && db_ == nullptr) {
    Open(OpenMode::kRead).PermitUncheckedError();
  }
  return ToStatus(opened).Annotate("opening " + directory_ + " again");
}

/// The error of a database that could not be opened again.
Status NotOpen(const std::string& directory) {
  return Status::Io(
      fmt::format("{} could not be opened again after the disk had failed", directory));
}

Status RocksDatabase::Written(const rocksdb::Status& status) {
  has_failed_ = !status.ok();
  return ToStatus(status).Annotate(directory_);
}

/// The first key after all that begin with `prefix`.
std::string EndOfPrefix(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xFF') {
    end.pop_back();
  }
  if (end.empty()) {
    return std::string(kKeyBytesMax + 1, '\xFF');
  }
  end.back() = static_cast<char>(end.back() + 1);
  return end;
}

Status RocksDatabase::Write(std::span<const Change> changes, Durability durability) {
  PS_TRY(PrepareWrite());
  batch_.Clear();
  for (const Change& change : changes) {
    PS_TRY(CheckKey(change.key));
    rocksdb::ColumnFamilyHandle* column = Handle(change.column);
    rocksdb::Status added;
    if (change.kind == ChangeKind::kPut) {
      std::vector<rocksdb::Slice> pieces;
      for (const std::span<const std::byte> piece : change.value) {
        pieces.push_back(SliceOf(piece));
      }
      const rocksdb::Slice key = SliceOf(change.key);
      added = batch_.Put(
          column,
          rocksdb::SliceParts(&key, 1),
          rocksdb::SliceParts(pieces.data(), static_cast<int>(pieces.size())));
    } else if (change.kind == ChangeKind::kErase) {
      added = batch_.Delete(column, SliceOf(change.key));
    } else {
      added = batch_.DeleteRange(column, SliceOf(change.key), EndOfPrefix(change.key));
    }
    if (!added.ok()) {
      return ToStatus(added).Annotate(directory_);
    }
  }
  rocksdb::WriteOptions options;
  options.disableWAL = durability == Durability::kFlush;
  options.sync = durability == Durability::kSynced;
  return Written(db_->Write(options, &batch_));
}

Status RocksDatabase::Flush() {
  PS_TRY(PrepareWrite());
  return Written(db_->Flush(rocksdb::FlushOptions(), handles_));
}

Status RocksDatabase::Read(
    Column column, std::string_view key, ReadCheck check, const Visitor& visit) {
  rocksdb::ReadOptions options;
  options.verify_checksums = check == ReadCheck::kEngine;
  options.fill_cache = false;
  rocksdb::PinnableSlice value;
  if (db_ == nullptr) {
    return NotOpen(directory_);
  }
  const rocksdb::Status status = db_->Get(options, Handle(column), SliceOf(key), &value);
  if (!status.ok()) {
    return ToStatus(status).Annotate(directory_);
  }
  return visit(key, BytesOf(value));
}

Status RocksDatabase::Scan(Column column, std::string_view prefix, const Visitor& visit) {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  if (db_ == nullptr) {
    return NotOpen(directory_);
  }
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options, Handle(column)));
  for (it->Seek(SliceOf(prefix)); it->Valid() && it->key().starts_with(SliceOf(prefix));
       it->Next()) {
    PS_TRY(visit(it->key().ToStringView(), BytesOf(it->value())));
  }
  return ToStatus(it->status()).Annotate(directory_);
}

Status RocksDatabase::Prune(Column column, KeepFunction keep) {
  PS_TRY(PrepareWrite());
  rules_[column]->Set(std::move(keep));
  rocksdb::CompactRangeOptions options;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  // A background compaction that runs just now may move tables down unread, and the first pass
  // finds nothing to do. The second one finds all of them below level 0.
  PS_TRY(Written(db_->CompactRange(options, Handle(column), nullptr, nullptr)));
  PS_TRY(Written(db_->CompactRange(options, Handle(column), nullptr, nullptr)));
  // A file of large values goes when none of them is left. When more than half of all bytes are
  // garbage in files that are still needed, what is left of them moves.
  uint64_t garbage = 0;
  uint64_t all = 0;
  if (db_->GetIntProperty(
          Handle(column), rocksdb::DB::Properties::kLiveBlobFileGarbageSize, &garbage) &&
      db_->GetIntProperty(Handle(column), rocksdb::DB::Properties::kLiveBlobFileSize, &all) &&
      garbage > all / 2) {
    options.blob_garbage_collection_policy = rocksdb::BlobGarbageCollectionPolicy::kForce;
    options.blob_garbage_collection_age_cutoff = 1;
    return Written(db_->CompactRange(options, Handle(column), nullptr, nullptr));
  }
  return Status::Ok();
}

/// "process 1234", who holds the lock of a database.
std::string HolderOf(const std::string& directory, const rocksdb::Status& status) {
  if (IsLockedHere(status)) {
    return "this process";  // closing the file here would give the lock back
  }
  const UniqueFd fd(::open((directory + "/LOCK").c_str(), O_RDWR | O_CLOEXEC));
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fd.is_open() && ::fcntl(fd.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK) {
    return fmt::format("process {}", lock.l_pid);
  }
  return "another process";
}

Status InUse(const std::string& directory, const rocksdb::Status& status) {
  return Status::Unavailable(
      fmt::format("{} is in use by {}", directory, HolderOf(directory, status)));
}

class RocksDbStorage final : public Storage {
 public:
  explicit RocksDbStorage(rocksdb::Env* env) : env_(env) {}

  Result<std::unique_ptr<Database>> Open(
      const std::string& directory,
      std::span<const std::string_view> columns,
      OpenMode mode) override {
    PS_ASSIGN(const bool is_there, IsThere(directory + "/CURRENT"));
    if (mode == OpenMode::kWrite) {
      PS_TRY(CreateDirectories(directory));
    } else if (!is_there) {
      return Status::NotFound(fmt::format("no checkpoints in {}", directory));
    }
    auto database = std::make_unique<RocksDatabase>(directory, columns, mode, env_);
    const rocksdb::Status status = database->Open(mode);
    if (IsLockFailure(status)) {
      return InUse(directory, status);
    }
    PS_TRY(ToStatus(status).Annotate("opening " + directory));
    return std::unique_ptr<Database>(std::move(database));
  }

  /// RocksDB lets files alone whose names are none of its own.
  Result<std::unique_ptr<Mark>> OpenMark(const std::string& directory) override {
    return OpenFileMark(directory + "/MARK");
  }

  Result<std::vector<std::string>> List(const std::string& path) override {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator it(path, error), end; !error && it != end;
         it.increment(error)) {
      if (it->is_directory(error)) {
        names.push_back(it->path().filename().string());
      }
    }
    if (error && error != std::errc::no_such_file_or_directory) {
      return Status::Io(fmt::format("cannot read {}: {}", path, error.message()));
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  Status Remove(const std::string& directory) override {
    const rocksdb::Status status =
        rocksdb::DestroyDB(directory, rocksdb::Options(MakeDbOptions(OpenMode::kWrite, env_), {}));
    if (IsLockFailure(status)) {
      return InUse(directory, status);
    }
    PS_TRY(ToStatus(status).Annotate("removing " + directory));
    std::error_code error;
    std::filesystem::remove_all(directory, error);
    if (error) {
      return Status::Io(fmt::format("cannot remove {}: {}", directory, error.message()));
    }
    return Status::Ok();
  }

 private:
  rocksdb::Env* env_;
};

}  // namespace

std::unique_ptr<Storage> MakeRocksDbStorage() {
  return MakeRocksDbStorage(rocksdb::Env::Default());
}

std::unique_ptr<Storage> MakeRocksDbStorage(rocksdb::Env* env) {
  return std::make_unique<RocksDbStorage>(env);
}

}  // namespace ps::checkpoint
