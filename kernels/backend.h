#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/loss.h"
#include "kernels/op.h"
#include "kernels/op_spec.h"
#include "kernels/optimizer.h"
#include "ps/base/picture_move.h"
#include "ps/base/status.h"
#include "ps/codec/encoding.h"

namespace ps::kernels {

// A device as the rest of the program sees it: memory, streams of work, events between them, and
// ops. kernels/cpu and kernels/cuda implement it; nobody else knows which one runs. The CPU does
// everything at once; code that is right for a device is right for it too.

/// Memory of a backend, aligned to 64 bytes, not zeroed. Belongs to who holds it; the backend
/// outlives it. Freeing it may wait for the device, so it is kept from step to step.
class Memory {
 public:
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  /// For ops and copies. The host may dereference it only if it is host memory.
  std::byte* data() const { return data_; }

  size_t size() const { return size_; }

  float* floats() const { return reinterpret_cast<float*>(data_); }

 protected:
  Memory(std::byte* data, size_t size) : data_(data), size_(size) {}

 private:
  std::byte* const data_;
  const size_t size_;
};

/// A place in a stream. One thread records it; any thread may wait.
class Event {
 public:
  virtual ~Event() = default;
  /// Whether the device came to the last Record; true before the first. Never waits.
  virtual bool IsReached() const = 0;
  /// Waits on this thread until it is. Errors: as Stream::Synchronize.
  virtual Status Wait() const = 0;
};

/// Pictures as bytes and what they become. All in device memory.
struct PictureArgs {
  int64_t n = 0;
  int64_t channels = 0;
  int64_t height = 0;  // of the bytes
  int64_t width = 0;
  int64_t pad = 0;                     // black pixels around them, before they are moved
  const uint8_t* bytes = nullptr;      // [n, channels, height, width]
  const PictureMove* moves = nullptr;  // [n]
  const float* values = nullptr;       // [channels, 256]: of each byte; of byte 0 it is black's
  float* y = nullptr;                  // [n, height + 2 pad, width + 2 pad, channels], written
};

/// Values and the bytes that they become. All in device memory.
struct EncodeArgs {
  codec::Encoding encoding;
  const float* values = nullptr;  // [n]
  float* residual = nullptr;      // [n] f32, read and written; nullptr: what is lost is lost
  std::byte* out = nullptr;  // [encoding.SizeOf(n)], at a multiple of 4 bytes; overlaps nothing
  int64_t n = 0;
};

/// Work that a stream has kept to do it again. Belongs to who holds it; the stream outlives it.
class Recording {
 public:
  virtual ~Recording() = default;
};

/// A queue of work, done in order. Calls return before the device has finished: all that they name
/// stays valid, and untouched by the host, until an event or Synchronize says so. Sizes of 0 are
/// fine. Nothing here waits for other streams.
/// Thread: one at a time. Errors of the device are kept; Synchronize and Event::Wait report them.
class Stream {
 public:
  virtual ~Stream() = default;

  /// An op whose work goes into this stream, which outlives it.
  /// Errors: kUnsupported for an op that this backend lacks.
  virtual Result<std::unique_ptr<Op>> MakeOp(const OpSpec& spec) = 0;

  /// Between pinned host memory and device memory.
  virtual void Upload(const void* host, void* device, size_t size_bytes) = 0;
  virtual void Download(const void* device, void* host, size_t size_bytes) = 0;

  // All memory is the device's from here on; f32, dense, at any alignment of a float.

