#include "kernels/cpu/depthwise_weights.h"
#include "kernels/cpu/dnnl_primitive.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/plan_cache.h"

namespace ps::kernels {
namespace {

struct Plan {
  Primitive forward;
  Relayout forward_x;
  Relayout forward_weights;
  Primitive backward_data;
  Relayout backward_data_weights;
  Primitive backward_weights;
  Relayout backward_x;
  Relayout backward_dy;
  Relayout weight_gradient;
  // Where the weights' gradient is not oneDNN's.
  Relayout summed_x;
  Relayout summed_dy;
  size_t sums_at = 0;  // of the workspace's copies
};

/// oneDNN has a kernel for the weights' gradient of a depthwise convolution up to this width. Above
/// it, one for groups of 16 channels multiplies all by all.
constexpr int64_t kDepthwiseWidthMax = 3;

bool SumsItself(const Conv2dOptions& o) {
  return o.groups > 1 && o.groups == o.in_channels && o.groups == o.out_channels &&
         o.kernel > kDepthwiseWidthMax;
}

/// Descriptors of one batch size. Activations are NHWC, the weights' layout is oneDNN's choice.
struct Geometry {
  Geometry(const Conv2dOptions& o, int64_t n)
      : factors(o.precision),
        strides{o.stride, o.stride},
        pad{o.padding, o.padding},
        weight_dims(WeightDims(o)),
        x(Input(o, n, Type::f32)),
        y(Output(o, n, Type::f32)),
        w(PlainDesc(weight_dims, Tag::any)),
        canonical_w(PlainDesc(weight_dims, o.groups > 1 ? Tag::goihw : Tag::oihw)),
        b(o.bias ? PlainDesc({o.out_channels}, Tag::x) : Desc()),
        x_factor(Input(o, n, factors.type)),
        dy_factor(Output(o, n, factors.type)),
        w_factor(PlainDesc(weight_dims, Tag::any, factors.type)) {}

  /// Groups are a dimension in front, which leaves [o,i,kh,kw] in memory as it is.
  static dnnl::memory::dims WeightDims(const Conv2dOptions& o) {
    if (o.groups == 1) {
      return {o.out_channels, o.in_channels, o.kernel, o.kernel};
    }
    const int64_t out = o.out_channels / o.groups;
    return {o.groups, out, o.in_channels / o.groups, o.kernel, o.kernel};
  }

  static Desc Input(const Conv2dOptions& o, int64_t n, Type type) {
    return ImageDesc(n, o.in_channels, o.in_height, o.in_width, type);
  }

  static Desc Output(const Conv2dOptions& o, int64_t n, Type type) {
    return ImageDesc(
        n,
        o.out_channels,
        WindowCount(o.in_height, o.kernel, o.stride, o.padding),
        WindowCount(o.in_width, o.kernel, o.stride, o.padding),
        type);
  }

  FactorType factors;
  dnnl::memory::dims strides;
  dnnl::memory::dims pad;
  dnnl::memory::dims weight_dims;
  Desc x;
  Desc y;
  Desc w;  // of its gradient
  Desc canonical_w;
  Desc b;
  // As they are multiplied.
  Desc x_factor;
  Desc dy_factor;
  Desc w_factor;
};

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

class Conv2d final : public Op {
 public:
  Conv2d(const Conv2dOptions& options, Workspace* workspace)
      : plans_("conv2d"), workspace_(workspace), options_(options) {}

  Status Prepare(int64_t n, bool training) override {
    return plans_.Prepare(n, training, [&](Plan* plan) { Build(n, training, plan); });
  }

  void Forward(const ForwardArgs& args) override {
    Plan& plan = plans_.At(args.n);
    plan.forward.Run(
        {{DNNL_ARG_SRC, plan.forward_x.Load(args.x)},
         {DNNL_ARG_WEIGHTS, plan.forward_weights.Load(args.params[0].data())},
         {DNNL_ARG_BIAS, options_.bias ? args.params[1].data() : nullptr},
         {DNNL_ARG_DST, args.y}});
  }

  void Backward(const BackwardArgs& args) override {
    Plan& plan = plans_.At(args.n);
    const void* const dy = plan.backward_dy.Load(args.dy);
    if (SumsItself(options_)) {
      SumWeights(args, &plan);
    } else {
      plan.backward_weights.Run(
          {{DNNL_ARG_SRC, plan.backward_x.Load(args.x)},
           {DNNL_ARG_DIFF_DST, dy},
           {DNNL_ARG_DIFF_WEIGHTS, plan.weight_gradient.Stage(args.grads[0].data())},
           {DNNL_ARG_DIFF_BIAS, options_.bias ? args.grads[1].data() : nullptr}});
      plan.weight_gradient.Store(args.grads[0].data());
    }
    if (args.dx != nullptr) {
      plan.backward_data.Run(
          {{DNNL_ARG_DIFF_DST, dy},
           {DNNL_ARG_WEIGHTS, plan.backward_data_weights.Load(args.params[0].data())},
           {DNNL_ARG_DIFF_SRC, args.dx}});
    }
  }

