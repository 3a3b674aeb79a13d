#pragma once

#include <string>

#include "ps/base/status.h"
#include "worker/use/model_card.h"

namespace ps::worker {

/// A Python module that builds the card's layers in PyTorch (network), makes what enters them of
/// inputs (prepare) and takes the values of a model file (load). It needs PyTorch and nothing else.
/// `name` is of the job, for people. Errors: as ModelOf;
/// kUnsupported, naming the layer, for a kind that it does not know.
Result<std::string> TorchModule(const ModelCard& card, const std::string& name);

}  // namespace ps::worker
