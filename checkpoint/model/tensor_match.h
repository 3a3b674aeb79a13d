#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/model/safetensors_header.h"
#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"

namespace ps::checkpoint {

/// What a model takes of a file.
enum class TakeRule : uint8_t {
  kAll,      // every tensor of both
  kFitting,  // what both have in one shape
};

/// By what the tensors of a model were found in a file.
enum class MatchKind : uint8_t {
  kName,       // the model's: "0.conv2d.weight"
  kTorchName,  // those of a torch.nn.Module with the same layers: "0.weight"
  kOrder,      // both have numbered layers, whose tensors were taken one layer after the other
};

/// Where the tensors of a model are in a file. The header outlives it.
struct TensorMatch {
  MatchKind kind = MatchKind::kName;
  std::vector<const StoredTensor*> stored;  // by tensor of the model; null: nowhere
  // Those of the file that the model doesn't take, by name. Tensors of whole numbers and booleans
  // are left out: no model has such.
  std::vector<const StoredTensor*> unused;
  std::vector<std::string> misfits;  // for people: what was found in another shape
};

/// Finds them by the first of the kinds by which any tensor fits; of kOrder all do. Errors:
/// kInvalidArgument: nothing fits, with the names and shapes of both; with kAll, one is missing,
/// odd or too many.
Result<TensorMatch> MatchTensors(
    const SafetensorsHeader& header, std::span<const TensorSpec> tensors, TakeRule rule);

/// "0.weight" of "0.conv2d.weight": the name in a torch.nn.Module whose children are called as the
/// layers are, without their kinds; of a norm "weight" is its gamma.
std::string TorchName(std::string_view name);

}  // namespace ps::checkpoint
