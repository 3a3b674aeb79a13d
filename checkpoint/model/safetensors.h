#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/model/safetensors_header.h"
#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"
#include "ps/base/unique_fd.h"

namespace ps::checkpoint {

/// Writes a model as a safetensors file, piece by piece, so that it is never in memory as a whole.
/// The file is under a temporary name until it is complete. Moves, does not copy; destroyed before
/// Finish it removes the temporary file. Thread: one at a time.
class SafetensorsWriter {
 public:
  /// `type` is that of all tensors. `metadata` is text for people. Errors: kIo with the path.
  static Result<SafetensorsWriter> Create(
      const std::string& path,
      std::span<const TensorSpec> tensors,
      ElementType type,
      std::map<std::string, std::string> metadata);
  /// The same with a type for each tensor; they lie in the file as LayOut says.
  static Result<SafetensorsWriter> Create(
      const std::string& path,
      std::vector<StoredTensor> tensors,
      std::map<std::string, std::string> metadata);

  SafetensorsWriter(SafetensorsWriter&& other) noexcept = default;
  SafetensorsWriter& operator=(SafetensorsWriter&& other) = delete;
  ~SafetensorsWriter();

  /// Writes elements [begin, begin + values.size()) of a tensor, each element once, in any order.
  /// Requires: the tensor has them. Errors: kIo with the path; kCorruption naming tensor and
  /// element where a value is NaN, infinite, or becomes so as `type`, and kUnsupported where that
  /// is no float.
  Status Write(size_t tensor, int64_t begin, std::span<const float> values);

  /// Writes bytes [begin, begin + bytes.size()) of a tensor as they are, each byte once. Errors:
  /// kIo with the path.
  Status WriteBytes(size_t tensor, uint64_t begin, std::span<const std::byte> bytes);

  /// Makes the file durable and gives it its name; one of that name is replaced. Nothing may
  /// follow. Errors: kIo with the path; kInvalidArgument naming the tensor that lacks elements.
  Status Finish();

  const std::string& path() const { return path_; }

  ElementType TypeOf(size_t tensor) const { return tensors_[tensor].type; }

 private:
  SafetensorsWriter(std::string path, std::vector<StoredTensor> tensors);

  std::string path_;
  std::string draft_path_;
  std::vector<StoredTensor> tensors_;
  std::vector<uint64_t> written_;  // bytes of each tensor
  uint64_t data_at_ = 0;           // offset of the data in the file
  UniqueFd fd_;
};

/// Reads one. Thread: any, one at a time.
class SafetensorsReader {
 public:
  /// Reads and checks the header. Errors: kNotFound, kIo, kCorruption, kUnsupported; all name the
  /// path, and the tensor that is at fault.
  static Result<SafetensorsReader> Open(const std::string& path);

  const SafetensorsHeader& header() const { return header_; }

  const std::string& path() const { return path_; }

  /// Elements [begin, begin + out.size()) of a tensor of the header, as f32; f64 is rounded to the
  /// nearest. Requires: the tensor has them. Errors: kIo, kCorruption (the file was cut; a value is
  /// NaN or infinite, naming tensor and element).
  Status Read(const StoredTensor& tensor, int64_t begin, std::span<float> out) const;

  /// Bytes [begin, begin + out.size()) of a tensor of the header, as they are. Requires: the tensor
  /// has them. Errors: kIo, kCorruption (the file was cut).
  Status ReadBytes(const StoredTensor& tensor, uint64_t begin, std::span<std::byte> out) const;

 private:
  SafetensorsReader() = default;

  Status ReadValues(const StoredTensor& tensor, int64_t begin, std::span<float> out) const;

  std::string path_;
  SafetensorsHeader header_;
  uint64_t data_at_ = 0;
  UniqueFd fd_;
};

}  // namespace ps::checkpoint
