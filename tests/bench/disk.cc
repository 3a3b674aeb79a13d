#include "tests/bench/disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "ps/base/check.h"
#include "ps/base/unique_fd.h"

namespace ps::bench {
namespace {

namespace fs = std::filesystem;

UniqueFd OpenRaw(const Folder& folder, int flags) {
  UniqueFd fd(::open((folder.path() + "/raw").c_str(), flags | O_CLOEXEC, 0600));
  PS_CHECK(fd.is_open()) << folder.path();
  return fd;
}

}  // namespace

uint64_t Folder::bytes() const {
  uint64_t sum = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path())) {
    sum += entry.is_regular_file() ? entry.file_size() : 0;
  }
  return sum;
}

void Folder::Forget() const {
  for (const auto& entry : fs::recursive_directory_iterator(path())) {
    const UniqueFd fd(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    PS_CHECK(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED) == 0 || !fd.is_open());
  }
}

void WriteRaw(const Folder& folder, std::span<const std::span<const std::byte>> pieces) {
  const UniqueFd fd = OpenRaw(folder, O_WRONLY | O_CREAT | O_TRUNC);
  for (const std::span<const std::byte> piece : pieces) {
    PS_CHECK(::write(fd.get(), piece.data(), piece.size()) == static_cast<ssize_t>(piece.size()));
  }
  PS_CHECK(::fdatasync(fd.get()) == 0);
}

void ReadRaw(const Folder& folder, std::span<const std::span<std::byte>> places) {
  const UniqueFd fd = OpenRaw(folder, O_RDONLY);
  for (const std::span<std::byte> place : places) {
    PS_CHECK(::read(fd.get(), place.data(), place.size()) == static_cast<ssize_t>(place.size()));
  }
}

void ReadThrough(const Folder& folder) {
  const UniqueFd fd = OpenRaw(folder, O_RDONLY);
  std::vector<std::byte> room(size_t{1} << 20);
  while (::read(fd.get(), room.data(), room.size()) > 0) {
  }
}

}  // namespace ps::bench
