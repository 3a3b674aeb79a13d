#pragma once

#include <map>
#include <string>

#include "ps/base/status.h"

namespace ps::run {

// What a run's model file says of itself (worker/use/model_card.h), as a file of the run: from the
// beginning on, so that models of checkpoints say it too.

/// Errors: kIo.
Status WriteModelCard(const std::string& path, const std::map<std::string, std::string>& card);

/// Errors: kNotFound, kIo; kCorruption, no JSON object of texts.
Result<std::map<std::string, std::string>> ReadModelCard(const std::string& path);

/// That of the run whose checkpoints are in `path`; else what its job, as a manifest has it, and
/// its data say. Errors: those of CardOfJob; kUnsupported, a program made the model.
Result<std::map<std::string, std::string>> CardOfCheckpoint(
    const std::string& card_path, const std::string& config_json);

}  // namespace ps::run
