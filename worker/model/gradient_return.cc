#include "worker/model/gradient_return.h"

#include "ps/base/check.h"

namespace ps::worker {

GradientReturn::GradientReturn(kernels::Stream* compute, kernels::Stream* copies)
    : compute_(compute), copies_(copies) {}

Result<GradientReturn> GradientReturn::Make(
    kernels::Backend* backend,
    kernels::Stream* compute,
    kernels::Stream* copies,
    size_t tensor_count) {
  GradientReturn made(compute, copies);
  for (size_t i = 0; i < tensor_count; ++i) {
    Departure departure;
    PS_ASSIGN(departure.final, backend->MakeEvent());
    PS_ASSIGN(departure.here, backend->MakeEvent());
    made.departures_.push_back(std::move(departure));
  }
  return made;
}

void GradientReturn::Begin(kernels::ConstSpans device, kernels::Spans host, const Ready* ready) {
  device_ = device;
  host_ = host;
  ready_ = ready;
  sent_ = 0;
  announced_ = 0;
}

void GradientReturn::Send(uint32_t first_tensor, uint32_t count) {
  PS_CHECK(sent_ < departures_.size()) << "a gradient was sent twice";
  Departure& departure = departures_[sent_++];
  departure.first_tensor = first_tensor;
  departure.count = count;
  compute_->Record(departure.final.get());
  copies_->WaitFor(*departure.final);
  for (uint32_t i = first_tensor; i < first_tensor + count; ++i) {
    copies_->Download(device_[i].data(), host_[i].data(), host_[i].size_bytes());
  }
  copies_->Record(departure.here.get());
  // A failed device has reached everything; Finish tells of it.
  while (announced_ < sent_ && departures_[announced_].here->IsReached() &&
         departures_[announced_].here->Wait().ok()) {
    Announce(departures_[announced_++]);
  }
}

Status GradientReturn::Finish() {
  for (; announced_ < sent_; ++announced_) {
    PS_TRY(departures_[announced_].here->Wait());
    Announce(departures_[announced_]);
  }
  return Status::Ok();
}

/// From the last tensor to the first.
void GradientReturn::Announce(const Departure& departure) const {
  if (!*ready_) {
    return;
  }
  for (uint32_t i = departure.count; i-- > 0;) {
    (*ready_)(departure.first_tensor + i);
  }
}

}  // namespace ps::worker
