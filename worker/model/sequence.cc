#include "worker/model/sequence.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "ps/base/check.h"
#include "ps/base/random.h"

namespace ps::worker {

/// One op, or a residual layer's two paths.
struct Stage {
  std::unique_ptr<kernels::Op> op;
  std::vector<Sequence> paths;  // residual: the body, then the shortcut unless it is the identity
  uint32_t first_tensor = 0;
  uint32_t tensor_count = 0;
  bool is_frozen = false;   // all of them are
  int64_t rows = 1;         // the op's samples within one of ours: the tokens, of ops on vectors
  int64_t in_elements = 0;  // a sample
  int64_t out_elements = 0;
  bool in_place = false;
  bool body_adds = false;                       // residual: the body's output is the layer's
  bool leaves_sum = false;                      // residual: the next stage adds the two paths
  std::unique_ptr<kernels::Op> body_relu;       // that the body's last op does behind the addition
  std::unique_ptr<kernels::Memory> own_output;  // not in place, and not the body's
  std::unique_ptr<kernels::Memory> side_gradient;  // residual: the shortcut's part of dx
  float* y = nullptr;                              // of the last Forward

  bool learns() const {
    return (tensor_count > 0 && !is_frozen) ||
           std::any_of(
               paths.begin(), paths.end(), [](const Sequence& path) { return path.learns(); });
  }
};

namespace {

/// At least so many floats. The old memory goes first, so that both need not fit.
Status Grow(kernels::Backend* backend, int64_t elements, std::unique_ptr<kernels::Memory>* memory) {
  const size_t size_bytes = static_cast<size_t>(elements) * sizeof(float);
  if (*memory == nullptr || size_bytes > (*memory)->size()) {
    memory->reset();
    PS_ASSIGN(*memory, backend->AllocateDevice(size_bytes));
  }
  return Status::Ok();
}

kernels::Activation ActivationOf(const Layer* layer) {
  const bool is_relu = layer != nullptr && layer->kind == proto::LayerKind::kRelu;
  const bool is_gelu = layer != nullptr && layer->kind == proto::LayerKind::kGelu;
  return is_relu   ? kernels::Activation::kRelu
         : is_gelu ? kernels::Activation::kGelu
                   : kernels::Activation::kNone;
}

/// The op of `spec` with the activation of the layer behind it; nullptr where there is none such.
Result<std::unique_ptr<kernels::Op>> MakeFused(
    kernels::OpSpec spec, const Layer* next, kernels::Stream* stream) {
  const auto fuse = [&](auto& options) {
    if constexpr (requires { options.activation; }) {
      options.activation = ActivationOf(next);
      return options.activation != kernels::Activation::kNone;
    }
    return false;
  };
  if (!std::visit(fuse, spec)) {
    return std::unique_ptr<kernels::Op>();
  }
  Result<std::unique_ptr<kernels::Op>> op = stream->MakeOp(spec);
  const bool is_lacking = !op.ok() && op.status().code() == StatusCode::kUnsupported;
  return is_lacking ? std::unique_ptr<kernels::Op>() : std::move(op);
}

/// Requires: the layer's trait adds_side.
void AddSide(kernels::Activation activation, kernels::OpSpec* spec) {
  std::visit(
      [&](auto& options) {
        if constexpr (requires { options.adds_side; }) {
          options.adds_side = true;
          options.activation = activation;
        }
      },
      *spec);
}

/// A residual layer's paths. Sets `is_fused` if the stage is the next layer too.
Status MakePaths(
    const Layer& layer,
    const Layer* next,
    const Sequence::Options& options,
    uint64_t index,
    Stage* stage,
    bool* is_fused) {
  Sequence::Options inner = options;
  inner.ops.seed = Mix64(options.ops.seed + index);
  inner.side_activation.reset();
  stage->body_adds = Sequence::CanAddSide(layer.body, options.stream);
  if (stage->body_adds) {
    *is_fused = next != nullptr && next->kind == proto::LayerKind::kRelu;
    inner.side_activation = *is_fused ? kernels::Activation::kRelu : kernels::Activation::kNone;
  }
  if (*is_fused) {
    PS_ASSIGN(
        stage->body_relu,
        options.stream->MakeOp(kernels::ReluOptions{.elements = stage->out_elements}));
  }
  PS_ASSIGN(Sequence body, Sequence::Make(layer.body, inner));
  stage->paths.push_back(std::move(body));
  if (!layer.shortcut.empty()) {
    inner.ops.seed = Mix64(inner.ops.seed);
    inner.side_activation.reset();
    PS_ASSIGN(Sequence shortcut, Sequence::Make(layer.shortcut, inner));
    stage->paths.push_back(std::move(shortcut));
  }
  return Status::Ok();
}

/// Sets `is_fused` if the stage is the next layer too.
Result<Stage> MakeStage(
    const Layer& layer,
    const Layer* next,
    const Sequence::Options& options,
    uint64_t index,
    bool* is_fused) {
  Stage stage;
  stage.first_tensor = layer.first_tensor;
  stage.tensor_count = layer.tensor_count;
  stage.is_frozen = layer.is_frozen;
  const LayerRule& rule = LayerRuleOf(layer.kind);
  stage.rows = rule.traits.is_by_token ? layer.in.height : 1;
  stage.in_elements = layer.in.element_count();
  stage.out_elements = layer.out.element_count();
  if (layer.kind == proto::LayerKind::kResidual) {
    PS_TRY(MakePaths(layer, next, options, index, &stage, is_fused));
    return stage;
  }
  PS_CHECK(rule.op != nullptr) << "no op for " << LayerKindName(layer.kind);
  kernels::OpSpec spec = rule.op(layer, options.ops, index);
  if (next == nullptr && options.side_activation) {
    AddSide(*options.side_activation, &spec);
  }
  PS_ASSIGN(stage.op, MakeFused(spec, next, options.stream));
  *is_fused = stage.op != nullptr;
  if (!*is_fused) {
    PS_ASSIGN(stage.op, options.stream->MakeOp(spec));
  }
  return stage;
}

}  // namespace

Sequence::Sequence(const Options& options)
    : options_(options), is_gradient_needed_(options.ops.input_gradient) {}

bool Sequence::CanAddSide(const std::vector<Layer>& layers, kernels::Stream* stream) {
  return !layers.empty() && LayerRuleOf(layers.back().kind).traits.adds_side &&
         stream->MakeOp(kernels::BatchNormOptions{.adds_side = true}).ok();
}

Result<Sequence> Sequence::Make(const std::vector<Layer>& layers, const Options& options) {
  Sequence sequence(options);
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer* const next = i + 1 < layers.size() ? &layers[i + 1] : nullptr;
    PS_ASSIGN(const bool is_fused, sequence.Append(layers[i], next, i));
    i += is_fused ? 1 : 0;
  }
  return sequence;
}

