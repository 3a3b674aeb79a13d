#include "checkpoint/model/safetensors_copy.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace ps::checkpoint {
namespace {

constexpr int64_t kCopiedElements = int64_t{1} << 16;

}  // namespace

std::vector<TensorSpec> TensorsOf(const SafetensorsReader& reader) {
  std::vector<TensorSpec> tensors;
  for (const StoredTensor& tensor : reader.header().tensors) {
    tensors.push_back({tensor.name, tensor.shape});
  }
  return tensors;
}

Status CopyTensors(const SafetensorsReader& from, size_t first, SafetensorsWriter* to) {
  std::vector<float> piece(kCopiedElements);
  for (const StoredTensor& tensor : from.header().tensors) {
    for (int64_t begin = 0; begin < tensor.element_count; begin += kCopiedElements) {
      const auto count = std::min(kCopiedElements, tensor.element_count - begin);
      const auto values = std::span(piece).first(static_cast<size_t>(count));
      PS_TRY(from.Read(tensor, begin, values));
      PS_TRY(to->Write(first, begin, values));
    }
    ++first;
  }
  return Status::Ok();
}

}  // namespace ps::checkpoint
