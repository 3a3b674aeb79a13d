#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"
#include "ps/codec/encoding.h"

namespace ps::worker {

/// Makes of a device's gradients what travels before they leave it, so that what goes to the host
/// are those bytes: codec::Encode's, part by part. With error feedback the device keeps what was
/// lost of each value and adds it to the next gradient. Thread: one at a time.
class DeviceEncoder {
 public:
  /// Elements [begin, begin + count) of a tensor.
  struct Part {
    codec::Encoding encoding;
    size_t begin = 0;
    size_t count = 0;
    size_t place = 0;  // of its bytes, in bytes from the start of the tensor's place on the host
  };

  /// The parts of a tensor in order; none: its gradient leaves as f32.
  using Parts = std::vector<Part>;

  /// `backend` and `tensors` outlive it. `stream`, which makes the gradients, too.
  DeviceEncoder(
      kernels::Backend* backend, kernels::Stream* stream, const std::vector<TensorSpec>* tensors)
      : backend_(*backend), stream_(*stream), tensors_(*tensors), places_(tensors->size()) {}

  /// Gradients leave so from now on, `parts` of each tensor. What was kept stays until TakeKept.
  /// Requires: no work is under way. Errors: kInvalidArgument, memory is short: as after Stop.
  Status Change(std::vector<Parts> parts, bool has_feedback);

  /// Gradients leave as f32 from now on, and take along what is kept (TakeKept). All memory is
  /// given back but what is kept.
  void Stop();
  /// Stop, as others need the memory: in the step under way, too. What is kept goes to the host.
  /// False: there is none to be had.
  bool GiveUp();

  bool is_stopped() const { return is_stopped_; }

  /// Nothing is kept any more. Requires: no work is under way.
  void Forget();

  /// Whether the tensor's gradient leaves encoded. Not so where feedback has ended and something is
  /// kept: that has to go with a gradient that loses nothing.
  bool Encodes(uint32_t tensor) const {
    return HasParts(tensor) && !is_stopped_ && (has_feedback_ || !places_[tensor].is_kept);
  }

  /// Whether it has parts.
  bool HasParts(uint32_t tensor) const { return !places_[tensor].parts.empty(); }

  /// Whether something is kept of the tensor.
  bool IsKept(uint32_t tensor) const { return places_[tensor].is_kept; }

  /// Another number: Pack and Send do other work than before.
  uint64_t version() const { return version_; }

  /// Puts into the stream what makes bytes of the tensor's gradient. Requires: Encodes.
  void Pack(uint32_t tensor, const float* gradient);
  /// Puts those bytes on the way to the tensor's place on the host, by a stream behind Pack.
  void Send(kernels::Stream* copies, uint32_t tensor, std::byte* host) const;

  /// A step has brought the bytes of a tensor that Encodes.
  void NoteSent(uint32_t tensor) {
    places_[tensor].is_kept = has_feedback_;
    places_[tensor].is_packed = has_feedback_;
  }

  /// The gradient on the host takes along what is kept of the tensor, and loses nothing: bytes are
  /// decoded first where `is_encoded`. Nothing is kept then. Waits for the copies' stream. Errors:
  /// kUnavailable, the device is lost.
  Status TakeKept(
      kernels::Stream* copies, uint32_t tensor, bool is_encoded, std::span<float> gradient);

  /// Norm of what is kept as a share of the norm of the gradients, of those sent since the last
  /// call; 0: nothing is kept, or something was not finite. Waits for the stream. Errors:
  /// kUnavailable, the device is lost.
  Result<double> TakeHeldBack();

 private:
  /// Parts that are encoded together: their blocks follow each other, as if they were one.
  struct Run {
    Part whole;
    size_t bytes_at = 0;  // in the device's bytes
  };

  struct Place {
    Parts parts;
    std::vector<size_t> bytes_at;  // of each part, in the device's bytes
    std::vector<Run> runs;
    size_t kept_at = 0;  // of the tensor, in the residual's elements
    bool is_kept = false;
    bool is_packed = false;  // since TakeHeldBack
  };

  Status Reserve(std::unique_ptr<kernels::Memory>* memory, size_t size_bytes) const;
  Status ReserveAll(size_t size_bytes, bool has_feedback);
  Status KeepOnHost();

  std::byte* BytesAt(size_t at) const { return bytes_->data() + at; }

  double* Squares(size_t of) const { return reinterpret_cast<double*>(squares_->data()) + of; }

  kernels::Backend& backend_;
  kernels::Stream& stream_;
  const std::vector<TensorSpec>& tensors_;
  std::vector<Place> places_;  // by tensor
  bool has_feedback_ = false;
  bool is_stopped_ = false;
  uint64_t version_ = 1;
  std::unique_ptr<kernels::Memory> bytes_;          // of a gradient, encoded
  std::unique_ptr<kernels::Memory> residual_;       // what is kept; none without feedback
  std::unique_ptr<kernels::Memory> host_residual_;  // or it is here
  std::unique_ptr<kernels::Memory> squares_;       // two a tensor: of its gradient, of what is kept
  std::unique_ptr<kernels::Memory> host_squares_;  // the same for the host
  std::unique_ptr<kernels::Memory> host_kept_;     // of a tensor, for TakeKept
};

}  // namespace ps::worker