  OpTraits traits() const override { return {}; }

 private:
  void SumWeights(const BackwardArgs& args, Plan* plan) const {
    SumDepthwiseWeights(
        options_,
        args.n,
        static_cast<const float*>(plan->summed_x.Load(args.x)),
        static_cast<const float*>(plan->summed_dy.Load(args.dy)),
        reinterpret_cast<float*>(workspace_->copies() + plan->sums_at),
        args.grads[0],
        options_.bias ? args.grads[1] : std::span<float>());
  }

  void Build(int64_t n, bool training, Plan* plan) const {
    const Geometry g(options_, n);
    const auto forward = MakeDesc<dnnl::convolution_forward>(
        dnnl::prop_kind::forward_training,
        kAlgorithm,
        g.x_factor,
        g.w_factor,
        g.b,
        g.y,
        g.strides,
        g.pad,
        g.pad);
    plan->forward = Primitive::Make<dnnl::convolution_forward>(
        forward,
        workspace_,
        {{DNNL_ARG_SRC, g.x_factor},
         {DNNL_ARG_WEIGHTS, forward.weights_desc()},
         {DNNL_ARG_BIAS, g.b},
         {DNNL_ARG_DST, g.y}});
    Copies copies(workspace_);
    const bool is_rounded = g.factors.is_rounded;
    plan->forward_x = Relayout::ToPrimitive(g.x, g.x_factor, is_rounded, &copies);
    plan->forward_weights =
        Relayout::ToPrimitive(g.canonical_w, forward.weights_desc(), is_rounded, &copies);
    if (training) {
      BuildBackward(g, forward, plan);
    }
  }

  void BuildBackward(
      const Geometry& g,
      const dnnl::convolution_forward::primitive_desc& forward,
      Plan* plan) const {
    Copies copies(workspace_);
    const bool is_rounded = g.factors.is_rounded;
    plan->backward_dy = Relayout::ToPrimitive(g.y, g.dy_factor, is_rounded, &copies);
    if (SumsItself(options_)) {
      const bool is_bf16 = options_.precision == Precision::kBf16;
      plan->summed_x = Relayout::ToPrimitive(g.x, g.x, is_bf16, &copies);
      plan->summed_dy = Relayout::ToPrimitive(g.y, g.y, is_bf16, &copies);
      plan->sums_at =
          copies.Reserve(static_cast<size_t>(DepthwiseScratch(options_)) * sizeof(float));
    } else {
      BuildWeights(g, forward, &copies, plan);
    }
    if (options_.input_gradient) {
      const auto data = MakeBackwardDesc<dnnl::convolution_backward_data>(
          forward, kAlgorithm, g.x, g.w_factor, g.dy_factor, g.strides, g.pad, g.pad);
      plan->backward_data = Primitive::Make<dnnl::convolution_backward_data>(
          data,
          workspace_,
          {{DNNL_ARG_DIFF_SRC, g.x},
           {DNNL_ARG_DIFF_DST, g.dy_factor},
           {DNNL_ARG_WEIGHTS, data.weights_desc()}});
      plan->backward_data_weights =
          Relayout::ToPrimitive(g.canonical_w, data.weights_desc(), is_rounded, &copies);
    }
  }

  void BuildWeights(
      const Geometry& g,
      const dnnl::convolution_forward::primitive_desc& forward,
      Copies* copies,
      Plan* plan) const {
    const auto weights = MakeBackwardDesc<dnnl::convolution_backward_weights>(
        forward, kAlgorithm, g.x_factor, g.w, g.b, g.dy_factor, g.strides, g.pad, g.pad);
    plan->backward_weights = Primitive::Make<dnnl::convolution_backward_weights>(
        weights,
        workspace_,
        {{DNNL_ARG_SRC, g.x_factor},
         {DNNL_ARG_DIFF_DST, g.dy_factor},
         {DNNL_ARG_DIFF_WEIGHTS, weights.diff_weights_desc()},
         {DNNL_ARG_DIFF_BIAS, g.b}});
    plan->backward_x = Relayout::ToPrimitive(g.x, g.x_factor, g.factors.is_rounded, copies);
    plan->weight_gradient =
        Relayout::FromPrimitive(weights.diff_weights_desc(), g.canonical_w, copies);
  }

  PlanCache<Plan> plans_;
  Workspace* const workspace_;
  const Conv2dOptions options_;
};

}  // namespace

std::unique_ptr<Op> MakeConv2d(const Conv2dOptions& options, Workspace* workspace) {
  return std::make_unique<Conv2d>(options, workspace);
}

}  // namespace ps::kernels
