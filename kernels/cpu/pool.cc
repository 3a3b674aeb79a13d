#include "kernels/cpu/dnnl_primitive.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/plan_cache.h"
#include "ps/base/buffer.h"
#include "ps/base/check.h"

namespace ps::kernels {
namespace {

struct Plan {
  Primitive forward;
  Primitive backward;
  Buffer winners;  // max: which element of each window won; empty otherwise
};

class Pool final : public Op {
 public:
  Pool(const PoolOptions& options, Workspace* workspace)
      : plans_(options.kind == PoolKind::kMax ? "max_pool" : "avg_pool"),
        workspace_(workspace),
        options_(options) {}

  Status Prepare(int64_t n, bool training) override {
    return plans_.Prepare(n, training, [&](Plan* plan) { Build(n, training, plan); });
  }

  void Forward(const ForwardArgs& args) override {
    Plan& plan = plans_.At(args.n);
    plan.forward.Run(
        {{DNNL_ARG_SRC, args.x},
         {DNNL_ARG_DST, args.y},
         {DNNL_ARG_WORKSPACE, plan.winners.data()}});
  }

  void Backward(const BackwardArgs& args) override {
    PS_CHECK(args.dx != nullptr) << "a pool has nothing but its input's gradient to compute";
    Plan& plan = plans_.At(args.n);
    plan.backward.Run(
        {{DNNL_ARG_DIFF_DST, args.dy},
         {DNNL_ARG_WORKSPACE, plan.winners.data()},
         {DNNL_ARG_DIFF_SRC, args.dx}});
  }

  OpTraits traits() const override { return {}; }

 private:
  using Dims = dnnl::memory::dims;

  void Build(int64_t n, bool training, Plan* plan) const {
    const PoolOptions& o = options_;
    const Desc x = ImageDesc(n, o.channels, o.in_height, o.in_width);
    const Desc y = ImageDesc(
        n,
        o.channels,
        (o.in_height + 2 * o.padding - o.kernel_height) / o.stride + 1,
        (o.in_width + 2 * o.padding - o.kernel_width) / o.stride + 1);
    const Dims strides = {o.stride, o.stride};
    const Dims kernel = {o.kernel_height, o.kernel_width};
    const Dims pad = {o.padding, o.padding};
    const auto algorithm = o.kind == PoolKind::kMax ? dnnl::algorithm::pooling_max
                                                    : dnnl::algorithm::pooling_avg_include_padding;
    const auto kind =
        training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
#if DNNL_VERSION_MAJOR >= 3
    const Dims dilation = {0, 0};
    const auto forward =
        MakeDesc<dnnl::pooling_forward>(kind, algorithm, x, y, strides, kernel, dilation, pad, pad);
#else
    const auto forward =
        MakeDesc<dnnl::pooling_forward>(kind, algorithm, x, y, strides, kernel, pad, pad);
#endif
    const Desc winners = forward.workspace_desc();
    plan->winners = Buffer(winners.get_size());
    plan->forward = Primitive::Make<dnnl::pooling_forward>(
        forward, workspace_, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}, {DNNL_ARG_WORKSPACE, winners}});
    if (!training) {
      return;
    }
#if DNNL_VERSION_MAJOR >= 3
    const auto backward = MakeBackwardDesc<dnnl::pooling_backward>(
        forward, algorithm, x, y, strides, kernel, dilation, pad, pad);
#else
    const auto backward = MakeBackwardDesc<dnnl::pooling_backward>(
        forward, algorithm, x, y, strides, kernel, pad, pad);
#endif
    plan->backward = Primitive::Make<dnnl::pooling_backward>(
        backward,
        workspace_,
        {{DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_DIFF_SRC, x}, {DNNL_ARG_WORKSPACE, winners}});
  }

  PlanCache<Plan> plans_;
  Workspace* const workspace_;
  const PoolOptions options_;
};

}  // namespace

std::unique_ptr<Op> MakePool(const PoolOptions& options, Workspace* workspace) {
  return std::make_unique<Pool>(options, workspace);
}

}  // namespace ps::kernels
