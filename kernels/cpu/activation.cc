#include "kernels/cpu/dnnl_primitive.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/plan_cache.h"
#include "ps/base/check.h"

namespace ps::kernels {
namespace {

struct Plan {
  Primitive forward;
  Primitive backward;
};

enum class Kind : uint8_t { kRelu, kGelu };

/// relu's backward reads y, which lets it run in place; gelu's reads x.
class ActivationOp final : public Op {
 public:
  ActivationOp(Kind kind, int64_t elements, Workspace* workspace)
      : plans_(kind == Kind::kRelu ? "relu" : "gelu"),
        workspace_(workspace),
        kind_(kind),
        elements_(elements) {}

  Status Prepare(int64_t n, bool training) override {
    return plans_.Prepare(n, training, [&](Plan* plan) { Build(n, training, plan); });
  }

  void Forward(const ForwardArgs& args) override {
    plans_.At(args.n).forward.Run({{DNNL_ARG_SRC, args.x}, {DNNL_ARG_DST, args.y}});
  }

  void Backward(const BackwardArgs& args) override {
    PS_CHECK(args.dx != nullptr) << "an activation has only its input's gradient to compute";
    const float* data = kind_ == Kind::kRelu ? args.y : args.x;
    plans_.At(args.n).backward.Run(
        {{DataSlot(), data}, {DNNL_ARG_DIFF_DST, args.dy}, {DNNL_ARG_DIFF_SRC, args.dx}});
  }

  OpTraits traits() const override {
    const bool is_relu = kind_ == Kind::kRelu;
    return {.runs_in_place = is_relu, .backward_reads_output = is_relu};
  }

 private:
  int DataSlot() const { return kind_ == Kind::kRelu ? DNNL_ARG_DST : DNNL_ARG_SRC; }

  void Build(int64_t n, bool training, Plan* plan) const {
    const Desc x = PlainDesc({n, elements_}, Tag::nc);
    const auto algorithm = kind_ == Kind::kRelu ? dnnl::algorithm::eltwise_relu_use_dst_for_bwd
                                                : dnnl::algorithm::eltwise_gelu_erf;
    const auto kind = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
    const auto forward = MakeDesc<dnnl::eltwise_forward>(kind, algorithm, x, x, 0.0F, 0.0F);
#else
    const auto forward = MakeDesc<dnnl::eltwise_forward>(kind, algorithm, x, 0.0F, 0.0F);
#endif
    plan->forward = Primitive::Make<dnnl::eltwise_forward>(
        forward, workspace_, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, x}});
    if (!training) {
      return;
    }
#if DNNL_VERSION_MAJOR >= 3
    const auto backward =
        MakeBackwardDesc<dnnl::eltwise_backward>(forward, algorithm, x, x, x, 0.0F, 0.0F);
#else
    const auto backward =
        MakeBackwardDesc<dnnl::eltwise_backward>(forward, algorithm, x, x, 0.0F, 0.0F);
#endif
    plan->backward = Primitive::Make<dnnl::eltwise_backward>(
        backward, workspace_, {{DataSlot(), x}, {DNNL_ARG_DIFF_DST, x}, {DNNL_ARG_DIFF_SRC, x}});
  }

  PlanCache<Plan> plans_;
  Workspace* const workspace_;
  const Kind kind_;
  const int64_t elements_;
};

}  // namespace

std::unique_ptr<Op> MakeRelu(const ReluOptions& options, Workspace* workspace) {
  return std::make_unique<ActivationOp>(Kind::kRelu, options.elements, workspace);
}

std::unique_ptr<Op> MakeGelu(const GeluOptions& options, Workspace* workspace) {
  return std::make_unique<ActivationOp>(Kind::kGelu, options.elements, workspace);
}

}  // namespace ps::kernels
