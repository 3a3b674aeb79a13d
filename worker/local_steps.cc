#include "worker/local_steps.h"

#include <fmt/core.h>

#include <utility>

#include "kernels/optimizer_slots.h"
#include "ps/base/check.h"
#include "ps/base/text.h"
#include "ps/proto/job/optimizer_rules.h"

namespace ps::worker {
namespace {

int64_t SizeOf(std::span<const float> values) {
  return static_cast<int64_t>(values.size());
}

}  // namespace

LocalSteps::LocalSteps(
    const proto::JobConfig& config,
    const Model& model,
    std::shared_ptr<kernels::Backend> backend,
    const std::optional<Place>& place)
    : rule_(proto::LocalOptimizer(config)),
      reference_minibatch_(config.train.minibatch),
      model_(model),
      backend_(std::move(backend)),
      place_(place) {
  PS_CHECK(place_.has_value() != backend_->is_host_memory())
      << "a place is what a device with memory of its own has";
}

/// All in one piece: the sums of observations, moments, and parameters.
Status LocalSteps::Allocate() {
  const auto slots = static_cast<size_t>(kernels::OptimizerSlotCount(rule_));
  size_t averaged = 0;
  size_t trained = 0;
  for (const TensorSpec& spec : model_.tensors) {
    (spec.rule == UpdateRule::kAverage ? averaged : trained) +=
        static_cast<size_t>(spec.element_count());
  }
  const size_t elements =
      averaged + slots * trained + (place_ ? place_->all.size() : averaged + trained);
  const size_t flags_bytes = (model_.tensors.size() + 1) * sizeof(uint32_t);
  Result<std::unique_ptr<kernels::Memory>> made =
      backend_->AllocateDevice(elements * sizeof(float));
  if (made.status().code() == StatusCode::kInvalidArgument) {
    return Status::InvalidArgument(fmt::format(
        "local steps need {} in the memory of {}: the parameters once more, and {} times what the "
        "optimizer trains; take an optimizer that remembers less, a smaller minibatch, or "
        "train.micro_batch: {}",
        FormatBytes(elements * sizeof(float)),
        backend_->Name(),
        slots,
        made.status().message()));
  }
  PS_ASSIGN(std::unique_ptr<kernels::Memory> memory, std::move(made));
  PS_ASSIGN(device_flags_, backend_->AllocateDevice(flags_bytes));
  PS_ASSIGN(flags_, backend_->AllocatePinned(flags_bytes));
  if (!place_) {
    PS_ASSIGN(own_stream_, backend_->MakeStream());
  }
  stream_ = place_ ? place_->stream : own_stream_.get();
  stream_->Fill(0, memory->floats(), static_cast<int64_t>(elements));
  std::span<float> rest(memory->floats(), elements);
  const auto take = [&rest](size_t count) {
    const std::span<float> taken = rest.first(count);
    rest = rest.subspan(count);
    return taken;
  };
  observed_ = take(averaged);
  own_start_ = take(place_ ? place_->all.size() : 0);
  std::span<float> sums = observed_;
  for (size_t i = 0; i < model_.tensors.size(); ++i) {
    const TensorSpec& spec = model_.tensors[i];
    const auto count = static_cast<size_t>(spec.element_count());
    Tensor& tensor = tensors_.emplace_back();
    if (place_) {
      tensor.value = place_->parameters[i];
      start_.emplace_back(
          own_start_.subspan(static_cast<size_t>(tensor.value.data() - place_->all.data()), count));
    } else {
      tensor.value = take(count);
    }
    views_.emplace_back(tensor.value);
    if (spec.rule == UpdateRule::kAverage) {
      tensor.observed = sums.first(count);
      sums = sums.subspan(count);
      continue;
    }
    for (size_t slot = 0; slot < slots; ++slot) {
      tensor.slots[slot] = take(count);
    }
  }
  memory_ = std::move(memory);
  return Status::Ok();
}

Status LocalSteps::Begin(kernels::ConstSpans start) {
  if (memory_ == nullptr) {
    PS_TRY(Allocate());
  }
  if (place_) {
    stream_->Copy(place_->all.data(), own_start_.data(), SizeOf(own_start_));
  } else {
    start_.assign(start.begin(), start.end());
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!place_) {
      stream_->Copy(start_[i].data(), tensors_[i].value.data(), SizeOf(start_[i]));
    }
    tensors_[i].observed_weight = 0;
  }
  stream_->Fill(0, observed_.data(), SizeOf(observed_));
  // No update is in front of the first minibatch, so nothing of one was left out.
  stream_->Fill(0, reinterpret_cast<float*>(DeviceFlags() + tensors_.size()), 1);
  minibatches_ = 0;
  bad_minibatches_ = 0;
  is_last_bad_ = false;
  return Status::Ok();
}

