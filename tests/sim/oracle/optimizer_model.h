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
  /// delayed_nesterov: updates to one use of the momentum; 0: there was none since the last use.
  uint32_t every = 0;

  friend bool operator==(const ChunkState&, const ChunkState&) = default;
};

/// The optimizers' formulas as kernels/optimizer.h has them, written down a second time: one plain
/// loop each, one operation after the other.
class OptimizerModel {
 public:
  /// `is_every_live`: the updates to one use of the momentum follow the workers.
  OptimizerModel(const proto::OptimizerConfig& config, bool is_every_live)
      : config_(config), is_every_live_(is_every_live) {}

  /// With the optimizer state of a chunk that was never updated.
  ChunkState Begin(std::vector<float> value) const;

  struct Rate {
    float lr = 0;
    uint32_t workers = 0;  // that `every` follows, where it does; 0: it does not now
  };

  /// One update. `version`: of the chunk with it. Requires: a gradient for each element.
  void Apply(
      std::span<const float> gradient, const Rate& rate, uint64_t version, ChunkState* state) const;
  /// What a checkpoint of bf16 slots gives back.
  static ChunkState Rounded(const ChunkState& state);
  /// On a shard that has read it from a disk, or got it from another one: what was gathered for the
  /// momentum is gone where nobody knows of how many workers it is.
  ChunkState Taken(const ChunkState& state) const;
  /// Those that a shard may have which has kept the chunk, or has read it again.
  std::vector<ChunkState> KeptOrRead(const ChunkState& state, bool has_bf16_slots) const;

 private:
  proto::OptimizerConfig config_;
  bool is_every_live_;
};

}  // namespace ps::sim
