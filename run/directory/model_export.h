#pragma once

#include <string>

#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "ps/base/status.h"

namespace ps::run {

/// The name of the job that a checkpoint is of.
std::string JobName(const checkpoint::Manifest& manifest);

/// Writes the parameters of a checkpoint to a safetensors file, as f16 with `is_half`, and behind
/// them the tensors of the safetensors file `frozen_path`, which no checkpoint has (empty: none).
/// Errors: those of Reader::ReadTensor, SafetensorsReader and SafetensorsWriter.
Status ExportModel(
    checkpoint::Reader& reader,
    const checkpoint::Manifest& manifest,
    const std::string& file,
    bool is_half,
    const std::string& frozen_path);

/// The same of the newest checkpoint in `path` that can be read, whose manifest is returned.
/// Errors: kNotFound (there is none), of the newest one where none can be read.
Result<checkpoint::Manifest> ExportNewestModel(
    const std::string& path, const std::string& file, const std::string& frozen_path);

}  // namespace ps::run
