#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "worker/data/mapped_file.h"

namespace ps::worker {

enum class ElementType : uint8_t { kU8, kU16, kU32, kI8, kI16, kI32, kI64, kF32 };

/// "uint8", ...: numpy's name.
std::string_view ElementTypeName(ElementType type);
/// "|u1", ...: as a file's header has it.
std::string_view ElementDescr(ElementType type);
/// Bytes of one.
size_t ElementSize(ElementType type);

/// An array as numpy.save writes it, on disk:
///   6 bytes    \x93NUMPY
///   u8, u8     version: 1.0, 2.0 or 3.0
///   u16 or u32 length of the header (u32 from version 2 on), little-endian
///   header     {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), } as text
///   elements   row by row, little-endian, to the end of the file
/// The types taken are |u1, <u2, <u4, |i1, <i2, <i4, <i8 and <f4.
class NpyFile {
 public:
  static constexpr size_t kDimsMax = 8;

  /// What an array is for: its errors advise a type that it is then taken in.
  enum class Use : uint8_t {
    kInputs,
    kLabels,
    kTargets,  // numbers that are learnt
  };

  /// Reads the header and compares the size of the file with it.
  /// Errors: kNotFound, kIo; kCorruption with file, byte and what to do.
  static Result<NpyFile> Open(const std::string& path, Use use = Use::kInputs);

  ElementType type() const { return type_; }

  /// At least one dimension, each at least 1.
  const std::vector<int64_t>& shape() const { return shape_; }

  uint64_t rows() const { return static_cast<uint64_t>(shape_.front()); }

  /// Elements of one row: the product of the other dimensions.
  uint64_t row_size() const { return row_size_; }

  const std::string& path() const { return file_.path(); }

  std::span<const uint8_t> data() const { return file_.bytes().subspan(offset_); }

  /// Where data() begins in the file.
  size_t offset() const { return offset_; }

  void Expect(MappedFile::Pattern pattern) const { file_.Expect(pattern); }

  /// Element `i` as a whole number. Requires: a type that is no float.
  int64_t WholeAt(uint64_t i) const;
  /// Requires: kF32.
  float FloatAt(uint64_t i) const;

  /// Element `i` of any type.
  float NumberAt(uint64_t i) const {
    return type() == ElementType::kF32 ? FloatAt(i) : static_cast<float>(WholeAt(i));
  }

  /// kCorruption: "<path>: byte <of element i>: <message>".
  Status BadElement(uint64_t i, std::string_view message) const;

 private:
  NpyFile(MappedFile file, ElementType type, std::vector<int64_t> shape, size_t offset);

  MappedFile file_;
  ElementType type_;
  std::vector<int64_t> shape_;
  size_t offset_;
  uint64_t row_size_ = 1;
};

}  // namespace ps::worker