Result<bool> Sequence::Append(const Layer& layer, const Layer* next, uint64_t index) {
  Options options = options_;
  // Gradients are needed only behind the first parameter that learns.
  options.ops.input_gradient = is_gradient_needed_;
  bool is_fused = false;
  PS_ASSIGN(Stage stage, MakeStage(layer, next, options, index, &is_fused));
  is_gradient_needed_ = is_gradient_needed_ || stage.learns();
  if (!is_gradient_needed_) {
    first_backward_ = stages_.size() + 1;
  }
  if (!stages_.empty()) {
    const Stage& previous = stages_.back();
    const bool is_read_again = previous.op == nullptr ? previous.body_relu != nullptr
                                                      : previous.op->traits().backward_reads_output;
    stage.in_place = stage.op != nullptr && stage.op->traits().runs_in_place && !is_read_again;
    gradient_elements_ = std::max(gradient_elements_, stage.in_elements);
    stages_.back().leaves_sum = previous.op == nullptr && !previous.body_adds && SumsInput(stage);
  }
  if (stage.body_relu != nullptr) {
    gradient_elements_ = std::max(gradient_elements_, stage.out_elements);
  }
  stages_.push_back(std::move(stage));
  return is_fused;
}

Sequence::Sequence(Sequence&&) noexcept = default;
Sequence::~Sequence() = default;

