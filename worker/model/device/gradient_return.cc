#include "worker/model/device/gradient_return.h"

#include "ps/base/check.h"

namespace ps::worker {

GradientReturn::GradientReturn(
    kernels::Backend* backend,
    kernels::Stream* compute,
    kernels::Stream* copies,
    const std::vector<TensorSpec>* tensors)
    : backend_(backend), compute_(compute), copies_(copies), tensors_(tensors) {}

Result<GradientReturn> GradientReturn::Make(
    kernels::Backend* backend,
    kernels::Stream* compute,
    kernels::Stream* copies,
    const std::vector<TensorSpec>* tensors) {
  GradientReturn made(backend, compute, copies, tensors);
  for (size_t i = 0; i < tensors->size(); ++i) {
    Departure departure;
    PS_ASSIGN(departure.final, backend->MakeEvent());
    PS_ASSIGN(departure.here, backend->MakeEvent());
    made.departures_.push_back(std::move(departure));
  }
  return made;
}

Status GradientReturn::Begin(
    kernels::ConstSpans device, kernels::Spans host, bool as_bf16, const Ready* ready) {
  device_ = device;
  host_ = host;
  as_bf16_ = as_bf16;
  encoder_ = nullptr;
  ready_ = ready;
  sent_ = 0;
  announced_ = 0;
  return as_bf16 && packed_ == nullptr ? ReservePacked() : Status::Ok();
}

void GradientReturn::BeginEncoded(
    kernels::ConstSpans device, kernels::Spans host, DeviceEncoder* encoder, const Ready* ready) {
  Begin(device, host, false, ready).Ignore("without rounding it takes no memory");
  encoder_ = encoder;
}

Status GradientReturn::ReservePacked() {
  size_t count = 0;
  offsets_.clear();
  for (const TensorSpec& tensor : *tensors_) {
    offsets_.push_back(count);
    count += static_cast<size_t>(tensor.element_count());
  }
  PS_ASSIGN(packed_, backend_->AllocateDevice(count * sizeof(uint16_t)));
  return Status::Ok();
}

/// Observations are averaged over many steps, where small differences count.
bool GradientReturn::IsPacked(uint32_t tensor) const {
  return as_bf16_ && (*tensors_)[tensor].rule == UpdateRule::kOptimizer;
}

uint16_t* GradientReturn::PackedOf(uint32_t tensor) const {
  return reinterpret_cast<uint16_t*>(packed_->data()) + offsets_[tensor];
}

void GradientReturn::Pack(uint32_t first_tensor, uint32_t count) {
  for (uint32_t i = first_tensor; i < first_tensor + count; ++i) {
    if (encoder_ != nullptr && encoder_->Encodes(i)) {
      encoder_->Pack(i, device_[i].data());
    } else if (IsPacked(i)) {
      const auto size = static_cast<int64_t>(device_[i].size());
      compute_->PackBf16(device_[i].data(), PackedOf(i), size);
    }
  }
}

void GradientReturn::Send(uint32_t first_tensor, uint32_t count) {
  PS_CHECK(sent_ < departures_.size()) << "a gradient was sent twice";
  Departure& departure = departures_[sent_++];
  departure.first_tensor = first_tensor;
  departure.count = count;
  compute_->Record(departure.final.get());
  copies_->WaitFor(*departure.final);
  for (uint32_t i = first_tensor; i < first_tensor + count; ++i) {
    if (encoder_ != nullptr && encoder_->Encodes(i)) {
      encoder_->Send(copies_, i, reinterpret_cast<std::byte*>(host_[i].data()));
    } else if (IsPacked(i)) {
      copies_->Download(PackedOf(i), host_[i].data(), host_[i].size() * sizeof(uint16_t));
    } else {
      copies_->Download(device_[i].data(), host_[i].data(), host_[i].size_bytes());
    }
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
  for (uint32_t i = departure.first_tensor + departure.count; i-- > departure.first_tensor;) {
    if (encoder_ != nullptr && encoder_->Encodes(i)) {
      encoder_->NoteSent(i);
    }
    if (*ready_) {
      (*ready_)(i);
    }
  }
}

}  // namespace ps::worker
