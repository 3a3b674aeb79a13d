#pragma once

#include <cstddef>
#include <vector>

#include "checkpoint/model/safetensors.h"
#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"

namespace ps::checkpoint {

/// Names and shapes of all tensors of a file, in its order.
std::vector<TensorSpec> TensorsOf(const SafetensorsReader& reader);

/// Writes them all, in this order, as tensors `first` and following of another file. Requires: that
/// one has them. Errors: those of SafetensorsReader::Read and SafetensorsWriter::Write.
Status CopyTensors(const SafetensorsReader& from, size_t first, SafetensorsWriter* to);

}  // namespace ps::checkpoint
