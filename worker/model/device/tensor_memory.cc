#include "worker/model/device/tensor_memory.h"

namespace ps::worker {

Status TensorMemory::Reserve(
    kernels::Backend* backend, const Model& model, const proto::TensorLayout& layout) {
  if (memory_ != nullptr) {
    return Status::Ok();
  }
  const size_t size_bytes = static_cast<size_t>(layout.element_count()) * sizeof(float);
  PS_ASSIGN(memory_, backend->AllocateDevice(size_bytes));
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const auto size = static_cast<size_t>(model.tensors[i].element_count());
    spans_.emplace_back(memory_->floats() + layout.OffsetOf(i), size);
    const_spans_.emplace_back(spans_.back());
  }
  return Status::Ok();
}

}  // namespace ps::worker
