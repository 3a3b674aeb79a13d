#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "worker/data/load_progress.h"

namespace ps::worker {

/// Reads a file from front to back, unpacking it when it is gzip. Its errors name the file and the
/// byte, counted in the unpacked data.
class DataFile {
 public:
  /// `progress`, if any, is told what is read from disk, and ends reading with kCancelled.
  /// Errors: kNotFound, kIo.
  static Result<DataFile> Open(const std::string& path, LoadProgress* progress = nullptr);

  /// Exactly out.size() bytes. Errors: kCorruption when the file ends before that or is damaged.
  Status Read(std::span<uint8_t> out);
  /// How many bytes arrived: fewer than asked for only at the end. Errors: kIo, kCorruption.
  Result<size_t> ReadSome(std::span<uint8_t> out);
  Result<uint32_t> ReadBigEndian32();
  /// Appends `size_bytes` to `out`. Takes memory as data arrives, whatever a header claimed.
  Status Append(uint64_t size_bytes, std::vector<uint8_t>* out);
  /// One byte, or false at the end, when the checksum of all that was read has been compared.
  Result<bool> ReadByteUnlessAtEnd(uint8_t* byte);

  /// kCorruption: "<path>: byte <offset>: <message>".
  Status Bad(uint64_t offset, std::string_view message) const;

  uint64_t offset() const { return offset_; }

 private:
  struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  class Unpacker;

  struct UnpackerDeleter {
    void operator()(Unpacker* unpacker) const;
  };

  DataFile(std::string path, LoadProgress* progress)
      : path_(std::move(path)), progress_(progress) {}

  /// Up to out.size() bytes as they are on disk; 0 at the end. Errors: kIo, kCancelled.
  Result<size_t> ReadStored(std::span<uint8_t> out);
  /// Reads on until `stored_` has `least` bytes, or all that are left. Errors: kIo.
  Status FillStored(size_t least);
  /// Up to out.size() unpacked bytes, of any number of gzip members; 0 at the end.
  Result<size_t> Unpack(std::span<uint8_t> out);
  /// Up to out.size() bytes of a plain file; 0 at the end.
  Result<size_t> ReadPlain(std::span<uint8_t> out);

  std::string path_;
  LoadProgress* progress_;  // may be null
  std::unique_ptr<std::FILE, FileCloser> file_;
  /// Null when the file is plain.
  std::unique_ptr<Unpacker, UnpackerDeleter> unpacker_;
  /// What was read from disk; `stored_` is the part that nobody has taken.
  std::vector<uint8_t> buffer_;
  std::span<const uint8_t> stored_;
  uint64_t offset_ = 0;
};

}  // namespace ps::worker
