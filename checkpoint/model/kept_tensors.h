#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "checkpoint/model/safetensors_header.h"
#include "ps/base/status.h"

namespace ps::checkpoint {

/// What a safetensors file says, in its metadata, of a model's tensors that nobody trains, which it
/// has, and of the names of all of them. It lies beside a run's checkpoints, and goes into each
/// model file of the run.
struct KeptTensors {
  std::set<std::string> as_is;     // of the file's tensors: of any type, workers' may differ
  std::set<std::string> counters;  // of these, those whose value says nothing of the model
  std::map<std::string, std::string> aliases;  // names of trained tensors, by another name

  bool operator==(const KeptTensors&) const = default;
};

/// As metadata: key and value.
std::pair<std::string, std::string> PrintKept(const KeptTensors& kept);

/// Nothing where the file says nothing, as those of older programs. Errors: kCorruption: what it
/// says is no such text, or of tensors that it doesn't have.
Result<KeptTensors> ParseKept(const SafetensorsHeader& header);

}  // namespace ps::checkpoint
