#include "checkpoint/remote/directory_store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "ps/base/unique_fd.h"

namespace ps::checkpoint {
namespace {

/// Ends the name of a file that is being written. No key has a dot.
constexpr std::string_view kUnfinished = ".part";

class DirectoryStore final : public store::ObjectStore {
 public:
  explicit DirectoryStore(std::string root) : root_(std::move(root)) {}

  std::string name() const override { return root_.empty() ? "/" : root_; }

  Status Put(std::string_view key, std::span<const std::byte> bytes) override {
    PS_TRY(store::CheckObjectKey(key));
    const std::string path = PathOf(key);
    const std::string folder = std::filesystem::path(path).parent_path().string();
    PS_TRY(CreateDirectories(folder));
    // Two processes that write the same object do not meet under one name.
    const std::string unfinished = fmt::format("{}.{}{}", path, ::getpid(), kUnfinished);
    Status written = Write(unfinished, bytes);
    if (written.ok()) {
      written = MoveIntoPlace(unfinished, path);
    }
    if (!written.ok()) {
      ::unlink(unfinished.c_str());
    }
    return written;
  }

  Result<std::vector<std::byte>> Get(std::string_view key, size_t bytes_max) override {
    PS_TRY(store::CheckObjectKey(key));
    Result<std::string> text = ReadFile(PathOf(key), bytes_max);
    if (text.status().code() == StatusCode::kInvalidArgument) {
      return Status::Corruption(std::string(text.status().message()));
    }
    if (!text.ok()) {
      return std::move(text).status();
    }
    const std::span<const std::byte> bytes = std::as_bytes(std::span(*text));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  }

  Result<std::vector<store::ObjectInfo>> List(std::string_view prefix) override {
    const std::string folder = PathOf(prefix);
    std::vector<store::ObjectInfo> objects;
    std::error_code error;
    using Iterator = std::filesystem::recursive_directory_iterator;
    for (Iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      const std::string path = it->path().string();
      if (path.ends_with(kUnfinished) || !it->is_regular_file(error)) {
        continue;
      }
      const uint64_t bytes = it->file_size(error);
      if (error == std::errc::no_such_file_or_directory) {
        error.clear();  // deleted since
        continue;
      }
      const std::string key = path.substr(root_.size() + 1);
      if (store::CheckObjectKey(key).ok()) {
        objects.push_back({.key = key, .bytes = bytes});
      }
    }
    if (error && error != std::errc::no_such_file_or_directory) {
      return Status::Io(fmt::format("cannot read {}: {}", folder, error.message()));
    }
    std::sort(
        objects.begin(), objects.end(), [](const store::ObjectInfo& a, const store::ObjectInfo& b) {
          return a.key < b.key;
        });
    return objects;
  }

  Status Delete(std::string_view key) override {
    PS_TRY(store::CheckObjectKey(key));
    const std::string path = PathOf(key);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      return IoError("cannot delete", path);
    }
    return Status::Ok();
  }

 private:
  std::string PathOf(std::string_view key) const { return root_ + "/" + std::string(key); }

  static Status Write(const std::string& path, std::span<const std::byte> bytes) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!fd.is_open()) {
      return IoError("cannot create", path);
    }
    PS_TRY(WriteAll(fd.get(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path));
    return ::fsync(fd.get()) == 0 ? Status::Ok() : IoError("cannot sync", path);
  }

  const std::string root_;
};

}  // namespace

std::unique_ptr<store::ObjectStore> MakeDirectoryStore(std::string root) {
  while (root.ends_with('/')) {
    root.pop_back();  // "/" becomes "", before whose slash nothing stands
  }
  return std::make_unique<DirectoryStore>(std::move(root));
}

}  // namespace ps::checkpoint
