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

class LayoutChange final : public Op {
 public:
  LayoutChange(
      const char* name,
      const dnnl::memory::dims& sample_dims,
      Tag from,
      Tag to,
      Workspace* workspace)
      : plans_(name), workspace_(workspace), sample_dims_(sample_dims), from_(from), to_(to) {}

  Status Prepare(int64_t n, bool training) override {
    return plans_.Prepare(n, training, [&](Plan* plan) { Build(n, training, plan); });
  }

  void Forward(const ForwardArgs& args) override {
    plans_.At(args.n).forward.Run({{DNNL_ARG_FROM, args.x}, {DNNL_ARG_TO, args.y}});
  }

  void Backward(const BackwardArgs& args) override {
    PS_CHECK(args.dx != nullptr) << "a layout change has only its input's gradient to compute";
    plans_.At(args.n).backward.Run({{DNNL_ARG_FROM, args.dy}, {DNNL_ARG_TO, args.dx}});
  }

  OpTraits traits() const override { return {}; }

 private:
  void Build(int64_t n, bool training, Plan* plan) const {
    dnnl::memory::dims dims = {n};
    dims.insert(dims.end(), sample_dims_.begin(), sample_dims_.end());
    plan->forward =
        Primitive::MakeReorder(PlainDesc(dims, from_), PlainDesc(dims, to_), workspace_);
    if (training) {
      plan->backward =
          Primitive::MakeReorder(PlainDesc(dims, to_), PlainDesc(dims, from_), workspace_);
    }
  }

  PlanCache<Plan> plans_;
  Workspace* const workspace_;
  const dnnl::memory::dims sample_dims_;
  const Tag from_;
  const Tag to_;
};

}  // namespace

std::unique_ptr<Op> MakeFlatten(const FlattenOptions& o, Workspace* workspace) {
  return std::make_unique<LayoutChange>(
      "flatten",
      dnnl::memory::dims{o.channels, o.height, o.width},
      Tag::nhwc,
      Tag::nchw,
      workspace);
}

std::unique_ptr<Op> MakeChannelsLast(const ChannelsLastOptions& o, Workspace* workspace) {
  return std::make_unique<LayoutChange>(
      "channels_last",
      dnnl::memory::dims{o.channels, o.height, o.width},
      Tag::nchw,
      Tag::nhwc,
      workspace);
}

}  // namespace ps::kernels
