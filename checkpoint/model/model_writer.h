#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/model/safetensors.h"
#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"

namespace ps::checkpoint {

/// Writes all of a model as a safetensors file: what is trained, piece by piece, once for each of
/// its names, and then what else the model has. Moves, does not copy. Thread: one at a time.
class ModelWriter {
 public:
  /// `type` is that of the `trained` tensors and of other f32 ones that aren't to stay as they are.
  /// `kept_path`: a safetensors file with the others, and with what KeptTensors says; empty: there
  /// are none. Errors: kIo with the path; those of SafetensorsReader::Open and ParseKept;
  /// kInvalidArgument naming what has a name and is not there, or is there twice.
  static Result<ModelWriter> Create(
      const std::string& path,
      std::span<const TensorSpec> trained,
      ElementType type,
      const std::string& kept_path,
      std::map<std::string, std::string> metadata);

  /// Values of a trained tensor, as SafetensorsWriter::Write takes them.
  Status Write(size_t tensor, int64_t begin, std::span<const float> values);

  /// Copies the rest, and as SafetensorsWriter::Finish.
  Status Finish();

 private:
  ModelWriter(
      SafetensorsWriter writer,
      std::optional<SafetensorsReader> kept,
      std::vector<std::vector<size_t>> places)
      : writer_(std::move(writer)), kept_(std::move(kept)), places_(std::move(places)) {}

  Status CopyKept(size_t number, const StoredTensor& tensor);

  SafetensorsWriter writer_;
  std::optional<SafetensorsReader> kept_;
  std::vector<std::vector<size_t>> places_;  // by trained tensor: the file's that have its values
};

}  // namespace ps::checkpoint