  virtual void Copy(const float* x, float* y, int64_t n) = 0;
  /// As Copy, where one of both may be memory of another backend of the same kind. Nothing else
  /// here touches that.
  virtual void CopyAcross(const float* x, float* y, int64_t n) = 0;
  virtual void Fill(float value, float* y, int64_t n) = 0;
  /// y[i] = a[i] + b[i]; y may be a or b.
  virtual void Add(const float* a, const float* b, float* y, int64_t n) = 0;
  /// y[i] = a[i] - b[i]; y may be a or b.
  virtual void Subtract(const float* a, const float* b, float* y, int64_t n) = 0;
  /// x[i] *= factor.
  virtual void Scale(float factor, float* x, int64_t n) = 0;
  /// x[i] *= *factor.
  virtual void ScaleBy(const float* factor, float* x, int64_t n) = 0;
  /// *factor = what brings `count` vectors of these squared norms to a common norm of norm_max. It
  /// is 1 when theirs is not larger, or not finite.
  virtual void ClipFactor(const double* squares, int64_t count, float norm_max, float* factor) = 0;
  /// *sum = the sum of squares in double, added up in a fixed order: same x and device, same bits.
  virtual void SquaredNorm(const float* x, int64_t n, double* sum) = 0;
  /// y[i] = x[i] as bfloat16, rounded to the nearest, ties to even; a NaN stays one.
  virtual void PackBf16(const float* x, uint16_t* y, int64_t n) = 0;
  /// With the bytes, and the residual, of codec::Encode; but for the bits of a NaN, which a device
  /// may choose.
  virtual void Encode(const EncodeArgs& args) = 0;
  virtual void ComputeLoss(const LossArgs& args) = 0;
  virtual void MakePictures(const PictureArgs& args) = 0;
  /// not_finite[i] = 1 when NaN or infinity is in tensors[i], else 0.
  virtual void CheckFinite(ConstSpans tensors, uint32_t* not_finite) = 0;
  /// Updates of tensors in place, with the bits that kernels/optimizer.h promises. *left_out
  /// becomes 1 when an element was left out, and stays what it is else; may be nullptr. No two
  /// tensors share memory.
  virtual void ApplyUpdates(
      const OptimizerRule& rule, std::span<const TensorUpdate> updates, uint32_t* left_out) = 0;
  /// The same of averages.
  virtual void MoveAverages(std::span<const AverageMove> moves) = 0;

  /// Work is kept instead of done from here on, until EndRecording: ops and all that is above but
  /// uploads and downloads. Meanwhile nobody takes memory, and nothing is waited for. False: this
  /// stream keeps nothing, and does work at once.
  virtual bool BeginRecording() = 0;
  /// What was kept. Requires: BeginRecording has returned true.
  virtual std::unique_ptr<Recording> EndRecording() = 0;
  /// Whether it is sure that no memory which the recording may use has been freed.
  virtual bool CanReplay(const Recording& recording) const = 0;
  /// Puts that work into the stream, with the same arguments. Requires: CanReplay.
  virtual void Replay(const Recording& recording) = 0;

  virtual void Record(Event* event) = 0;
  /// What is put into this stream later runs behind the event's last Record. The host goes on.
  virtual void WaitFor(const Event& event) = 0;
  /// Waits on this thread until all is done; returns the first error since the stream was made.
  /// Errors: kUnavailable, device lost or failed: leave, as when revoked; a library's refusal.
  virtual Status Synchronize() = 0;
  /// The first error that is known of by now. Never waits.
  virtual Status Failure() const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// For people: "cpu", "cuda:0 (Tesla T4, compute capability 7.5)".
  virtual std::string Name() const = 0;
  /// Device memory and the host's are one: what the host writes a stream reads, and the other way
  /// round, without a copy.
  virtual bool is_host_memory() const = 0;
  /// CopyAcross between this backend's streams and `other`, of the same kind, may take the shortest
  /// way from now on. Without this, or where the machine has no such way, it goes by the host.
  virtual void Reach(const Backend& other) = 0;

  /// Errors: kInvalidArgument when there is not so much.
  virtual Result<std::unique_ptr<Memory>> AllocateDevice(size_t size_bytes) = 0;
  /// Host memory that all backends of this kind copy from and to without a detour.
  virtual Result<std::unique_ptr<Memory>> AllocatePinned(size_t size_bytes) = 0;
  virtual Result<std::unique_ptr<Stream>> MakeStream() = 0;

  /// A stream for uploads, downloads, CopyAcross and events alone: it takes no memory for others.
  virtual Result<std::unique_ptr<Stream>> MakeCopyStream() { return MakeStream(); }

  virtual Result<std::unique_ptr<Event>> MakeEvent() = 0;
};

}  // namespace ps::kernels
