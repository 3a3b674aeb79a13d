#include "worker/data/set_cache.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <future>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "ps/base/crc32c.h"
#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "ps/base/time.h"
#include "ps/base/unique_fd.h"
#include "worker/data/data_listing.h"
#include "worker/data/folder_keeper.h"

namespace ps::worker {
namespace {

namespace fs = std::filesystem;

/// Less is made as quickly as it is found.
constexpr uint64_t kBytesMin = uint64_t{16} << 20;
constexpr auto kPoll = std::chrono::milliseconds(100);
/// A draft that nobody has written to for so long is nobody's.
constexpr auto kDraftAge = std::chrono::hours(1);
constexpr auto kUnusedAge = std::chrono::hours(24 * 30);
constexpr std::string_view kDraft = "draft-";
constexpr size_t kNameLetters = 16;  // of a slot, and of a state in it

std::string NameOf(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return fmt::format("{:08x}{:08x}", Crc32c(bytes), Crc32c(bytes, ~uint32_t{0}));
}

std::string TextOf(const CacheKey& key) {
  return key.what + "\n" + key.state;
}

bool IsThere(const std::string& folder, const CacheKey& key) {
  const std::string text = TextOf(key);
  const Result<std::string> stored = ReadFile(folder + "/key", text.size());
  return stored.ok() && *stored == text;
}

void Remove(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

std::chrono::nanoseconds AgeOf(const fs::path& path) {
  std::error_code error;
  const fs::file_time_type time = fs::last_write_time(path, error);
  return error ? std::chrono::nanoseconds(0)
               : std::chrono::nanoseconds(fs::file_time_type::clock::now() - time);
}

/// How long ago something in a folder was last written to.
std::chrono::nanoseconds IdleOf(const fs::path& folder) {
  std::chrono::nanoseconds age = AgeOf(folder);
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    age = std::min(age, AgeOf(at->path()));
  }
  return age;
}

std::vector<fs::path> FoldersIn(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code unknown;
    if (at->is_directory(unknown)) {
      found.push_back(at->path());
    }
  }
  return found;
}

bool IsDraft(const fs::path& folder) {
  return folder.filename().string().starts_with(kDraft);
}

/// Whether some draft in a slot grows.
bool IsBeingMade(const fs::path& slot, std::chrono::milliseconds patience) {
  for (const fs::path& folder : FoldersIn(slot)) {
    if (IsDraft(folder) && IdleOf(folder) < patience) {
      return true;
    }
  }
  return false;
}

Status Unusable(const std::string& cache, const Status& why) {
  return Status::Unavailable(fmt::format("the cache {} can't be used: {}", cache, why.message()));
}

/// Held by who makes what a slot is for. Without it (a file system that has no locks, a holder that
/// stands still) the same is made twice, each in its own draft.
class SlotLock {
 public:
  explicit SlotLock(const std::string& slot)
      : fd_(::open((slot + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {}

  /// Whether somebody else holds it.
  bool IsTaken() {
    return fd_.is_open() && ::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  }

 private:
  UniqueFd fd_;
};

/// Waits while another makes it. True: it is there.
Result<bool> AwaitOther(
    const std::string& slot,
    const std::string& folder,
    const CacheKey& key,
    SlotLock* lock,
    LoadProgress* progress,
    std::chrono::milliseconds patience) {
  const TimePoint begin = SystemTime().Now();
  while (lock->IsTaken()) {
    if (IsThere(folder, key)) {
      progress->SetTrouble("");
      return true;
    }
    progress->SetTrouble("another process of this machine makes it ready");
    if (SystemTime().Now() - begin > patience && !IsBeingMade(slot, patience)) {
      break;
    }
    PS_TRY(progress->Advance(0));
    std::promise<void>().get_future().wait_for(kPoll);
  }
  progress->SetTrouble("");
  return IsThere(folder, key);
}

/// Whether NameOf could have made it: data.cache may be a folder with much else in it.
bool IsSlotName(const std::string& name) {
  return name.size() == kNameLetters &&
         name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// What nobody will ask for: other states than `kept` that nobody has asked for lately, drafts of
/// processes that were killed, and slots that are not used.
void RemoveOld(
    const std::string& cache,
    const fs::path& slot,
    const fs::path& kept,
    std::chrono::seconds others_stay) {
  for (const fs::path& folder : FoldersIn(slot)) {
    if (folder != kept &&
        (IsDraft(folder) ? IdleOf(folder) > kDraftAge : AgeOf(folder) >= others_stay)) {
      Remove(folder);
    }
  }
  for (const fs::path& other : FoldersIn(cache)) {
    if (other != slot && IsSlotName(other.filename().string()) &&
        AgeOf(other / "lock") > kUnusedAge) {
      Remove(other);
    }
  }
}

Status Make(
    const std::string& draft,
    const LoadProgress* progress,
    const std::function<Status(const std::string& folder)>& make) {
  // Who has stopped is not waited for; who reads for minutes before it writes has not.
  const FolderKeeper keeper(draft, [progress, seen = progress->done()]() mutable {
    return std::exchange(seen, progress->done()) != seen;
  });
  return make(draft);
}

}  // namespace

Result<CacheKey> KeyOf(std::string what, const std::vector<std::string>& files) {
  CacheKey key{std::move(what), {}};
  for (const std::string& file : files) {
    struct stat state = {};
    if (::stat(file.c_str(), &state) != 0) {
      return IoError("cannot read", file);
    }
    const fs::path path(file);
    key.state += fmt::format(
        "{}/{} {} {}.{:09}\n",
        path.parent_path().filename().string(),
        path.filename().string(),
        state.st_size,
        state.st_mtim.tv_sec,
        state.st_mtim.tv_nsec);
  }
  return key;
}

std::optional<std::string> CacheOf(const proto::DataConfig& config, uint64_t bytes) {
  if (config.cache == "off") {
    return std::nullopt;
  }
  if (!config.cache.empty()) {
    return config.cache;
  }
  std::array<char, 16384> texts{};
  passwd entry{};
  passwd* found = nullptr;
  const int error = ::getpwuid_r(::getuid(), &entry, texts.data(), texts.size(), &found);
  if (error != 0 || found == nullptr || bytes < kBytesMin) {
    return std::nullopt;
  }
  return std::string(found->pw_dir) + "/.cache/spotps/data";
}

Result<std::string> FindOrMake(
    const std::string& cache,
    const CacheKey& key,
    LoadProgress* progress,
    const std::function<Status(const std::string& folder)>& make,
    std::chrono::milliseconds patience) {
  const std::string slot = cache + "/" + NameOf(key.what);
  const std::string folder = slot + "/" + NameOf(key.state);
  if (const Status made = CreateDirectories(slot); !made.ok() && !IsThere(folder, key)) {
    return Unusable(cache, made);
  }
  SlotLock lock(slot);
  (void)::utimensat(AT_FDCWD, (slot + "/lock").c_str(), nullptr, 0);  // it is in use
  bool is_there = IsThere(folder, key);
  if (!is_there) {
    PS_ASSIGN(is_there, AwaitOther(slot, folder, key, &lock, progress, patience));
  }
  if (is_there) {
    (void)::utimensat(AT_FDCWD, folder.c_str(), nullptr, 0);
    RemoveOld(cache, slot, folder, key.others_stay);
    return folder;
  }
  static std::atomic<uint64_t> next = 0;
  const std::string draft = fmt::format("{}/{}{}-{}", slot, kDraft, ::getpid(), next++);
  PS_TRY(
      CreateDirectories(draft).ok() ? Status::Ok()
                                    : Unusable(cache, IoError("cannot create", draft)));
  Status made = Make(draft, progress, make);
  if (made.ok()) {
    made = WriteFileAtomically(draft + "/key", TextOf(key));
    if (made.ok()) {
      if (!IsThere(folder, key)) {
        Remove(folder);  // one that is not whole
        made = MoveIntoPlace(draft, folder);
      }
      made = IsThere(folder, key) ? Status::Ok() : made;
    }
    made = made.ok() ? made : Unusable(cache, made);
  }
  Remove(draft);
  PS_TRY(std::move(made));
  RemoveOld(cache, slot, folder, key.others_stay);
  return folder;
}

std::optional<std::string> FindMade(const std::string& cache, const std::string& what) {
  constexpr size_t kKeyBytesMax = size_t{64} << 20;
  const std::string slot = cache + "/" + NameOf(what);
  for (const fs::path& folder : FoldersIn(slot)) {
    const Result<std::string> key = ReadFile((folder / "key").string(), kKeyBytesMax);
    if (!IsDraft(folder) && key.ok() && key->starts_with(what + "\n")) {
      (void)::utimensat(AT_FDCWD, (slot + "/lock").c_str(), nullptr, 0);  // it is in use
      return folder.string();
    }
  }
  return std::nullopt;
}

Result<bool> OpenOrMake(
    const proto::DataConfig& config,
    const std::string& what,
    const std::vector<std::string>& files,
    LoadProgress* progress,
    const std::function<Status(const std::string& folder)>& make,
    const std::function<Status(const std::string& folder)>& open,
    std::string* note) {
  uint64_t bytes = 0;
  for (const std::string& file : files) {
    bytes += StoredBytes(file);
  }
  const std::optional<std::string> cache = CacheOf(config, bytes);
  if (!cache) {
    return false;
  }
  PS_ASSIGN(const CacheKey key, KeyOf(what, files));
  Status status;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Result<std::string> folder = FindOrMake(*cache, key, progress, make);
    status = folder.status();
    if (!folder.ok()) {
      break;
    }
    status = open(*folder);
    if (status.ok()) {
      return true;
    }
    Remove(*folder);
    status = OfCache(status);
  }
  if (status.code() != StatusCode::kUnavailable) {
    return status;
  }
  *note = fmt::format("data is made anew, in memory: {}", status.message());
  return false;
}

Status OfCache(const Status& written) {
  return written.ok() ? written : Status::Unavailable(std::string(written.message()));
}

std::string Canonical(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::canonical(path, error);
  return error ? path : whole.string();
}

}  // namespace ps::worker
