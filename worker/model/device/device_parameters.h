#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "ps/base/status.h"
#include "ps/proto/chunks.h"
#include "worker/model/device/tensor_memory.h"
#include "worker/model/model.h"

namespace ps::worker {

/// The parameters in a device's own memory, and how new values get there.
///
/// Recorded work reads them at addresses that stay. With a second copy, values are uploaded there
/// while a step reads the first, by a stream of their own, and Take puts work in front of the next
/// step that copies what has changed: all of a model at the speed of the device's memory, while two
/// recordings, one of each copy, would need the values that have not changed in both.
///
/// Thread: one at a time; with a second copy, Upload and SettleUploads may run on another thread
/// than the work behind Take.
class DeviceParameters {
 public:
  /// `backend`, `model`, and `compute`, whose work reads the parameters, outlive this. Errors: the
  /// backend's.
  Status Make(kernels::Backend* backend, const Model* model, kernels::Stream* compute);

  /// Memory for them, laid out so, unless it is there. Errors: kInvalidArgument when it is short.
  Status Reserve(const proto::TensorLayout& layout);
  /// The second copy. Requires: there is a first. Errors: likewise.
  Status ReserveSecond();
  /// Without it again. Waits for work. Requires: all that was uploaded has been taken.
  Status DropSecond();

  bool has_second() const { return second_.is_reserved(); }

  kernels::ConstSpans spans() const { return first_.const_spans(); }

  /// What the work reads. Requires: Reserve has returned OK.
  const TensorMemory& first() const { return first_; }

  /// Puts values of `tensor` from element `begin` on their way. They stay as they are until work
  /// behind the next Take is done, or SettleUploads has returned. Without a second copy, no work
  /// that is not done reads the parameters.
  void Upload(uint32_t tensor, int64_t begin, std::span<const float> values);
  /// What is put into the compute stream from now on reads what was uploaded. Errors: kUnavailable,
  /// an upload has failed.
  Status Take();
  /// Waits until all that was uploaded has left its place on the host. Errors: likewise.
  Status SettleUploads();

 private:
  /// Elements of the flat layout.
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };

  void CopyChanged();

  kernels::Backend* backend_ = nullptr;
  const Model* model_ = nullptr;
  kernels::Stream* compute_ = nullptr;
  std::unique_ptr<kernels::Stream> uploads_;
  std::unique_ptr<kernels::Event> uploaded_;  // what the compute stream is to read
  std::unique_ptr<kernels::Event> taken_;     // the second copy may be overwritten
  proto::TensorLayout layout_;
  TensorMemory first_;
  TensorMemory second_;
  std::vector<Range> changed_;  // in the second copy, since the last Take
};

}  // namespace ps::worker
