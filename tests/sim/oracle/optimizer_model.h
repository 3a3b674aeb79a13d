#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ps/proto/job/job_config.h"

namespace ps::sim {

/// A chunk's values and its optimizer state at one version.
struct ChunkState {
  std::vector<float> value;
  std::array<std::vector<float>, 2> slots{};  // those that the rule needs; else empty

  friend bool operator==(const ChunkState&, const ChunkState&) = default;
};

/// The optimizers' formulas as kernels/optimizer.h has them, written down a second time: one plain
/// loop each, one operation after the other.
class OptimizerModel {
 public:
  explicit OptimizerModel(const proto::OptimizerConfig& config) : config_(config) {}

  /// With the optimizer state of a chunk that was never updated.
  ChunkState Begin(std::vector<float> value) const;
  /// One update. `version`: of the chunk with it. Requires: a gradient for each element.
  void Apply(std::span<const float> gradient, float lr, uint64_t version, ChunkState* state) const;
  /// What a checkpoint of bf16 slots gives back.
  static ChunkState Rounded(const ChunkState& state);

 private:
  proto::OptimizerConfig config_;
};

}  // namespace ps::sim