std::span<const uint32_t> LocalSteps::Flags() const {
  return {reinterpret_cast<const uint32_t*>(flags_->data()), tensors_.size() + 1};
}

Status LocalSteps::LookAt(kernels::Spans gradients) {
  looked_at_.assign(gradients.begin(), gradients.end());
  stream_->CheckFinite(looked_at_, DeviceFlags());
  stream_->Download(DeviceFlags(), flags_->data(), flags_->size());
  PS_TRY(stream_->Synchronize());
  bad_minibatches_ += is_last_bad_ || Flags().back() != 0 ? 1 : 0;
  return Status::Ok();
}

Status LocalSteps::Take(kernels::Spans gradients, uint64_t samples, double fraction) {
  PS_TRY(LookAt(gradients));
  const double weight = static_cast<double>(samples) / reference_minibatch_;
  const auto lr = static_cast<float>(proto::ScheduledLr(rule_, fraction) * weight);
  is_last_bad_ = false;
  updates_.clear();
  moves_.clear();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TensorSpec& spec = model_.tensors[i];
    Tensor& tensor = tensors_[i];
    const proto::TensorTreatment treatment = model_.TreatmentOf(i);
    if (treatment.is_frozen) {
      continue;
    }
    if (Flags()[i] != 0) {
      is_last_bad_ = true;
      continue;
    }
    const int64_t count = SizeOf(tensor.value);
    const float* const gradient = gradients[i].data();
    if (spec.rule == UpdateRule::kAverage) {
      // The sum moves as the average does, from 0 instead of from what it was.
      const float rate = spec.average_rate;
      moves_.push_back({gradient, tensor.value.data(), count, rate});
      moves_.push_back({gradient, tensor.observed.data(), count, rate});
      tensor.observed_weight += rate * (1 - tensor.observed_weight);
      continue;
    }
    const auto slot = [&tensor](size_t index) {
      return tensor.slots[index].empty() ? nullptr : tensor.slots[index].data();
    };
    const float decay = treatment.has_weight_decay ? rule_.weight_decay : 0;
    updates_.push_back(
        {{lr * treatment.lr_factor, decay, ++tensor.updates},
         {gradient, tensor.value.data(), {slot(0), slot(1)}, count}});
  }
  uint32_t* const left_out = DeviceFlags() + tensors_.size();
  stream_->Fill(0, reinterpret_cast<float*>(left_out), 1);
  stream_->ApplyUpdates(rule_, updates_, left_out);
  stream_->MoveAverages(moves_);
  ++minibatches_;
  return Status::Ok();
}

Status LocalSteps::Finish(kernels::Spans gradients) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& tensor = tensors_[i];
    const int64_t count = SizeOf(tensor.value);
    float* const out = gradients[i].data();
    if (model_.tensors[i].rule != UpdateRule::kAverage) {
      stream_->Subtract(start_[i].data(), tensor.value.data(), out, count);
    } else if (tensor.observed_weight == 0) {
      stream_->Copy(start_[i].data(), out, count);
    } else {
      stream_->Copy(tensor.observed.data(), out, count);
      stream_->Scale(static_cast<float>(1 / tensor.observed_weight), out, count);
    }
  }
  if (place_) {
    stream_->Copy(own_start_.data(), place_->all.data(), SizeOf(own_start_));
  }
  stream_->Download(DeviceFlags(), flags_->data(), flags_->size());
  PS_TRY(stream_->Synchronize());
  bad_minibatches_ += is_last_bad_ || Flags().back() != 0 ? 1 : 0;
  is_last_bad_ = false;
  return Status::Ok();
}

}  // namespace ps::worker