Status Sequence::PrependChannelsLast(const Shape& input) {
  PS_CHECK(!options_.ops.input_gradient)
      << "canonical images are the way in, they have no gradient";
  Stage stage;
  PS_ASSIGN(
      stage.op,
      options_.stream->MakeOp(kernels::ChannelsLastOptions{
          .channels = input.channels, .height = input.height, .width = input.width}));
  stage.in_elements = input.element_count();
  stage.out_elements = input.element_count();
  gradient_elements_ = std::max(gradient_elements_, input.element_count());
  stages_.insert(stages_.begin(), std::move(stage));
  ++first_backward_;
  return Status::Ok();
}

bool Sequence::gives_output_away() const {
  if (stages_.empty()) {
    return false;  // it is the input
  }
  const Stage& last = stages_.back();
  if (last.op != nullptr) {
    return !last.op->traits().backward_reads_output;
  }
  return last.body_relu == nullptr && (!last.body_adds || last.paths[0].gives_output_away());
}

bool Sequence::learns() const {
  return std::any_of(
      stages_.begin(), stages_.end(), [](const Stage& stage) { return stage.learns(); });
}

Status Sequence::Prepare(int64_t n, bool training) {
  for (Stage& stage : stages_) {
    if (stage.op != nullptr) {
      PS_TRY(stage.op->Prepare(n * stage.rows, training));
    }
    for (Sequence& path : stage.paths) {
      PS_TRY(path.Prepare(n, training));
    }
    if (stage.body_relu != nullptr) {
      PS_TRY(stage.body_relu->Prepare(n, training));
    }
    if (!stage.in_place && !stage.body_adds) {
      PS_TRY(Grow(options_.backend, n * stage.out_elements, &stage.own_output));
    }
    if (training && stage.paths.size() > 1) {
      PS_TRY(Grow(options_.backend, n * stage.in_elements, &stage.side_gradient));
    }
  }
  if (training) {
    for (auto& memory : gradients_) {
      PS_TRY(Grow(options_.backend, n * gradient_elements_, &memory));
    }
  }
  return Status::Ok();
}

/// Whether it works on the sum of two parts as it works on one.
bool Sequence::SumsInput(const Stage& stage) {
  if (stage.op != nullptr) {
    return stage.op->traits().sums_input;
  }
  const std::vector<Stage>& body = stage.paths[0].stages_;
  return stage.paths.size() == 1 && !body.empty() && SumsInput(body.front());
}

const float* Sequence::Forward(const Pass& pass, const float* x, const float* side) {
  return ForwardStages(pass, {.x = x}, side).x;
}

Sequence::Incoming Sequence::ForwardStages(const Pass& pass, Incoming in, const float* side) {
  for (Stage& stage : stages_) {
    in = ForwardStage(pass, &stage, in, &stage == &stages_.back() ? side : nullptr);
  }
  return in;
}

Sequence::Incoming Sequence::ForwardStage(
    const Pass& pass, Stage* stage, const Incoming& in, const float* side) {
  if (stage->op == nullptr) {
    return ForwardResidual(pass, stage, in);
  }
  // In place, x is the previous stage's output, which this sequence owns.
  stage->y = stage->in_place ? const_cast<float*>(in.x) : stage->own_output->floats();
  stage->op->Forward(
      {.n = pass.n * stage->rows,
       .x = in.x,
       .y = stage->y,
       .side = in.added == nullptr ? side : in.added,
       .sum = in.sum,
       .params = pass.parameters.subspan(stage->first_tensor, stage->tensor_count),
       .training = pass.training,
       .step = pass.step});
  return {.x = stage->y};
}

Sequence::Incoming Sequence::ForwardResidual(const Pass& pass, Stage* stage, const Incoming& in) {
  // A sum is there as soon as the body's first op has run.
  const float* const other =
      stage->paths.size() > 1 ? stage->paths[1].Forward(pass, in.input()) : in.input();
  const float* const body =
      stage->paths[0].ForwardStages(pass, in, stage->body_adds ? other : nullptr).x;
  if (stage->body_adds) {
    stage->y = const_cast<float*>(body);  // which a path of this sequence owns
    return {.x = stage->y};
  }
  stage->y = stage->own_output->floats();
  if (stage->leaves_sum) {
    return {.x = body, .added = other, .sum = stage->y};
  }
  options_.stream->Add(body, other, stage->y, pass.n * stage->out_elements);
  return {.x = stage->y};
}

