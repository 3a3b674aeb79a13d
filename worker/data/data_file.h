#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"

struct gzFile_s;  // NOLINT(readability-identifier-naming): zlib's name for its gzFile

namespace ps::worker {

/// Reads a file from front to back, unpacking it when it is gzip. Its errors name the file and the
/// byte, counted in the unpacked data.
class DataFile {
 public:
  /// Errors: kNotFound, kIo.
  static Result<DataFile> Open(const std::string& path);

  /// Exactly out.size() bytes. Errors: kCorruption when the file ends before that or is damaged.
  Status Read(std::span<uint8_t> out);
  /// How many bytes arrived: fewer than asked for only at the end. Errors: kIo, kCorruption.
  Result<size_t> ReadSome(std::span<uint8_t> out);
  Result<uint32_t> ReadBigEndian32();
  /// Appends `size_bytes` to `out`. Takes memory as data arrives, whatever a header claimed.
  Status Append(uint64_t size_bytes, std::vector<uint8_t>* out);
  /// One byte, or false at the end, when zlib has compared the checksum of all that was read.
  Result<bool> ReadByteUnlessAtEnd(uint8_t* byte);

  /// kCorruption: "<path>: byte <offset>: <message>".
  Status Bad(uint64_t offset, std::string_view message) const;

  uint64_t offset() const { return offset_; }

 private:
  struct Closer {
    void operator()(gzFile_s* file) const;
  };

  DataFile(std::string path, gzFile_s* file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  std::unique_ptr<gzFile_s, Closer> file_;
  uint64_t offset_ = 0;
};

}  // namespace ps::worker
