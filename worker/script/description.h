#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/model/safetensors.h"
#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"

namespace ps::worker {

/// A tensor for the model file alone, as it is.
struct KeptTensor {
  std::string name;
  checkpoint::ElementType type = checkpoint::ElementType::kF32;
  std::vector<int64_t> shape;  // sizes may be 0
  bool is_counter = false;     // another model's may differ
  bool is_compared = false;    // it is in FrozenSum; no file says so, but with the sum itself

  uint64_t byte_count() const;

  bool operator==(const KeptTensor&) const = default;
};

/// What a worker's program trains, by its own word.
struct Description {
  std::vector<TensorSpec> tensors;  // in the order that chunk keys count
  std::vector<TensorSpec> frozen;   // nobody trains them and they never travel; in the model file
  std::vector<KeptTensor> kept;     // the same of any type; workers' may differ unless is_compared
  std::map<std::string, std::string> aliases;  // more names of `tensors`, in the model file
  uint32_t frozen_crc = 0;     // FrozenSum; 0: nothing is compared, or it isn't known
  uint64_t train_samples = 0;  // 0: the program doesn't know
  uint64_t test_samples = 0;   // 0: it evaluates nothing
  uint32_t local_steps = 0;    // that it wants (train.local_steps); 0: what the job says
  uint32_t minibatch = 0;      // samples of a step of its loop; 0: what the job says
  /// What the job's `optimizer` would be for the program's own, as JSON; empty: it has none that
  /// the servers know.
  std::string optimizer_json;

  /// Whether a model file has more than `tensors`: what is at FrozenPath.
  bool has_more() const { return !frozen.empty() || !kept.empty() || !aliases.empty(); }
};

/// A safetensors file for the description and the initial values of its tensors, which the caller
/// writes; its metadata have what that format has no place for. Errors: kIo with the path.
Result<checkpoint::SafetensorsWriter> CreateDescription(
    const std::string& path, const Description& description);

/// The values of a description: one pointer a tensor, to all its elements.
struct DescribedValues {
  std::vector<const float*> tensors = {};
  std::vector<const float*> frozen = {};
  std::vector<const void*> kept = {};
};

/// The CRC-32C by which workers compare what they load and nobody trains: names, shapes and bytes
/// of the frozen tensors and of the kept ones that are compared, of the latter the types as well,
/// in the order of the names. Never 0 unless there are no such tensors. No other values are read.
uint32_t FrozenSum(const Description& description, const DescribedValues& values);

/// The same, with the values, and the file FrozenPath(path) if has_more, which has the FrozenSum,
/// too. Errors: also kCorruption naming the tensor and element that is NaN or
/// infinite, but for kept ones.
Status WriteDescription(
    const std::string& path, const Description& description, const DescribedValues& values);

/// Where the rest of a description is: "described.safetensors" has "described.frozen.safetensors".
std::string FrozenPath(const std::string& description);

/// Whether the file has a description, of any version, besides tensors. Errors: those of
/// SafetensorsReader::Open.
Result<bool> HasDescription(const std::string& path);

/// Errors: those of SafetensorsReader::Open; kInvalidArgument with the path when the file is no
/// description, or one of another version.
Result<Description> ReadDescription(const std::string& path);

/// Whether two programs train the same. Errors: kInvalidArgument naming the first tensor of `own`
/// that isn't that of `job`.
Status CheckSameTensors(std::span<const TensorSpec> own, std::span<const TensorSpec> job);

}  // namespace ps::worker
