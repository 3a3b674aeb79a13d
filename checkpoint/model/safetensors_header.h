#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"

namespace ps::checkpoint {

/// How an element is stored. What is no float is what others count or choose with
/// (torch.nn.BatchNorm2d does): none of a model's tensors, and copied as it is.
enum class ElementType : uint8_t {
  kF64,
  kF32,
  kF16,
  kBf16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,  // a byte, 0 or 1
};

inline constexpr size_t kElementTypes = 13;

/// "F32", ...: the name in the file.
std::string_view ElementTypeName(ElementType type);
uint64_t ElementBytes(ElementType type);

constexpr bool IsFloat(ElementType type) {
  return type <= ElementType::kBf16;
}

/// A tensor in a safetensors file: dense, row-major, little-endian.
struct StoredTensor {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<int64_t> shape;
  int64_t element_count = 0;
  uint64_t begin = 0;  // in bytes from the start of the data

  uint64_t byte_count() const { return static_cast<uint64_t>(element_count) * ElementBytes(type); }
};

/// The JSON part of a safetensors file, which begins with its length as u64.
struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;            // as they lie in the file, back to back
  std::map<std::string, std::string> metadata;  // for people; UTF-8

  /// Null when there is none.
  const StoredTensor* Find(std::string_view name) const;

  uint64_t data_bytes() const {
    return tensors.empty() ? 0 : tensors.back().begin + tensors.back().byte_count();
  }
};

/// Longer ones are refused, as by the reference implementation.
inline constexpr uint64_t kSafetensorsHeaderMax = 100'000'000;
/// A file begins with the length of its header in so many bytes, little-endian.
inline constexpr uint64_t kSafetensorsLengthBytes = 8;

/// Reads the JSON, which `data_bytes` of data follow. Takes any bytes. Errors: kCorruption naming
/// the tensor or the byte (no such JSON; offsets that overlap, leave gaps or do not fit shape and
/// type; more or less data than the tensors need), kUnsupported (an element type).
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, uint64_t data_bytes);

/// The length and the JSON, padded so that the data start at a multiple of 64 bytes. What is no
/// UTF-8 becomes the replacement character.
std::string PrintSafetensorsHeader(const SafetensorsHeader& header);

/// "[128,784]".
std::string ShapeText(const std::vector<int64_t>& shape);

/// Places for the tensors, back to back: those of larger elements first, so that each begins at a
/// multiple of its element, which readers of others need; else in their order.
void LayOut(std::vector<StoredTensor>* tensors);

/// The header of a file with these tensors, in their order.
SafetensorsHeader HeaderOf(
    std::span<const TensorSpec> tensors,
    ElementType type,
    std::map<std::string, std::string> metadata);

}  // namespace ps::checkpoint
