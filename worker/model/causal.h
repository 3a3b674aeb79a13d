#pragma once

#include "worker/model/model.h"

namespace ps::worker {

/// No token is seen by those before it.
bool IsCausal(const Model& model);

}  // namespace ps::worker
