#pragma once

#include <memory>

#include "kernels/cpu/workspace.h"
#include "kernels/op.h"
#include "kernels/op_spec.h"

namespace ps::kernels {

// The ops of this folder, each in a file of its name (activation: relu and gelu; layout: flatten
// and channels_last). `workspace` outlives the op.

std::unique_ptr<Op> MakeLinear(const LinearOptions& options, Workspace* workspace);
std::unique_ptr<Op> MakeConv2d(const Conv2dOptions& options, Workspace* workspace);
std::unique_ptr<Op> MakeBatchNorm(const BatchNormOptions& options, Workspace* workspace);
std::unique_ptr<Op> MakePool(const PoolOptions& options, Workspace* workspace);
std::unique_ptr<Op> MakeRelu(const ReluOptions& options, Workspace* workspace);
std::unique_ptr<Op> MakeGelu(const GeluOptions& options, Workspace* workspace);
std::unique_ptr<Op> MakeDropout(const DropoutOptions& options);
std::unique_ptr<Op> MakeFlatten(const FlattenOptions& options, Workspace* workspace);
std::unique_ptr<Op> MakeChannelsLast(const ChannelsLastOptions& options, Workspace* workspace);

std::unique_ptr<Op> MakeEmbedding(const EmbeddingOptions& options);
std::unique_ptr<Op> MakeLayerNorm(const LayerNormOptions& options, Workspace* workspace);
std::unique_ptr<Op> MakeAttention(const AttentionOptions& options, Workspace* workspace);

}  // namespace ps::kernels
