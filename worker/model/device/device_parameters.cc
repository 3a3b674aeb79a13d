#include "worker/model/device/device_parameters.h"

#include <algorithm>

#include "ps/base/check.h"

namespace ps::worker {

Status DeviceParameters::Make(
    kernels::Backend* backend, const Model* model, kernels::Stream* compute) {
  backend_ = backend;
  model_ = model;
  compute_ = compute;
  PS_ASSIGN(uploads_, backend->MakeCopyStream());
  PS_ASSIGN(uploaded_, backend->MakeEvent());
  PS_ASSIGN(taken_, backend->MakeEvent());
  return Status::Ok();
}

Status DeviceParameters::Reserve(const proto::TensorLayout& layout) {
  layout_ = layout;
  return first_.Reserve(backend_, *model_, layout_);
}

Status DeviceParameters::ReserveSecond() {
  return second_.Reserve(backend_, *model_, layout_);
}

Status DeviceParameters::DropSecond() {
  PS_CHECK(changed_.empty()) << "values that nobody has taken yet";
  PS_TRY(compute_->Synchronize());  // it may still copy from there
  second_ = TensorMemory();
  return Status::Ok();
}

void DeviceParameters::Upload(uint32_t tensor, int64_t begin, std::span<const float> values) {
  const TensorMemory& copy = has_second() ? second_ : first_;
  uploads_->Upload(values.data(), copy.spans()[tensor].data() + begin, values.size_bytes());
  if (!has_second()) {
    return;
  }
  const int64_t offset = layout_.OffsetOf(tensor);
  int64_t end = begin + static_cast<int64_t>(values.size());
  if (end == static_cast<int64_t>(copy.spans()[tensor].size())) {
    // With the padding behind the tensor, so that neighbours are one range.
    const bool is_last = tensor + 1 == layout_.tensor_count();
    end = (is_last ? layout_.element_count() : layout_.OffsetOf(tensor + 1)) - offset;
  }
  changed_.push_back({offset + begin, offset + end});
}

Status DeviceParameters::Take() {
  PS_TRY(uploads_->Failure());
  uploads_->Record(uploaded_.get());
  compute_->WaitFor(*uploaded_);
  if (has_second()) {
    CopyChanged();
    compute_->Record(taken_.get());
    uploads_->WaitFor(*taken_);
  }
  return Status::Ok();
}

/// Ranges that touch are copied at once: of a whole model that is one copy.
void DeviceParameters::CopyChanged() {
  std::ranges::sort(changed_, {}, &Range::begin);
  for (size_t i = 0; i < changed_.size();) {
    Range range = changed_[i];
    for (++i; i < changed_.size() && changed_[i].begin <= range.end; ++i) {
      range.end = std::max(range.end, changed_[i].end);
    }
    compute_->Copy(
        second_.floats() + range.begin, first_.floats() + range.begin, range.end - range.begin);
  }
  changed_.clear();
}

Status DeviceParameters::SettleUploads() {
  return uploads_->Synchronize();
}

}  // namespace ps::worker
