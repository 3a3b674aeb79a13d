#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ps/base/status.h"
#include "ps/base/unique_fd.h"
#include "worker/data/npy/npy_file.h"

namespace ps::worker {

/// Writes an array as NpyFile reads it, row by row, without knowing how many there will be.
class NpyWriter {
 public:
  /// Elements begin here, whatever their number: aligned for any type.
  static constexpr size_t kHeaderBytes = 128;

  /// A row has `row_size` elements; 0: it is a number by itself. Errors: kIo.
  static Result<NpyWriter> Create(const std::string& path, ElementType type, uint64_t row_size);

  /// Whole rows, little-endian. Errors: kIo.
  Status Append(std::span<const std::byte> rows);

  /// Says how many there are, and waits until all is on the disk. Errors: kIo.
  Status Finish();

 private:
  NpyWriter(UniqueFd fd, std::string path, ElementType type, uint64_t row_size)
      : fd_(std::move(fd)), path_(std::move(path)), type_(type), row_size_(row_size) {}

  Status WriteHeader(uint64_t rows);

  UniqueFd fd_;
  std::string path_;
  ElementType type_;
  uint64_t row_size_;
  uint64_t bytes_ = 0;
};

/// A whole array. Errors: kIo.
Status WriteNpy(
    const std::string& path, ElementType type, uint64_t row_size, std::span<const std::byte> rows);

}  // namespace ps::worker
