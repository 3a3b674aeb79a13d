#include "worker/model/picture_maker.h"

#include <cstring>
#include <utility>

namespace ps::worker {

PictureMaker::PictureMaker(kernels::Backend* backend, const PictureFormat& format)
    : backend_(backend), format_(format) {}

Result<PictureMaker> PictureMaker::Make(
    kernels::Backend* backend, kernels::Stream* stream, const PictureFormat& format) {
  PictureMaker made(backend, format);
  const size_t size_bytes = format.values.size() * sizeof(format.values[0]);
  PS_ASSIGN(made.values_, backend->AllocateDevice(size_bytes));
  PS_ASSIGN(const std::unique_ptr<kernels::Memory> pinned, backend->AllocatePinned(size_bytes));
  std::memcpy(pinned->data(), format.values.data(), size_bytes);
  stream->Upload(pinned->data(), made.values_->data(), size_bytes);
  PS_TRY(stream->Synchronize());
  return made;
}

int64_t PictureMaker::ValuesOf(int64_t pictures) const {
  const int64_t height = format_.height + 2 * format_.pad;
  return pictures * format_.channels * height * (format_.width + 2 * format_.pad);
}

Status PictureMaker::Reserve(int64_t pictures) {
  const auto count = static_cast<size_t>(pictures);
  PS_TRY(bytes_.Reserve(backend_, count * static_cast<size_t>(format_.byte_count())));
  PS_TRY(moves_.Reserve(backend_, count * sizeof(PictureMove)));
  const size_t size_bytes = static_cast<size_t>(ValuesOf(pictures)) * sizeof(float);
  if (pictures_ == nullptr || pictures_->size() < size_bytes) {
    pictures_.reset();
    PS_ASSIGN(pictures_, backend_->AllocateDevice(size_bytes));
  }
  return Status::Ok();
}

void PictureMaker::Release() {
  bytes_ = DeviceCopy();
  moves_ = DeviceCopy();
  pictures_.reset();
}

const float* PictureMaker::Run(
    kernels::Stream* stream, std::span<const uint8_t> bytes, std::span<const PictureMove> moves) {
  stream->MakePictures(
      {.n = static_cast<int64_t>(moves.size()),
       .channels = format_.channels,
       .height = format_.height,
       .width = format_.width,
       .pad = format_.pad,
       .bytes = bytes_.Upload(stream, bytes),
       .moves = moves_.Upload(stream, moves),
       .values = values_->floats(),
       .y = pictures_->floats()});
  return pictures_->floats();
}

}  // namespace ps::worker