void Sequence::Backward(
    const Pass& pass, const float* x, const float* dy, float* dx, const float* dx_side) {
  PS_CHECK((dx != nullptr) == options_.ops.input_gradient);
  BackwardStages(pass, x, dy, dx, dx_side);
  SkipStages(pass, first_backward_);
}

/// The first `count` stages, in which nothing learns: their gradients are zeros.
void Sequence::SkipStages(const Pass& pass, size_t count) {
  for (size_t i = count; i-- > 0;) {
    const Stage& stage = stages_[i];
    for (size_t path = stage.paths.size(); path-- > 0;) {
      Sequence& skipped = stages_[i].paths[path];
      skipped.SkipStages(pass, skipped.stages_.size());
    }
    for (const std::span<float> gradient :
         pass.gradients.subspan(stage.first_tensor, stage.tensor_count)) {
      options_.stream->Fill(0, gradient.data(), static_cast<int64_t>(gradient.size()));
    }
    if (stage.tensor_count > 0) {
      pass.on_gradients(stage.first_tensor, stage.tensor_count);
    }
  }
}

void Sequence::BackwardStages(
    const Pass& pass, const float* x, const float* dy, float* dx, const float* dx_side) {
  size_t target = 0;     // which buffer the next gradient goes to
  bool is_ours = false;  // dy is in one of the two buffers, the other than `target`
  for (size_t i = stages_.size(); i-- > first_backward_;) {
    Stage& stage = stages_[i];
    const float* stage_x = i == 0 ? x : stages_[i - 1].y;
    if (stage.body_relu != nullptr) {
      float* masked = gradients_[is_ours ? 1 - target : target]->floats();
      stage.body_relu->Backward({.n = pass.n, .y = stage.y, .dy = dy, .dx = masked});
      dy = masked;
      target = is_ours ? target : 1 - target;
      is_ours = true;
    }
    if (i == first_backward_) {
      BackwardStage(pass, &stage, stage_x, dy, dx, dx_side);
      return;
    }
    if (is_ours && stage.op != nullptr && stage.op->traits().runs_in_place) {
      BackwardStage(pass, &stage, stage_x, dy, gradients_[1 - target]->floats());
      continue;
    }
    float* stage_dx = gradients_[target]->floats();
    BackwardStage(pass, &stage, stage_x, dy, stage_dx);
    dy = stage_dx;
    is_ours = true;
    target = 1 - target;
  }
}

void Sequence::BackwardStage(
    const Pass& pass,
    Stage* stage,
    const float* x,
    const float* dy,
    float* dx,
    const float* dx_side) {
  bool is_added = dx_side == nullptr;
  if (stage->op == nullptr) {
    const float* side = dx == nullptr ? nullptr : dy;
    if (stage->paths.size() > 1) {
      float* side_dx = dx == nullptr ? nullptr : stage->side_gradient->floats();
      stage->paths[1].Backward(pass, x, dy, side_dx);
      side = side_dx;
    }
    stage->paths[0].Backward(pass, x, dy, dx, side);
  } else {
    const bool adds = stage->op->traits().adds_to_dx;
    stage->op->Backward(
        {.n = pass.n * stage->rows,
         .x = x,
         .y = stage->y,
         .dy = dy,
         .dx = dx,
         .dx_side = adds ? dx_side : nullptr,
         .params = pass.parameters.subspan(stage->first_tensor, stage->tensor_count),
         .grads = pass.gradients.subspan(stage->first_tensor, stage->tensor_count)});
    is_added = is_added || adds;
    if (stage->tensor_count > 0) {
      pass.on_gradients(stage->first_tensor, stage->tensor_count);
    }
  }
  if (!is_added) {
    options_.stream->Add(dx, dx_side, dx, pass.n * stage->in_elements);
  }
}

}  // namespace ps::worker
