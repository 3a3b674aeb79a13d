#include "worker/data/mapped_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "ps/base/file.h"
#include "ps/base/unique_fd.h"

namespace ps::worker {

Result<MappedFile> MappedFile::Open(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) {
    return errno == ENOENT ? Status::NotFound(fmt::format("{}: no such file", path))
                           : IoError("cannot open", path);
  }
  struct stat state = {};
  if (::fstat(fd.get(), &state) != 0) {
    return IoError("cannot read", path);
  }
  if (!S_ISREG(state.st_mode)) {
    return Status::Corruption(fmt::format("{}: not a regular file", path));
  }
  const auto size = static_cast<size_t>(state.st_size);
  if (size == 0) {
    return Status::Corruption(fmt::format("{}: byte 0: the file is empty", path));
  }
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) {
    return IoError("cannot map", path);
  }
  return MappedFile(path, {static_cast<const uint8_t*>(memory), size});
}

void MappedFile::Expect(Pattern pattern) const {
  // It only speeds up: a system that refuses reads as it did.
  (void)::madvise(
      const_cast<uint8_t*>(bytes_.data()),
      bytes_.size(),
      pattern == Pattern::kPieces ? MADV_RANDOM : MADV_NORMAL);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    ::munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
  }
}

}  // namespace ps::worker
