#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ps/base/status.h"

namespace ps::worker {

/// A file as memory, read-only. Pages come from the disk when they are looked at and go when memory
/// is short. Whoever cuts the file short meanwhile ends this process (SIGBUS).
class MappedFile {
 public:
  /// Errors: kNotFound, kIo, kCorruption (empty), all with the path.
  static Result<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }

  std::span<const uint8_t> bytes() const { return bytes_; }

  /// How it will be read. kPieces: less than some 64 KiB here and there, so what is around them
  /// stays on the disk.
  enum class Pattern : uint8_t { kUsual, kPieces };
  void Expect(Pattern pattern) const;

 private:
  MappedFile(std::string path, std::span<const uint8_t> bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::span<const uint8_t> bytes_;
};

}  // namespace ps::worker
