#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/backend.h"
#include "ps/base/picture_move.h"
#include "ps/base/status.h"
#include "worker/model/device/device_copy.h"
#include "worker/model/picture_format.h"

namespace ps::worker {

/// Makes a network's input of the bytes of pictures, on the device: a quarter of what the values
/// would be travels there. Thread: one at a time.
class PictureMaker {
 public:
  /// The table of values is on the device when it returns. `backend` outlives it. Errors: the
  /// backend's.
  static Result<PictureMaker> Make(
      kernels::Backend* backend, kernels::Stream* stream, const PictureFormat& format);

  const PictureFormat& format() const { return format_; }

  int64_t ValuesOf(int64_t pictures) const;

  /// Memory for so many pictures. Errors: kInvalidArgument when there is not so much.
  Status Reserve(int64_t pictures);
  /// Gives that memory back.
  void Release();
  /// Puts the work into the stream. Returned is NHWC memory that stays until the next call.
  /// Requires: the memory for them; the spans are pinned memory of the same count of pictures.
  const float* Run(
      kernels::Stream* stream, std::span<const uint8_t> bytes, std::span<const PictureMove> moves);

 private:
  PictureMaker(kernels::Backend* backend, const PictureFormat& format);

  kernels::Backend* backend_;
  PictureFormat format_;
  std::unique_ptr<kernels::Memory> values_;
  DeviceCopy bytes_;
  DeviceCopy moves_;
  std::unique_ptr<kernels::Memory> pictures_;
};

}  // namespace ps::worker
