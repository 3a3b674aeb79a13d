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
};

/// The weights keep their canonical layout: measured on AVX-512 at [128,1568] and 64 samples, a
/// layout of oneDNN's choice gains less in the product than its two reorders cost.
class Linear final : public Op {
 public:
  Linear(const LinearOptions& options, Workspace* workspace)
      : plans_("linear"), workspace_(workspace), options_(options) {}

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
    plan.backward_weights.Run(
        {{DNNL_ARG_SRC, plan.backward_x.Load(args.x)},
         {DNNL_ARG_DIFF_DST, dy},
         {DNNL_ARG_DIFF_WEIGHTS, args.grads[0].data()},
         {DNNL_ARG_DIFF_BIAS, options_.bias ? args.grads[1].data() : nullptr}});
    if (args.dx != nullptr) {
      plan.backward_data.Run(
          {{DNNL_ARG_DIFF_DST, dy},
           {DNNL_ARG_WEIGHTS, plan.backward_data_weights.Load(args.params[0].data())},
           {DNNL_ARG_DIFF_SRC, args.dx}});
    }
  }

  OpTraits traits() const override { return {}; }

 private:
  /// Descriptors of one batch size: x, y and w as they are stored, then as they are multiplied.
  struct Geometry {
    Geometry(const LinearOptions& o, int64_t n)
        : factors(o.precision),
          x(PlainDesc({n, o.in_features}, Tag::nc)),
          y(PlainDesc({n, o.out_features}, Tag::nc)),
          w(PlainDesc({o.out_features, o.in_features}, Tag::oi)),
          b(o.bias ? PlainDesc({o.out_features}, Tag::x) : Desc()),
          x_factor(PlainDesc({n, o.in_features}, Tag::nc, factors.type)),
          dy_factor(PlainDesc({n, o.out_features}, Tag::nc, factors.type)),
          w_factor(PlainDesc({o.out_features, o.in_features}, Tag::oi, factors.type)) {}

    FactorType factors;
    Desc x;
    Desc y;
    Desc w;
    Desc b;
    Desc x_factor;
    Desc dy_factor;
    Desc w_factor;
  };

  void Build(int64_t n, bool training, Plan* plan) const {
    const Geometry g(options_, n);
    const auto forward = MakeDesc<dnnl::inner_product_forward>(
        dnnl::prop_kind::forward_training, g.x_factor, g.w_factor, g.b, g.y);
    plan->forward = Primitive::Make<dnnl::inner_product_forward>(
        forward,
        workspace_,
        {{DNNL_ARG_SRC, g.x_factor},
         {DNNL_ARG_WEIGHTS, g.w_factor},
         {DNNL_ARG_BIAS, g.b},
         {DNNL_ARG_DST, g.y}});
    Copies copies(workspace_);
    const bool is_rounded = g.factors.is_rounded;
    plan->forward_x = Relayout::ToPrimitive(g.x, g.x_factor, is_rounded, &copies);
    plan->forward_weights = Relayout::ToPrimitive(g.w, g.w_factor, is_rounded, &copies);
    if (training) {
      BuildBackward(g, forward, plan);
    }
  }

  void BuildBackward(
      const Geometry& g,
      const dnnl::inner_product_forward::primitive_desc& forward,
      Plan* plan) const {
    plan->backward_weights = Primitive::Make<dnnl::inner_product_backward_weights>(
        MakeBackwardDesc<dnnl::inner_product_backward_weights>(
            forward, g.x_factor, g.w, g.b, g.dy_factor),
        workspace_,
        {{DNNL_ARG_SRC, g.x_factor},
         {DNNL_ARG_DIFF_DST, g.dy_factor},
         {DNNL_ARG_DIFF_WEIGHTS, g.w},
         {DNNL_ARG_DIFF_BIAS, g.b}});
    Copies copies(workspace_);
    const bool is_rounded = g.factors.is_rounded;
    plan->backward_x = Relayout::ToPrimitive(g.x, g.x_factor, is_rounded, &copies);
    plan->backward_dy = Relayout::ToPrimitive(g.y, g.dy_factor, is_rounded, &copies);
    if (options_.input_gradient) {
      plan->backward_data = Primitive::Make<dnnl::inner_product_backward_data>(
          MakeBackwardDesc<dnnl::inner_product_backward_data>(
              forward, g.x, g.w_factor, g.dy_factor),
          workspace_,
          {{DNNL_ARG_DIFF_SRC, g.x},
           {DNNL_ARG_DIFF_DST, g.dy_factor},
           {DNNL_ARG_WEIGHTS, g.w_factor}});
      plan->backward_data_weights = Relayout::ToPrimitive(g.w, g.w_factor, is_rounded, &copies);
    }
  }

  PlanCache<Plan> plans_;
  Workspace* const workspace_;
  const LinearOptions options_;
};

}  // namespace

std::unique_ptr<Op> MakeLinear(const LinearOptions& options, Workspace* workspace) {
  return std::make_unique<Linear>(options, workspace);
}

}  // namespace ps::kernels
