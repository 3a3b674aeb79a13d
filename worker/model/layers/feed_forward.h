#pragma once

#include "worker/model/layer_shapes.h"

namespace ps::worker {

inline Result<std::vector<LayerPart>> FeedForwardParts(
    const proto::LayerConfig& config, const Shape& in) {
  PS_TRY(CheckSequence(in));
  const int64_t hidden = config.hidden == 0 ? 4 * in.channels : config.hidden;
  PS_TRY(CheckCount("hidden", hidden, 1, kWidthMax));
  std::vector<LayerPart> parts = {LinearPart("in.", hidden), {}, LinearPart("out.", in.channels)};
  parts[1].config.kind = proto::LayerKind::kGelu;
  return parts;
}

/// Two linear layers with gelu between them.
inline constexpr LayerRule kFeedForwardLayer = {.parts = FeedForwardParts};

}  // namespace ps::worker
