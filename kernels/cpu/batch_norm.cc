#include <algorithm>
#include <span>

#include "kernels/cpu/dnnl_primitive.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/plan_cache.h"
#include "ps/base/buffer.h"

namespace ps::kernels {
namespace {

struct Plan {
  Primitive evaluate;
  Primitive train;
  Primitive backward;
  Buffer unwanted_dx;  // oneDNN computes dx whether it is asked for or not
};

class BatchNorm final : public Op {
 public:
  BatchNorm(const BatchNormOptions& options, Workspace* workspace)
      : plans_("batch_norm"),
        workspace_(workspace),
        options_(options),
        mean_(static_cast<size_t>(options.channels) * sizeof(float)),
        variance_(static_cast<size_t>(options.channels) * sizeof(float)) {}

  Status Prepare(int64_t n, bool training) override {
    return plans_.Prepare(n, training, [&](Plan* plan) { Build(n, training, plan); });
  }

  void Forward(const ForwardArgs& args) override {
    Plan& plan = plans_.At(args.n);
    Primitive& forward = args.training ? plan.train : plan.evaluate;
    forward.Run(
        {{DNNL_ARG_SRC, args.x},
         {DNNL_ARG_SCALE, args.params[0].data()},
         {DNNL_ARG_SHIFT, args.params[1].data()},
         {DNNL_ARG_MEAN, args.training ? mean_.floats().data() : args.params[2].data()},
         {DNNL_ARG_VARIANCE, args.training ? variance_.floats().data() : args.params[3].data()},
         {DNNL_ARG_DST, args.y}});
  }

  void Backward(const BackwardArgs& args) override {
    Plan& plan = plans_.At(args.n);
    plan.backward.Run(
        {{DNNL_ARG_SRC, args.x},
         {DNNL_ARG_DIFF_DST, args.dy},
         {DNNL_ARG_SCALE, args.params[0].data()},
         {DNNL_ARG_SHIFT, args.params[1].data()},
         {DNNL_ARG_MEAN, mean_.data()},
         {DNNL_ARG_VARIANCE, variance_.data()},
         {DNNL_ARG_DIFF_SCALE, args.grads[0].data()},
         {DNNL_ARG_DIFF_SHIFT, args.grads[1].data()},
         {DNNL_ARG_DIFF_SRC, args.dx != nullptr ? args.dx : plan.unwanted_dx.floats().data()}});
    const int64_t count = args.n * options_.height * options_.width;
    const float correction =
        count > 1 ? static_cast<float>(count) / static_cast<float>(count - 1) : 0.0F;
    const std::span<const float> mean = mean_.floats();
    const std::span<const float> variance = variance_.floats();
    std::copy(mean.begin(), mean.end(), args.grads[2].begin());
    std::transform(
        variance.begin(), variance.end(), args.grads[3].begin(), [correction](float biased) {
          return biased * correction;
        });
  }

  OpTraits traits() const override { return {}; }

 private:
  using Flags = dnnl::normalization_flags;

  static dnnl::batch_normalization_forward::primitive_desc ForwardDesc(
      dnnl::prop_kind kind, const Desc& x, float epsilon, Flags flags) {
#if DNNL_VERSION_MAJOR >= 3
    return MakeDesc<dnnl::batch_normalization_forward>(kind, x, x, epsilon, flags);
#else
    return MakeDesc<dnnl::batch_normalization_forward>(kind, x, epsilon, flags);
#endif
  }

  static dnnl::batch_normalization_backward::primitive_desc BackwardDesc(
      const dnnl::batch_normalization_forward::primitive_desc& forward,
      const Desc& x,
      float epsilon,
      Flags flags) {
    const auto kind = dnnl::prop_kind::backward;
#if DNNL_VERSION_MAJOR >= 3
    return MakeBackwardDesc<dnnl::batch_normalization_backward>(
        forward, kind, x, x, x, epsilon, flags);
#else
    return MakeBackwardDesc<dnnl::batch_normalization_backward>(
        forward, kind, x, x, epsilon, flags);
#endif
  }

  void Build(int64_t n, bool training, Plan* plan) const {
    const Desc x = ImageDesc(n, options_.channels, options_.height, options_.width);
    const Desc c = PlainDesc({options_.channels}, Tag::x);
    const Flags affine = Flags::use_scale | Flags::use_shift;
    const auto slots = {
        Primitive::Slot{DNNL_ARG_SRC, x},
        {DNNL_ARG_SCALE, c},
        {DNNL_ARG_SHIFT, c},
        {DNNL_ARG_MEAN, c},
        {DNNL_ARG_VARIANCE, c},
        {DNNL_ARG_DST, x}};
    plan->evaluate = Primitive::Make<dnnl::batch_normalization_forward>(
        ForwardDesc(
            dnnl::prop_kind::forward_inference,
            x,
            options_.epsilon,
            affine | Flags::use_global_stats),
        workspace_,
        slots);
    if (!training) {
      return;
    }
    const auto forward =
        ForwardDesc(dnnl::prop_kind::forward_training, x, options_.epsilon, affine);
    plan->train = Primitive::Make<dnnl::batch_normalization_forward>(forward, workspace_, slots);
    plan->backward = Primitive::Make<dnnl::batch_normalization_backward>(
        BackwardDesc(forward, x, options_.epsilon, affine),
        workspace_,
        {{DNNL_ARG_SRC, x},
         {DNNL_ARG_DIFF_DST, x},
         {DNNL_ARG_SCALE, c},
         {DNNL_ARG_SHIFT, c},  // not read, but oneDNN counts its arguments
         {DNNL_ARG_MEAN, c},
         {DNNL_ARG_VARIANCE, c},
         {DNNL_ARG_DIFF_SCALE, c},
         {DNNL_ARG_DIFF_SHIFT, c},
         {DNNL_ARG_DIFF_SRC, x}});
    if (!options_.input_gradient) {
      plan->unwanted_dx = Buffer(x.get_size());
    }
  }

  PlanCache<Plan> plans_;
  Workspace* const workspace_;
  const BatchNormOptions options_;
  Buffer mean_;      // of the last training batch
  Buffer variance_;  // biased
};

}  // namespace

std::unique_ptr<Op> MakeBatchNorm(const BatchNormOptions& options, Workspace* workspace) {
  return std::make_unique<BatchNorm>(options, workspace);
}

}  // namespace ps::kernels
