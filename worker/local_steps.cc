#include "worker/local_steps.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "kernels/cpu/finite.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/optimizer_combine.h"
#include "kernels/optimizer_slots.h"
#include "ps/proto/job/optimizer_rules.h"

namespace ps::worker {

LocalSteps::LocalSteps(
    const proto::JobConfig& config, const Model& model, std::shared_ptr<kernels::Backend> backend)
    : rule_(proto::LocalOptimizer(config)),
      reference_minibatch_(config.train.minibatch),
      model_(model),
      backend_(std::move(backend)) {}

/// All in one piece, each tensor's values in a row.
Status LocalSteps::Allocate() {
  const auto slots = static_cast<size_t>(kernels::OptimizerSlotCount(rule_));
  size_t elements = 0;
  for (const TensorSpec& spec : model_.tensors) {
    const bool is_average = spec.rule == UpdateRule::kAverage;
    elements += static_cast<size_t>(spec.element_count()) * (is_average ? 2 : 1 + slots);
  }
  PS_ASSIGN(memory_, backend_->AllocatePinned(elements * sizeof(float)));
  std::span<float> rest(reinterpret_cast<float*>(memory_->data()), elements);
  std::ranges::fill(rest, 0.0F);
  const auto take = [&rest](size_t count) {
    const std::span<float> taken = rest.first(count);
    rest = rest.subspan(count);
    return taken;
  };
  for (const TensorSpec& spec : model_.tensors) {
    const auto count = static_cast<size_t>(spec.element_count());
    Tensor& tensor = tensors_.emplace_back();
    tensor.value = take(count);
    views_.emplace_back(tensor.value);
    if (spec.rule == UpdateRule::kAverage) {
      tensor.observed = take(count);
      continue;
    }
    for (size_t slot = 0; slot < slots; ++slot) {
      tensor.slots[slot] = take(count);
    }
  }
  return Status::Ok();
}

Status LocalSteps::Begin(std::span<const std::span<const float>> parameters) {
  if (memory_ == nullptr) {
    PS_TRY(Allocate());
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    Tensor& tensor = tensors_[i];
    std::ranges::copy(parameters[i], tensor.value.begin());
    std::ranges::fill(tensor.observed, 0.0F);
    tensor.observed_weight = 0;
  }
  minibatches_ = 0;
  bad_minibatches_ = 0;
  return Status::Ok();
}

void LocalSteps::Take(
    std::span<const std::span<float>> gradients, uint64_t samples, double fraction) {
  const double weight = static_cast<double>(samples) / reference_minibatch_;
  const auto lr = static_cast<float>(proto::ScheduledLr(rule_, fraction) * weight);
  bool is_bad = false;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TensorSpec& spec = model_.tensors[i];
    Tensor& tensor = tensors_[i];
    const auto count = static_cast<int64_t>(tensor.value.size());
    const proto::TensorTreatment treatment = model_.TreatmentOf(i);
    if (treatment.is_frozen) {
      continue;
    }
    if (!kernels::AllFinite(gradients[i])) {
      is_bad = true;
      continue;
    }
    if (spec.rule == UpdateRule::kAverage) {
      // The sum moves as the average does, from 0 instead of from what it was.
      const float rate = spec.average_rate;
      kernels::MoveTowards(gradients[i].data(), rate, tensor.value.data(), count);
      kernels::MoveTowards(gradients[i].data(), rate, tensor.observed.data(), count);
      tensor.observed_weight += rate * (1 - tensor.observed_weight);
      continue;
    }
    const auto slot = [&tensor](size_t index) {
      return tensor.slots[index].empty() ? nullptr : tensor.slots[index].data();
    };
    const float decay = treatment.has_weight_decay ? rule_.weight_decay : 0;
    const bool is_whole = kernels::ApplyUpdate(
        rule_,
        {lr * treatment.lr_factor, decay, ++tensor.updates},
        {gradients[i].data(), tensor.value.data(), {slot(0), slot(1)}, count});
    is_bad = is_bad || !is_whole;
  }
  ++minibatches_;
  bad_minibatches_ += is_bad ? 1 : 0;
}

void LocalSteps::Finish(
    std::span<const std::span<const float>> start, std::span<const std::span<float>> gradients) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& tensor = tensors_[i];
    const std::span<float> out = gradients[i];
    if (model_.tensors[i].rule != UpdateRule::kAverage) {
      std::ranges::transform(start[i], tensor.value, out.begin(), std::minus());
    } else if (tensor.observed_weight == 0) {
      std::ranges::copy(start[i], out.begin());
    } else {
      const auto scale = static_cast<float>(1 / tensor.observed_weight);
      std::ranges::transform(
          tensor.observed, out.begin(), [scale](float sum) { return sum * scale; });
    }
  }
}

}  // namespace ps::worker
