#include "worker/model/device/device_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace ps::worker {
namespace {

/// Where bytes on the device begin: more than any encoding asks for.
constexpr size_t kAlignment = 16;
/// Every kind has blocks of so many values, or of a part of that.
constexpr size_t kBlock = 4096;

size_t Aligned(size_t size_bytes) {
  return (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Status DeviceEncoder::Reserve(std::unique_ptr<kernels::Memory>* memory, size_t size_bytes) const {
  if (*memory == nullptr || (*memory)->size() < size_bytes) {
    memory->reset();
    PS_ASSIGN(std::unique_ptr<kernels::Memory> made, backend_.AllocateDevice(size_bytes));
    *memory = std::move(made);
  }
  return Status::Ok();
}

Status DeviceEncoder::ReserveAll(size_t size_bytes, bool has_feedback) {
  const size_t squares_bytes = 2 * tensors_.size() * sizeof(double);
  PS_TRY(Reserve(&bytes_, size_bytes));
  PS_TRY(Reserve(&squares_, squares_bytes));
  stream_.Fill(
      0, reinterpret_cast<float*>(squares_->data()), static_cast<int64_t>(squares_bytes / 4));
  if (host_squares_ == nullptr) {
    PS_ASSIGN(host_squares_, backend_.AllocatePinned(squares_bytes));
  }
  if (residual_ == nullptr && has_feedback && size_bytes > 0) {
    size_t elements = 0;
    for (size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
      places_[tensor].kept_at = elements;
      elements += static_cast<size_t>(tensors_[tensor].element_count());
    }
    PS_TRY(Reserve(&residual_, elements * sizeof(float)));
    stream_.Fill(0, residual_->floats(), static_cast<int64_t>(elements));
  }
  return Status::Ok();
}

Status DeviceEncoder::Change(std::vector<Parts> parts, bool has_feedback) {
  size_t size_bytes = 0;
  for (size_t tensor = 0; tensor < parts.size(); ++tensor) {
    Place& place = places_[tensor];
    place.parts = std::move(parts[tensor]);
    place.bytes_at.clear();
    place.runs.clear();
    for (const Part& part : place.parts) {
      size_bytes = Aligned(size_bytes);
      place.bytes_at.push_back(size_bytes);
      Run* const last = place.runs.empty() ? nullptr : &place.runs.back();
      const bool goes_on = last != nullptr && last->whole.encoding == part.encoding &&
                           last->whole.begin + last->whole.count == part.begin &&
                           last->whole.count % kBlock == 0 &&
                           last->bytes_at + part.encoding.SizeOf(last->whole.count) == size_bytes;
      if (goes_on) {
        last->whole.count += part.count;
      } else {
        place.runs.push_back({part, size_bytes});
      }
      size_bytes += part.encoding.SizeOf(part.count);
    }
  }
  has_feedback_ = has_feedback;
  is_stopped_ = false;
  ++version_;
  Status status = ReserveAll(size_bytes, has_feedback);
  if (!status.ok()) {
    Stop();
  }
  return status;
}

void DeviceEncoder::Stop() {
  is_stopped_ = true;
  ++version_;
  bytes_.reset();
  if (std::ranges::none_of(places_, &Place::is_kept)) {
    residual_.reset();
  }
}

Status DeviceEncoder::KeepOnHost() {
  if (residual_ != nullptr) {
    PS_ASSIGN(host_residual_, backend_.AllocatePinned(residual_->size()));
    stream_.Download(residual_->data(), host_residual_->data(), residual_->size());
    PS_TRY(stream_.Synchronize());
    residual_.reset();
  }
  return Status::Ok();
}

bool DeviceEncoder::GiveUp() {
  const bool has_memory = !is_stopped_ && bytes_ != nullptr && bytes_->size() > 0;
  if (has_memory) {
    Stop();
    KeepOnHost().Ignore("then it stays where it is; a device that is lost ends the step");
  }
  return has_memory;
}

void DeviceEncoder::Forget() {
  for (Place& place : places_) {
    place.is_kept = false;
    place.is_packed = false;
  }
  host_residual_.reset();
  if (residual_ != nullptr) {
    const auto elements = static_cast<int64_t>(residual_->size() / sizeof(float));
    stream_.Fill(0, residual_->floats(), elements);
  }
}

void DeviceEncoder::Pack(uint32_t tensor, const float* gradient) {
  const Place& place = places_[tensor];
  float* const kept = has_feedback_ ? residual_->floats() + place.kept_at : nullptr;
  const int64_t elements = tensors_[tensor].element_count();
  if (kept != nullptr) {
    stream_.SquaredNorm(gradient, elements, Squares(2 * tensor));
  }
  for (const Run& run : place.runs) {
    stream_.Encode(
        {run.whole.encoding,
         gradient + run.whole.begin,
         kept == nullptr ? nullptr : kept + run.whole.begin,
         BytesAt(run.bytes_at),
         static_cast<int64_t>(run.whole.count)});
  }
  if (kept != nullptr) {
    stream_.SquaredNorm(kept, elements, Squares(2 * tensor + 1));
  }
}

void DeviceEncoder::Send(kernels::Stream* copies, uint32_t tensor, std::byte* host) const {
  const Place& place = places_[tensor];
  for (size_t i = 0; i < place.parts.size(); ++i) {
    const Part& part = place.parts[i];
    copies->Download(
        BytesAt(place.bytes_at[i]), host + part.place, part.encoding.SizeOf(part.count));
  }
}

Status DeviceEncoder::TakeKept(
    kernels::Stream* copies, uint32_t tensor, bool is_encoded, std::span<float> gradient) {
  Place& place = places_[tensor];
  const float* kept = nullptr;
  if (host_residual_ != nullptr) {
    kept = host_residual_->floats() + place.kept_at;
  } else {
    if (host_kept_ == nullptr || host_kept_->size() < gradient.size_bytes()) {
      PS_ASSIGN(host_kept_, backend_.AllocatePinned(gradient.size_bytes()));
    }
    kept = host_kept_->floats();
    float* const on_device = residual_->floats() + place.kept_at;
    copies->Download(on_device, host_kept_->data(), gradient.size_bytes());
    PS_TRY(copies->Synchronize());
    stream_.Fill(0, on_device, static_cast<int64_t>(gradient.size()));  // before the next Pack
  }
  // From the last part on, whose bytes lie in front of its values.
  const std::span<std::byte> bytes = std::as_writable_bytes(gradient);
  for (size_t i = place.parts.size(); is_encoded && i-- > 0;) {
    const Part& part = place.parts[i];
    const auto own = bytes.subspan(part.place, part.encoding.SizeOf(part.count));
    const std::vector<std::byte> copy(own.begin(), own.end());
    PS_TRY(codec::Decode(part.encoding, copy, gradient.subspan(part.begin, part.count)));
  }
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] += kept[i];
  }
  place.is_kept = false;
  version_ += has_feedback_ ? 0 : 1;  // from now on it Encodes
  if (is_stopped_ && std::ranges::none_of(places_, &Place::is_kept)) {
    residual_.reset();
    host_residual_.reset();
  }
  return Status::Ok();
}

Result<double> DeviceEncoder::TakeHeldBack() {
  if (std::ranges::none_of(places_, &Place::is_packed)) {
    return 0.0;
  }
  stream_.Download(squares_->data(), host_squares_->data(), 2 * tensors_.size() * sizeof(double));
  PS_TRY(stream_.Synchronize());
  const auto* const squares = reinterpret_cast<const double*>(host_squares_->data());
  double of_gradient = 0;
  double of_kept = 0;
  for (size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    if (std::exchange(places_[tensor].is_packed, false)) {
      of_gradient += squares[2 * tensor];
      of_kept += squares[2 * tensor + 1];
    }
  }
  const double share = std::sqrt(of_kept / of_gradient);
  return std::isfinite(share) ? share : 0.0;
}

}  // namespace ps::worker
