#include "tests/checkpoint/faulty_files.h"

#include <rocksdb/file_system.h>
#include <rocksdb/system_clock.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace ps::checkpoint {
namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

/// A change of a directory that it may forget until it is synced.
struct NameChange {
  std::string directory;
  std::string created;                // or:
  std::string from;                   // renamed from here
  std::string to;                     // to here
  std::optional<std::string> target;  // what was there
};

std::string DirectoryOf(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

struct FaultyFiles::State {
  std::mutex mutex;
  uint64_t changes = 0;
  uint64_t crash_at = kNever;
  uint64_t kill_at = kNever;
  int64_t space = -1;
  bool is_read_only = false;
  bool is_unreadable = false;
  std::map<std::string, uint64_t> synced_bytes;  // of files that were written
  std::vector<NameChange> name_changes;

  /// Before a change, of so many bytes. Holds the mutex.
  IOStatus Begin(uint64_t bytes) {
    if (changes >= kill_at) {
      ::raise(SIGKILL);
    }
    if (changes >= crash_at) {
      return IOStatus::IOError("crashed");
    }
    ++changes;
    if (is_read_only) {
      return IOStatus::IOError("Read-only file system");
    }
    if (space >= 0) {
      if (static_cast<int64_t>(bytes) > space) {
        return IOStatus::NoSpace("No space left on device");
      }
      space -= static_cast<int64_t>(bytes);
    }
    return IOStatus::OK();
  }
};

namespace {

using StatePtr = std::shared_ptr<FaultyFiles::State>;

class FaultyFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FaultyFile(std::unique_ptr<rocksdb::FSWritableFile> file, std::string path, StatePtr state)
      : FSWritableFileOwnerWrapper(std::move(file)),
        path_(std::move(path)),
        state_(std::move(state)) {}

  IOStatus Append(
      const rocksdb::Slice& data, const IOOptions& options, IODebugContext* debug) override {
    const std::lock_guard lock(state_->mutex);
    const IOStatus begun = state_->Begin(data.size());
    return begun.ok() ? FSWritableFileOwnerWrapper::Append(data, options, debug) : begun;
  }

  IOStatus Append(
      const rocksdb::Slice& data,
      const IOOptions& options,
      const rocksdb::DataVerificationInfo& /*info*/,
      IODebugContext* debug) override {
    return Append(data, options, debug);
  }

  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    const std::lock_guard lock(state_->mutex);
    IOStatus status = state_->Begin(0);
    if (status.ok()) {
      status = FSWritableFileOwnerWrapper::Flush(options, debug);
    }
    if (status.ok()) {
      state_->synced_bytes[path_] = GetFileSize(options, debug);
    }
    return status;
  }

  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Sync(options, debug);
  }

 private:
  std::string path_;
  StatePtr state_;
};

class FaultyDirectory final : public rocksdb::FSDirectoryWrapper {
 public:
  FaultyDirectory(std::unique_ptr<rocksdb::FSDirectory> target, std::string path, StatePtr state)
      : FSDirectoryWrapper(std::move(target)), path_(std::move(path)), state_(std::move(state)) {}

  IOStatus Fsync(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    const std::lock_guard lock(state_->mutex);
    const IOStatus begun = state_->Begin(0);
    if (begun.ok()) {
      std::erase_if(
          state_->name_changes, [&](const NameChange& c) { return c.directory == path_; });
    }
    return begun;
  }

  IOStatus FsyncWithDirOptions(
      const IOOptions& options,
      IODebugContext* debug,
      const rocksdb::DirFsyncOptions& /*dir_options*/) override {
    return Fsync(options, debug);
  }

 private:
  std::string path_;
  StatePtr state_;
};

class FaultyFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit FaultyFileSystem(StatePtr state)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), state_(std::move(state)) {}

  const char* Name() const override { return "FaultyFileSystem"; }

  IOStatus NewWritableFile(
      const std::string& path,
      const FileOptions& options,
      std::unique_ptr<rocksdb::FSWritableFile>* file,
      IODebugContext* debug) override {
    const std::lock_guard lock(state_->mutex);
    IOStatus status = state_->Begin(0);
    if (status.ok()) {
      status = FileSystemWrapper::NewWritableFile(path, options, file, debug);
    }
    if (status.ok()) {
      *file = std::make_unique<FaultyFile>(std::move(*file), path, state_);
      state_->synced_bytes[path] = 0;
      NameChange change;
      change.directory = DirectoryOf(path);
      change.created = path;
      state_->name_changes.push_back(std::move(change));
    }
    return status;
  }

  IOStatus NewRandomAccessFile(
      const std::string& path,
      const FileOptions& options,
      std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
      IODebugContext* debug) override {
    const std::lock_guard lock(state_->mutex);
    return state_->is_unreadable
               ? IOStatus::IOError("While opening " + path, "Too many open files")
               : FileSystemWrapper::NewRandomAccessFile(path, options, file, debug);
  }

  IOStatus NewDirectory(
      const std::string& path,
      const IOOptions& options,
      std::unique_ptr<rocksdb::FSDirectory>* directory,
      IODebugContext* debug) override {
    const IOStatus status = FileSystemWrapper::NewDirectory(path, options, directory, debug);
    if (status.ok()) {
      *directory = std::make_unique<FaultyDirectory>(std::move(*directory), path, state_);
    }
    return status;
  }

  IOStatus RenameFile(
      const std::string& from,
      const std::string& to,
      const IOOptions& options,
      IODebugContext* debug) override {
    const std::lock_guard lock(state_->mutex);
    const IOStatus begun = state_->Begin(0);
    if (!begun.ok()) {
      return begun;
    }
    NameChange change;
    change.directory = DirectoryOf(to);
    change.from = from;
    change.to = to;
    if (std::filesystem::exists(to)) {
      change.target = ReadAll(to);
    }
    const IOStatus status = FileSystemWrapper::RenameFile(from, to, options, debug);
    if (status.ok()) {
      state_->synced_bytes[to] = std::exchange(state_->synced_bytes[from], 0);
      state_->synced_bytes.erase(from);
      state_->name_changes.push_back(std::move(change));
    }
    return status;
  }

  /// RocksDB's own thread does not look for free space: the tests say when there is some again.
  IOStatus GetFreeSpace(
      const std::string& /*path*/,
      const IOOptions& /*options*/,
      uint64_t* /*free*/,
      IODebugContext* /*debug*/) override {
    return IOStatus::NotSupported();
  }

  IOStatus DeleteFile(
      const std::string& path, const IOOptions& options, IODebugContext* debug) override {
    const std::lock_guard lock(state_->mutex);
    const IOStatus begun = state_->Begin(0);
    if (!begun.ok()) {
      return begun;
    }
    state_->synced_bytes.erase(path);
    return FileSystemWrapper::DeleteFile(path, options, debug);
  }

 private:
  StatePtr state_;
};

/// RocksDB waits a second after a failure before it tries again, also when it is closed.
class ImpatientClock final : public rocksdb::SystemClockWrapper {
 public:
  ImpatientClock() : SystemClockWrapper(rocksdb::SystemClock::Default()) {}

  const char* Name() const override { return "ImpatientClock"; }

  void SleepForMicroseconds(int /*micros*/) override {}
};

class FaultyEnv final : public rocksdb::EnvWrapper {
 public:
  explicit FaultyEnv(StatePtr state) : EnvWrapper(rocksdb::Env::Default()) {
    file_system_ = std::make_shared<FaultyFileSystem>(std::move(state));
    system_clock_ = std::make_shared<ImpatientClock>();
  }

  const char* Name() const override { return "FaultyEnv"; }
};

}  // namespace

FaultyFiles::FaultyFiles()
    : state_(std::make_shared<State>()), env_(std::make_unique<FaultyEnv>(state_)) {}

FaultyFiles::~FaultyFiles() = default;

rocksdb::Env* FaultyFiles::env() {
  return env_.get();
}

uint64_t FaultyFiles::changes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->changes;
}

void FaultyFiles::CrashAfter(uint64_t changes) {
  const std::lock_guard lock(state_->mutex);
  state_->crash_at = state_->changes + changes;
}

void FaultyFiles::KillAfter(uint64_t changes) {
  const std::lock_guard lock(state_->mutex);
  state_->kill_at = state_->changes + changes;
}

void FaultyFiles::SetSpace(int64_t bytes) {
  const std::lock_guard lock(state_->mutex);
  state_->space = bytes;
}

void FaultyFiles::SetReadOnly(bool is_read_only) {
  const std::lock_guard lock(state_->mutex);
  state_->is_read_only = is_read_only;
}

void FaultyFiles::SetUnreadable(bool is_unreadable) {
  const std::lock_guard lock(state_->mutex);
  state_->is_unreadable = is_unreadable;
}

void FaultyFiles::LoseUnsynced(Random* random) {
  const std::lock_guard lock(state_->mutex);
  for (const auto& [path, synced] : state_->synced_bytes) {
    std::error_code error;
    const uint64_t size = std::filesystem::file_size(path, error);
    if (!error && size > synced) {
      std::filesystem::resize_file(path, synced + random->Below(size - synced + 1));
    }
  }
  for (auto change = state_->name_changes.rbegin(); change != state_->name_changes.rend();
       ++change) {
    std::error_code error;
    if (!change->created.empty()) {
      std::filesystem::remove(change->created, error);
      continue;
    }
    std::filesystem::rename(change->to, change->from, error);
    if (change->target.has_value()) {
      std::ofstream(change->to, std::ios::binary) << *change->target;
    }
  }
  state_->synced_bytes.clear();
  state_->name_changes.clear();
}

}  // namespace ps::checkpoint
