#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "ps/base/ids.h"
#include "ps/codec/encoding.h"
#include "ps/proto/chunks.h"
#include "ps/proto/mode_messages.h"

namespace ps::sim {

/// What servers must decode of gradients that travel encoded, with error feedback: by worker, each
/// with a residual for each chunk. It knows the encodings, and nothing of who encodes.
class HeldBack {
 public:
  explicit HeldBack(uint64_t frame_bytes) : parts_(frame_bytes) {}

  /// The worker has computed this gradient of the chunk, which travels as the settings say. In the
  /// order of its steps.
  void Take(
      Incarnation worker,
      Step step,
      ChunkKey key,
      std::span<const float> gradient,
      const proto::StepSettings& settings);

  /// Its newest step, which is its last, brings all that was held back of the chunk before, with
  /// the gradient as it is. Told again, it is so once.
  void HandOver(Incarnation worker, Step step, ChunkKey key, std::span<const float> gradient);

  /// A run that is resumed gives numbers of incarnations again that were given after its
  /// checkpoint: these are other workers, which hold nothing back.
  void OnResume(Incarnation inherited_max);

  /// Requires: it was taken.
  const std::vector<float>& ArrivesOf(Incarnation worker, Step step, ChunkKey key) const {
    return arrives_.at({{worker, step}, key});
  }

 private:
  const proto::ChunkParts parts_;
  std::map<std::pair<Incarnation, ChunkKey>, std::vector<float>> residuals_;
  std::map<std::pair<Incarnation, ChunkKey>, std::vector<float>> before_;  // the newest step
  std::map<std::pair<std::pair<Incarnation, Step>, ChunkKey>, std::vector<float>> arrives_;
};

}  // namespace ps::sim
