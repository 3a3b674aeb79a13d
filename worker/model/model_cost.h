#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/model/model.h"

namespace ps::worker {

/// What one layer takes of one sample.
struct LayerCost {
  std::string name;  // "4.residual.body.1.linear"
  Shape out;
  int64_t parameters = 0;
  int64_t flops = 0;  // forward; a multiplication and an addition are two
};

/// A cost for every layer that computes something, nested ones too, in the order of the model.
std::vector<LayerCost> CostsOf(const Model& model);

}  // namespace ps::worker
