#include "checkpoint/storage/file_mark.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "ps/base/check.h"
#include "ps/base/durable_file.h"
#include "ps/base/file.h"
#include "ps/base/unique_fd.h"

namespace ps::checkpoint {
namespace {

/// The text and newlines up to here: a text takes the place of another one byte for byte.
constexpr size_t kFileBytes = Mark::kBytesMax + 1;

/// One write within a page, which a kill does not divide.
class FileMark final : public Mark {
 public:
  FileMark(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Result<std::string> Read() override {
    std::array<char, kFileBytes> bytes;
    ssize_t n = 0;
    do {
      n = ::pread(fd_.get(), bytes.data(), bytes.size(), 0);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
      return IoError("cannot read", path_);
    }
    const std::string text(bytes.data(), static_cast<size_t>(n));
    return text.substr(0, text.find('\n'));
  }

  Status Write(std::string_view text) override {
    PS_CHECK(text.size() <= kBytesMax) << text;
    std::array<char, kFileBytes> bytes;
    bytes.fill('\n');
    text.copy(bytes.data(), text.size());
    ssize_t n = 0;
    do {
      n = ::pwrite(fd_.get(), bytes.data(), bytes.size(), 0);
    } while (n < 0 && errno == EINTR);
    return n == static_cast<ssize_t>(bytes.size()) ? Status::Ok() : IoError("cannot write", path_);
  }

  /// Its space on the disk, whatever the file system puts off.
  Status TakeSpace() {
    PS_TRY(Write(""));
    return ::fsync(fd_.get()) == 0 ? Status::Ok() : IoError("cannot sync", path_);
  }

 private:
  const UniqueFd fd_;
  const std::string path_;
};

}  // namespace

Result<std::unique_ptr<Mark>> OpenFileMark(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.is_open()) {
    return IoError("cannot open", path);
  }
  const off_t bytes = ::lseek(fd.get(), 0, SEEK_END);
  auto mark = std::make_unique<FileMark>(std::move(fd), path);
  if (bytes < static_cast<off_t>(kFileBytes)) {
    PS_TRY(mark->TakeSpace());
    PS_TRY(SyncDirectory(std::filesystem::path(path).parent_path().string()));
  }
  return std::unique_ptr<Mark>(std::move(mark));
}

}  // namespace ps::checkpoint
