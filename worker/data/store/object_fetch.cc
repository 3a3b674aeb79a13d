#include "worker/data/store/object_fetch.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "ps/base/crc32c.h"
#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/base/unique_fd.h"
#include "ps/crypto/md5.h"
#include "worker/data/folder_keeper.h"
#include "worker/data/store/fetch_journal.h"

namespace ps::worker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigestPiece = size_t{1} << 20;

Status OnDisk(const Status& failure, int error) {
  return error == ENOSPC || error == EDQUOT
             ? Status::Io(fmt::format(
                   "{}; give data.cache a folder with more room", std::string(failure.message())))
             : failure;
}

bool IsMd5(std::string_view etag) {
  return etag.size() == 32 && etag.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// The whole fetch, on several threads.
class ObjectFetch {
 public:
  ObjectFetch(
      const store::S3Access& access,
      const std::vector<store::StoredObject>& objects,
      std::string folder,
      LoadProgress* progress,
      const FetchOptions& options)
      : access_(access),
        objects_(objects),
        folder_(std::move(folder)),
        progress_(progress),
        options_(options),
        ranges_left_(objects.size()) {}

  Status Run(const std::string& state) {
    PS_TRY(CreateDirectories(folder_));
    // Also while the disk or a digest takes long.
    const FolderKeeper keeper(folder_, [] { return true; });
    PS_ASSIGN(journal_, FetchJournal::Open(folder_, state));
    PS_TRY(CreateDirectories(folder_ + "/files"));
    PS_TRY(MakeFolders());
    PS_TRY(CheckRoom());
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.connections; ++i) {
      threads.emplace_back([this, i] { Work(static_cast<uint64_t>(i)); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    progress_->SetTrouble("");
    PS_TRY(std::move(failure_));
    PS_TRY(Sync());
    return journal_->Remove();
  }

 private:
  struct Range {
    size_t object = 0;
    uint64_t offset = 0;
    size_t bytes = 0;
  };

  std::string PathOf(size_t object) const { return folder_ + "/files/" + objects_[object].name; }

  Status MakeFolders() {
    std::string last;
    for (size_t i = 0; i < objects_.size(); ++i) {
      const std::string parent = fs::path(PathOf(i)).parent_path().string();
      if (parent != last) {
        PS_TRY(CreateDirectories(parent));
        last = parent;
      }
      const uint64_t ranges = (objects_[i].bytes + options_.range_bytes - 1) / options_.range_bytes;
      ranges_left_[i] = std::max<uint64_t>(ranges, 1);
      progress_->Expect(objects_[i].bytes);
      bytes_ += objects_[i].bytes;
    }
    return Status::Ok();
  }

  Status CheckRoom() const {
    struct statvfs disk = {};
    if (::statvfs(folder_.c_str(), &disk) != 0) {
      return IoError("cannot look at the disk of", folder_);
    }
    const uint64_t room = uint64_t{disk.f_bavail} * disk.f_frsize;
    const uint64_t needed = bytes_ - std::min(bytes_, journal_->bytes_done());
    return needed <= room
               ? Status::Ok()
               : Status::Io(fmt::format(
                     "{} are still to come, and the disk of {} has room for {}; give data.cache a "
                     "folder with more room",
                     FormatBytes(needed),
                     folder_,
                     FormatBytes(room)));
  }

  /// The next range that nobody has taken. An empty object has one, of no bytes.
  std::optional<Range> Take() {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok() || next_.object == objects_.size()) {
      return std::nullopt;
    }
    const uint64_t left = objects_[next_.object].bytes - next_.offset;
    Range taken = next_;
    taken.bytes = static_cast<size_t>(std::min<uint64_t>(left, options_.range_bytes));
    next_.offset += taken.bytes;
    if (taken.bytes == left) {
      next_ = {.object = next_.object + 1};
    }
    return taken;
  }

  void Work(uint64_t seed) {
    store::S3Options options;
    options.pause = [this](Duration wait) { return Pause(wait); };
    options.attempts_max = options_.attempts_max;
    options.first_wait = options_.first_wait;
    options.longest_wait = options_.longest_wait;
    options.seed = seed + 1;
    options.on_trouble = [this](const Status& why) {
      progress_->SetTrouble(fmt::format("{}; it is tried again", why.message()));
      is_in_trouble_ = true;
    };
    store::ObjectReader reader(
        access_, options_.limits, [this] { return !GoesOn(); }, std::move(options));
    while (const std::optional<Range> range = Take()) {
      Status done = Do(*range, &reader);
      if (!done.ok()) {
        const std::lock_guard lock(mutex_);
        // Others are cancelled by the first failure.
        failure_ = failure_.ok() ? std::move(done) : std::move(failure_);
        is_over_ = true;
        changed_.notify_all();
        return;
      }
    }
  }

  Status Do(const Range& range, store::ObjectReader* reader) {
    if (range.bytes == 0 || !IsThere(range)) {
      PS_TRY(Fetch(range, reader));
    }
    PS_TRY(progress_->Advance(range.bytes));
    {
      const std::lock_guard lock(mutex_);
      if (--ranges_left_[range.object] > 0) {
        return Status::Ok();
      }
    }
    return CheckDigest(range.object, reader);
  }

  /// Whether an earlier process has fetched it, and the disk still has it.
  bool IsThere(const Range& range) const {
    const std::optional<FetchedRange> done =
        journal_->Find(range.object, range.offset, range.bytes);
    if (!done) {
      return false;
    }
    const UniqueFd fd(::open(PathOf(range.object).c_str(), O_RDONLY | O_CLOEXEC));
    std::vector<std::byte> bytes(range.bytes);
    return fd.is_open() && ReadAt(fd.get(), range.offset, bytes) && Crc32c(bytes) == done->crc;
  }

  static bool ReadAt(int fd, uint64_t offset, std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count <= 0) {
        return false;
      }
      bytes = bytes.subspan(static_cast<size_t>(count));
      offset += static_cast<uint64_t>(count);
    }
    return true;
  }

  Status Fetch(const Range& range, store::ObjectReader* reader) {
    std::vector<std::byte> bytes;
    if (range.bytes > 0) {
      Result<std::vector<std::byte>> read =
          reader->Read(objects_[range.object], range.offset, range.bytes);
      if (!read.ok()) {
        return Named(read.status(), range.object);
      }
      bytes = std::move(read).value();
      if (is_in_trouble_.exchange(false)) {
        progress_->SetTrouble("");
      }
    }
    PS_TRY(Write(range, bytes));
    return journal_->Add(
        {.object = range.object,
         .offset = range.offset,
         .bytes = range.bytes,
         .crc = Crc32c(bytes)});
  }

  Status Write(const Range& range, std::span<const std::byte> bytes) const {
    const std::string path = PathOf(range.object);
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!fd.is_open()) {
      return OnDisk(IoError("cannot write", path), errno);
    }
    uint64_t offset = range.offset;
    while (!bytes.empty()) {
      const ssize_t count =
          ::pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count <= 0) {
        return OnDisk(IoError("cannot write", path), errno);
      }
      bytes = bytes.subspan(static_cast<size_t>(count));
      offset += static_cast<uint64_t>(count);
    }
    return Status::Ok();
  }

  /// What changes under a fetch would be half old and half new.
  Status Named(const Status& why, size_t object) const {
    if (why.code() != StatusCode::kStale && why.code() != StatusCode::kNotFound) {
      return why;
    }
    return Status::InvalidArgument(fmt::format(
        "{} was {} while its data were fetched ({}); begin again when nobody writes there",
        Printable(Clip(objects_[object].name, 200)),
        why.code() == StatusCode::kStale ? "changed" : "removed",
        why.message()));
  }

  Result<std::optional<std::string>> DigestOf(size_t object) const {
    const std::string path = PathOf(object);
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    crypto::Md5 digest;
    std::vector<std::byte> piece(kDigestPiece);
    for (uint64_t at = 0; at < objects_[object].bytes;) {
      const std::span<std::byte> bytes = std::span(piece).first(
          static_cast<size_t>(std::min<uint64_t>(kDigestPiece, objects_[object].bytes - at)));
      if (!fd.is_open() || !ReadAt(fd.get(), at, bytes)) {
        return IoError("cannot read", path);
      }
      digest.Add(bytes);
      at += bytes.size();
      PS_TRY(progress_->Advance(0));
    }
    return digest.Hex();
  }

  /// Compares a whole object with its tag. Not every store's tags are MD5s, and not of every
  /// object: which they are shows when another transfer brings the same bytes.
  Status CheckDigest(size_t object, store::ObjectReader* reader) {
    const std::string& etag = objects_[object].etag;
    if (!IsMd5(etag) || are_tags_other_) {
      return Status::Ok();
    }
    PS_ASSIGN(const std::optional<std::string> first, DigestOf(object));
    if (!first || *first == etag) {
      return Status::Ok();
    }
    for (uint64_t at = 0; at < objects_[object].bytes; at += options_.range_bytes) {
      const uint64_t left = objects_[object].bytes - at;
      PS_TRY(Fetch(
          {.object = object,
           .offset = at,
           .bytes = static_cast<size_t>(std::min<uint64_t>(left, options_.range_bytes))},
          reader));
    }
    PS_ASSIGN(const std::optional<std::string> second, DigestOf(object));
    if (second == first) {
      are_tags_other_ = true;
      return Status::Ok();
    }
    return second == etag ? Status::Ok()
                          : Status::Corruption(fmt::format(
                                "{} came twice, differently, and its MD5 was {} instead of {} at "
                                "last; something on the way damages what is sent",
                                Printable(Clip(objects_[object].name, 200)),
                                second.value_or("none"),
                                etag));
  }

  /// Files and their names are on the disk for good.
  Status Sync() const {
    const UniqueFd fd(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return fd.is_open() && ::syncfs(fd.get()) == 0 ? Status::Ok()
                                                   : OnDisk(IoError("cannot sync", folder_), errno);
  }

  bool GoesOn() const { return !progress_->is_cancelled() && !is_over_; }

  bool Pause(Duration wait) {
    constexpr auto kLook = std::chrono::milliseconds(100);
    const TimePoint end = SystemTime().Now() + wait;
    while (GoesOn()) {
      std::unique_lock lock(mutex_);
      const Duration left = end - SystemTime().Now();
      if (left <= Duration(0)) {
        return true;
      }
      changed_.wait_for(lock, std::min<Duration>(left, kLook));
    }
    return false;
  }

  // Constant.
  const store::S3Access& access_;
  const std::vector<store::StoredObject>& objects_;
  const std::string folder_;
  LoadProgress* const progress_;
  const FetchOptions options_;
  uint64_t bytes_ = 0;

  std::unique_ptr<FetchJournal> journal_;  // any thread
  std::atomic<bool> is_over_ = false;
  std::atomic<bool> is_in_trouble_ = false;
  std::atomic<bool> are_tags_other_ = false;

  // Guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable changed_;
  Range next_;
  std::vector<uint64_t> ranges_left_;
  Status failure_;
};

}  // namespace

Status FetchObjects(
    const store::S3Access& access,
    const std::vector<store::StoredObject>& objects,
    const std::string& state,
    const std::string& folder,
    LoadProgress* progress,
    const FetchOptions& options) {
  return ObjectFetch(access, objects, folder, progress, options).Run(state);
}

}  // namespace ps::worker
