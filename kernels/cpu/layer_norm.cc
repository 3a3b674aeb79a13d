#include "kernels/cpu/dnnl_primitive.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/plan_cache.h"
#include "ps/base/buffer.h"

namespace ps::kernels {
namespace {

struct Plan {
  Primitive forward;
  Primitive backward;
  Buffer mean;  // of each row of the last batch
  Buffer variance;
  Buffer unwanted_dx;  // oneDNN computes dx whether it is asked for or not
};

class LayerNorm final : public Op {
 public:
  LayerNorm(const LayerNormOptions& options, Workspace* workspace)
      : plans_("layer_norm"), workspace_(workspace), options_(options) {}

  Status Prepare(int64_t n, bool training) override {
    return plans_.Prepare(n, training, [&](Plan* plan) { Build(n, training, plan); });
  }

  void Forward(const ForwardArgs& args) override {
    Plan& plan = plans_.At(args.n);
    plan.forward.Run(
        {{DNNL_ARG_SRC, args.x},
         {DNNL_ARG_SCALE, args.params[0].data()},
         {DNNL_ARG_SHIFT, args.params[1].data()},
         {DNNL_ARG_MEAN, plan.mean.data()},
         {DNNL_ARG_VARIANCE, plan.variance.data()},
         {DNNL_ARG_DST, args.y}});
  }

  void Backward(const BackwardArgs& args) override {
    Plan& plan = plans_.At(args.n);
    plan.backward.Run(
        {{DNNL_ARG_SRC, args.x},
         {DNNL_ARG_DIFF_DST, args.dy},
         {DNNL_ARG_SCALE, args.params[0].data()},
         {DNNL_ARG_SHIFT, args.params[1].data()},
         {DNNL_ARG_MEAN, plan.mean.data()},
         {DNNL_ARG_VARIANCE, plan.variance.data()},
         {DNNL_ARG_DIFF_SCALE, args.grads[0].data()},
         {DNNL_ARG_DIFF_SHIFT, args.grads[1].data()},
         {DNNL_ARG_DIFF_SRC, args.dx != nullptr ? args.dx : plan.unwanted_dx.floats().data()}});
  }

  OpTraits traits() const override { return {}; }

 private:
  void Build(int64_t n, bool training, Plan* plan) const {
    using Forward = dnnl::layer_normalization_forward;
    using Backward = dnnl::layer_normalization_backward;
    const Desc x = PlainDesc({n, options_.features}, Tag::nc);
    const Desc row = PlainDesc({n}, Tag::x);
    const Desc c = PlainDesc({options_.features}, Tag::x);
    const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
    const auto kind = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
    const auto forward = MakeDesc<Forward>(kind, x, x, row, options_.epsilon, flags);
#else
    const auto forward = MakeDesc<Forward>(kind, x, row, options_.epsilon, flags);
#endif
    plan->forward = Primitive::Make<Forward>(
        forward,
        workspace_,
        {{DNNL_ARG_SRC, x},
         {DNNL_ARG_SCALE, c},
         {DNNL_ARG_SHIFT, c},
         {DNNL_ARG_MEAN, row},
         {DNNL_ARG_VARIANCE, row},
         {DNNL_ARG_DST, x}});
    plan->mean = Buffer(row.get_size());
    plan->variance = Buffer(row.get_size());
    if (!training) {
      return;
    }
#if DNNL_VERSION_MAJOR >= 3
    const auto backward = MakeBackwardDesc<Backward>(
        forward, dnnl::prop_kind::backward, x, x, x, row, options_.epsilon, flags);
#else
    const auto backward = MakeBackwardDesc<Backward>(
        forward, dnnl::prop_kind::backward, x, x, row, options_.epsilon, flags);
#endif
    plan->backward = Primitive::Make<Backward>(
        backward,
        workspace_,
        {{DNNL_ARG_SRC, x},
         {DNNL_ARG_DIFF_DST, x},
         {DNNL_ARG_SCALE, c},
         {DNNL_ARG_SHIFT, c},  // not read, but oneDNN counts its arguments
         {DNNL_ARG_MEAN, row},
         {DNNL_ARG_VARIANCE, row},
         {DNNL_ARG_DIFF_SCALE, c},
         {DNNL_ARG_DIFF_SHIFT, c},
         {DNNL_ARG_DIFF_SRC, x}});
    if (!options_.input_gradient) {
      plan->unwanted_dx = Buffer(x.get_size());
    }
  }

  PlanCache<Plan> plans_;
  Workspace* const workspace_;
  const LayerNormOptions options_;
};

}  // namespace

std::unique_ptr<Op> MakeLayerNorm(const LayerNormOptions& options, Workspace* workspace) {
  return std::make_unique<LayerNorm>(options, workspace);
}

}  // namespace ps::kernels
