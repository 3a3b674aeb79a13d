#include "worker/model/sequence.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/vector.h"
#include "ps/base/check.h"
#include "ps/base/random.h"

namespace ps::worker {

/// One op, or a residual layer's two paths.
struct Stage {
  std::unique_ptr<kernels::Op> op;
  std::vector<Sequence> paths;  // residual: the body, then the shortcut unless it is the identity
  uint32_t first_tensor = 0;
  uint32_t tensor_count = 0;
  int64_t in_elements = 0;  // a sample
  int64_t out_elements = 0;
  bool in_place = false;
  Buffer own_output;     // not in place
  Buffer side_gradient;  // residual: what the shortcut contributes to dx
  float* y = nullptr;    // of the last Forward

  bool has_tensors() const {
    return tensor_count > 0 || std::any_of(paths.begin(), paths.end(), [](const Sequence& path) {
             return path.has_tensors();
           });
  }
};

namespace {

void Grow(int64_t elements, Buffer* buffer) {
  const size_t size_bytes = static_cast<size_t>(elements) * sizeof(float);
  if (size_bytes > buffer->size()) {
    *buffer = Buffer(size_bytes);
  }
}

std::unique_ptr<kernels::Op> MakePool(const Layer& layer, kernels::Workspace* workspace) {
  kernels::PoolOptions options{
      .kind = layer.kind == proto::LayerKind::kMaxPool ? kernels::PoolKind::kMax
                                                       : kernels::PoolKind::kAverage,
      .channels = layer.in.channels,
      .in_height = layer.in.height,
      .in_width = layer.in.width,
      .kernel_height = layer.config.kernel,
      .kernel_width = layer.config.kernel,
      .stride = layer.config.stride,
      .padding = layer.config.padding,
  };
  if (layer.kind == proto::LayerKind::kGlobalAvgPool) {
    options.kernel_height = layer.in.height;
    options.kernel_width = layer.in.width;
    options.stride = 1;
    options.padding = 0;
  }
  return kernels::MakePool(options, workspace);
}

std::unique_ptr<kernels::Op> MakeConv2d(
    const Layer& layer, bool input_gradient, kernels::Workspace* workspace) {
  return kernels::MakeConv2d(
      {.in_channels = layer.in.channels,
       .in_height = layer.in.height,
       .in_width = layer.in.width,
       .out_channels = layer.out.channels,
       .kernel = layer.config.kernel,
       .stride = layer.config.stride,
       .padding = layer.config.padding,
       .bias = layer.config.bias,
       .input_gradient = input_gradient},
      workspace);
}

/// Requires: a layer that is not residual. `index` tells apart the dropouts of a network.
std::unique_ptr<kernels::Op> MakeOp(
    const Layer& layer, const Sequence::Options& options, uint64_t index) {
  using proto::LayerKind;
  kernels::Workspace* workspace = options.workspace;
  const Shape& in = layer.in;
  switch (layer.kind) {
    case LayerKind::kLinear:
      return kernels::MakeLinear(
          {.in_features = in.channels,
           .out_features = layer.out.channels,
           .bias = layer.config.bias,
           .input_gradient = options.input_gradient},
          workspace);
    case LayerKind::kConv2d:
      return MakeConv2d(layer, options.input_gradient, workspace);
    case LayerKind::kBatchNorm:
      return kernels::MakeBatchNorm(
          {.channels = in.channels,
           .height = in.height,
           .width = in.width,
           .epsilon = layer.config.epsilon,
           .input_gradient = options.input_gradient},
          workspace);
    case LayerKind::kMaxPool:
    case LayerKind::kAvgPool:
    case LayerKind::kGlobalAvgPool:
      return MakePool(layer, workspace);
    case LayerKind::kRelu:
      return kernels::MakeRelu({.elements = in.element_count()}, workspace);
    case LayerKind::kGelu:
      return kernels::MakeGelu({.elements = in.element_count()}, workspace);
    case LayerKind::kDropout:
      return kernels::MakeDropout(
          {.elements = in.element_count(),
           .rate = layer.config.rate,
           .seed = options.seed,
           .layer = index});
    case LayerKind::kFlatten:
      return kernels::MakeFlatten(
          {.channels = in.channels, .height = in.height, .width = in.width}, workspace);
    case LayerKind::kResidual:
    case LayerKind::kSoftmaxCrossEntropy:
      break;
  }
  PS_CHECK(false) << "no op for " << LayerKindName(layer.kind);
  return nullptr;
}

Stage MakeStage(const Layer& layer, const Sequence::Options& options, uint64_t index) {
  Stage stage;
  stage.first_tensor = layer.first_tensor;
  stage.tensor_count = layer.tensor_count;
  stage.in_elements = layer.in.element_count();
  stage.out_elements = layer.out.element_count();
  if (layer.kind != proto::LayerKind::kResidual) {
    stage.op = MakeOp(layer, options, index);
    return stage;
  }
  Sequence::Options inner = options;
  inner.seed = Mix64(options.seed + index);
  stage.paths.emplace_back(layer.body, inner);
  if (!layer.shortcut.empty()) {
    inner.seed = Mix64(inner.seed);
    stage.paths.emplace_back(layer.shortcut, inner);
  }
  return stage;
}

}  // namespace

Sequence::Sequence(const std::vector<Layer>& layers, const Options& options)
    : input_gradient_(options.input_gradient) {
  Options stage_options = options;
  for (size_t i = 0; i < layers.size(); ++i) {
    Stage stage = MakeStage(layers[i], stage_options, i);
    // Gradients are needed only behind the first parameter.
    stage_options.input_gradient = stage_options.input_gradient || stage.has_tensors();
    if (!stage_options.input_gradient) {
      first_backward_ = i + 1;
    }
    if (i > 0) {
      const Stage& previous = stages_.back();
      stage.in_place = stage.op != nullptr && stage.op->traits().runs_in_place &&
                       (previous.op == nullptr || !previous.op->traits().backward_reads_output);
      gradient_elements_ = std::max(gradient_elements_, stage.in_elements);
    }
    stages_.push_back(std::move(stage));
  }
}

Sequence::Sequence(Sequence&&) noexcept = default;
Sequence::~Sequence() = default;

void Sequence::PrependChannelsLast(const Shape& input, kernels::Workspace* workspace) {
  PS_CHECK(!input_gradient_) << "canonical images are the way in, they have no gradient";
  Stage stage;
  stage.op = kernels::MakeChannelsLast(
      {.channels = input.channels, .height = input.height, .width = input.width}, workspace);
  stage.in_elements = input.element_count();
  stage.out_elements = input.element_count();
  gradient_elements_ = std::max(gradient_elements_, input.element_count());
  stages_.insert(stages_.begin(), std::move(stage));
  ++first_backward_;
}

bool Sequence::has_tensors() const {
  return std::any_of(
      stages_.begin(), stages_.end(), [](const Stage& stage) { return stage.has_tensors(); });
}

Status Sequence::Prepare(int64_t n, bool training) {
  for (Stage& stage : stages_) {
    if (stage.op != nullptr) {
      PS_TRY(stage.op->Prepare(n, training));
    }
    for (Sequence& path : stage.paths) {
      PS_TRY(path.Prepare(n, training));
    }
    if (!stage.in_place) {
      Grow(n * stage.out_elements, &stage.own_output);
    }
    if (training && stage.paths.size() > 1) {
      Grow(n * stage.in_elements, &stage.side_gradient);
    }
  }
  if (training) {
    for (Buffer& buffer : gradients_) {
      Grow(n * gradient_elements_, &buffer);
    }
  }
  return Status::Ok();
}

const float* Sequence::Forward(const Pass& pass, const float* x) {
  for (Stage& stage : stages_) {
    ForwardStage(pass, &stage, x);
    x = stage.y;
  }
  return x;
}

void Sequence::ForwardStage(const Pass& pass, Stage* stage, const float* x) {
  // In place, x is the previous stage's output, which this sequence owns.
  stage->y = stage->in_place ? const_cast<float*>(x) : stage->own_output.floats().data();
  if (stage->op != nullptr) {
    stage->op->Forward(
        {.n = pass.n,
         .x = x,
         .y = stage->y,
         .params = pass.parameters.subspan(stage->first_tensor, stage->tensor_count),
         .training = pass.training,
         .step = pass.step});
    return;
  }
  const float* body = stage->paths[0].Forward(pass, x);
  const float* side = stage->paths.size() > 1 ? stage->paths[1].Forward(pass, x) : x;
  kernels::Add(body, side, stage->y, pass.n * stage->out_elements);
}

void Sequence::Backward(const Pass& pass, const float* x, const float* dy, float* dx) {
  PS_CHECK((dx != nullptr) == input_gradient_);
  size_t target = 0;     // which buffer the next gradient goes to
  bool is_ours = false;  // dy is in one of the two buffers, the other than `target`
  for (size_t i = stages_.size(); i-- > first_backward_;) {
    Stage& stage = stages_[i];
    const float* stage_x = i == 0 ? x : stages_[i - 1].y;
    if (i == first_backward_) {
      BackwardStage(pass, &stage, stage_x, dy, dx);
      return;
    }
    if (is_ours && stage.op != nullptr && stage.op->traits().runs_in_place) {
      BackwardStage(pass, &stage, stage_x, dy, gradients_[1 - target].floats().data());
      continue;
    }
    float* stage_dx = gradients_[target].floats().data();
    BackwardStage(pass, &stage, stage_x, dy, stage_dx);
    dy = stage_dx;
    is_ours = true;
    target = 1 - target;
  }
}

void Sequence::BackwardStage(
    const Pass& pass, Stage* stage, const float* x, const float* dy, float* dx) {
  if (stage->op == nullptr) {
    const float* side = dy;
    if (stage->paths.size() > 1) {
      float* side_dx = dx == nullptr ? nullptr : stage->side_gradient.floats().data();
      stage->paths[1].Backward(pass, x, dy, side_dx);
      side = side_dx;
    }
    stage->paths[0].Backward(pass, x, dy, dx);
    if (dx != nullptr) {
      kernels::Add(dx, side, dx, pass.n * stage->in_elements);
    }
    return;
  }
  stage->op->Backward(
      {.n = pass.n,
       .x = x,
       .y = stage->y,
       .dy = dy,
       .dx = dx,
       .params = pass.parameters.subspan(stage->first_tensor, stage->tensor_count),
       .grads = pass.gradients.subspan(stage->first_tensor, stage->tensor_count)});
  if (*pass.ready) {
    for (uint32_t i = stage->tensor_count; i-- > 0;) {
      (*pass.ready)(stage->first_tensor + i);
    }
  }
}

}  // namespace ps::worker
