#pragma once

#include <map>
#include <string>

#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "ps/base/status.h"

namespace ps::run {

/// The name of the job that a checkpoint is of.
std::string JobName(const checkpoint::Manifest& manifest);

/// The file that a model is written to.
struct ModelFile {
  std::string path;
  bool is_half = false;  // as f16
  /// A safetensors file with more tensors, which no checkpoint has, and with other names of those
  /// that it has; empty: none.
  std::string frozen_path = {};
  /// What else it says of itself (model_card.h).
  std::map<std::string, std::string> card = {};
};

/// Writes the parameters of a checkpoint to a safetensors file, with all that `frozen_path` adds.
/// Errors: those of Reader::ReadTensor and checkpoint::ModelWriter.
Status ExportModel(
    checkpoint::Reader& reader, const checkpoint::Manifest& manifest, const ModelFile& file);

/// The same of checkpoint `first` in `path`, or, where it is 0 or can't be read, of the newest one
/// that can be. Returns its manifest. Errors: kNotFound (there is none), of the one tried first
/// where none can be read.
Result<checkpoint::Manifest> ExportNewestModel(
    const std::string& path, const ModelFile& file, uint64_t first = 0);

}  // namespace ps::run
