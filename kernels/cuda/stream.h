#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "kernels/backend.h"
#include "kernels/cuda/gemm/gemm.h"

// Inside this folder: what stands behind Memory, Event and Stream.

namespace ps::kernels {

/// Every error of the runtime once a device is in use. The device is lost or has failed, which
/// nothing in this process repairs: kUnavailable.
Status DeviceFailed(const char* what, cudaError_t error);

enum class MemoryKind : uint8_t { kDevice, kPinned };

/// Errors: kInvalidArgument when there is not so much; kUnavailable when the device has failed.
Result<std::unique_ptr<Memory>> AllocateCudaMemory(int device, MemoryKind kind, size_t size_bytes);

/// Copies from one device to another go without a detour from now on, if the machine can.
void ReachCudaDevice(int from, int to);

class CudaEvent final : public Event {
 public:
  static Result<std::unique_ptr<CudaEvent>> Make(int device);
  ~CudaEvent() override;

  bool IsReached() const override;
  Status Wait() const override;

  cudaEvent_t handle() const { return event_; }

 private:
  CudaEvent(int device, cudaEvent_t event) : device_(device), event_(event) {}

  const int device_;
  const cudaEvent_t event_;
};

class CudaStream final : public Stream {
 public:
  /// Products are made by the folder's own kernel where `choices` is nullptr, else by cuBLASLt, and
  /// the choices outlive the stream.
  static Result<std::unique_ptr<CudaStream>> Make(int device, GemmChoices* choices);
  /// Backend::MakeCopyStream.
  static Result<std::unique_ptr<CudaStream>> MakeForCopies(int device);
  ~CudaStream() override;

  Result<std::unique_ptr<Op>> MakeOp(const OpSpec& spec) override;
  void Upload(const void* host, void* device, size_t size_bytes) override;
  void Download(const void* device, void* host, size_t size_bytes) override;
  void Copy(const float* x, float* y, int64_t n) override;
  void CopyAcross(const float* x, float* y, int64_t n) override;
  void Fill(float value, float* y, int64_t n) override;
  void Add(const float* a, const float* b, float* y, int64_t n) override;
  void Subtract(const float* a, const float* b, float* y, int64_t n) override;
  void Scale(float factor, float* x, int64_t n) override;
  void ScaleBy(const float* factor, float* x, int64_t n) override;
  void ClipFactor(const double* squares, int64_t count, float norm_max, float* factor) override;
  void SquaredNorm(const float* x, int64_t n, double* sum) override;
  void PackBf16(const float* x, uint16_t* y, int64_t n) override;
  void Encode(const EncodeArgs& args) override;
  void ComputeLoss(const LossArgs& args) override;
  void MakePictures(const PictureArgs& args) override;
  void CheckFinite(ConstSpans tensors, uint32_t* not_finite) override;
  void ApplyUpdates(
      const OptimizerRule& rule,
      std::span<const TensorUpdate> updates,
      uint32_t* left_out) override;
  void MoveAverages(std::span<const AverageMove> moves) override;
  bool BeginRecording() override;
  std::unique_ptr<Recording> EndRecording() override;
  bool CanReplay(const Recording& recording) const override;
  void Replay(const Recording& recording) override;
  void Record(Event* event) override;
  void WaitFor(const Event& event) override;
  Status Synchronize() override;

  Status Failure() const override { return failure_; }

  // For this folder's ops.

  /// The stream, its device made the calling thread's.
  cudaStream_t Enter();
  /// Keeps the first failure for Synchronize.
  void Note(cudaError_t error);
  void Note(Status status);

  /// Memory for the op that runs, at least so large from now on. May wait for the device.
  Status ReserveScratch(int64_t floats);

  float* scratch() const { return scratch_->floats(); }

  /// nullptr: the folder's own kernel.
  Gemm* gemm() const { return gemm_.get(); }

  int device() const { return device_; }

 private:
  static Result<std::unique_ptr<CudaStream>> Make(
      int device, std::unique_ptr<Gemm> gemm, int64_t partials);

  CudaStream(
      int device,
      cudaStream_t stream,
      std::unique_ptr<Gemm> gemm,
      std::unique_ptr<Memory> partials,
      std::unique_ptr<Memory> scratch);

  void Transfer(void* to, const void* from, size_t size_bytes, cudaMemcpyKind kind);

  const int device_;
  const cudaStream_t stream_;
  const std::unique_ptr<Gemm> gemm_;
  const std::unique_ptr<Memory> partials_;  // kPartialsMax results of blocks; of none for copies
  std::unique_ptr<Memory> scratch_;
  Status failure_;  // the first
  uint64_t frees_before_recording_ = 0;
};

/// Stream::MakeOp. `stream` outlives the op.
Result<std::unique_ptr<Op>> MakeCudaOp(const OpSpec& spec, CudaStream* stream);

/// The same for an op of kernels/ops. Requires: the options are one's.
std::unique_ptr<Op> MakePortableCudaOp(const OpSpec& spec, CudaStream* stream);

}  // namespace ps::kernels
