#include "kernels/cuda/stream.h"

#include <fmt/core.h>

#include <array>
#include <atomic>
#include <utility>

#include "kernels/cuda/kernels.h"
#include "ps/base/text.h"

namespace ps::kernels {
namespace {

/// How often memory of a device has been freed in this process: a graph holds addresses. Devices
/// beyond so many share counts, which records more than has to be.
std::atomic<uint64_t>& FreesOf(int device) {
  static std::array<std::atomic<uint64_t>, 32> frees{};
  return frees[static_cast<size_t>(device) % frees.size()];
}

class CudaMemory final : public Memory {
 public:
  CudaMemory(int device, MemoryKind kind, void* data, size_t size_bytes)
      : Memory(static_cast<std::byte*>(data), size_bytes), device_(device), kind_(kind) {}

  ~CudaMemory() override {
    // A failure is one of the device, which its streams report.
    static_cast<void>(cudaSetDevice(device_));
    static_cast<void>(kind_ == MemoryKind::kDevice ? cudaFree(data()) : cudaFreeHost(data()));
    if (kind_ == MemoryKind::kDevice && size() > 0) {
      ++FreesOf(device_);
    }
  }

 private:
  const int device_;
  const MemoryKind kind_;
};

/// A graph of kernels.
class CudaRecording final : public Recording {
 public:
  /// `frees`: FreesOf the device when the recording began.
  CudaRecording(int device, cudaGraphExec_t graph, uint64_t frees)
      : device_(device), graph_(graph), frees_(frees) {}

  ~CudaRecording() override {
    if (graph_ != nullptr) {
      static_cast<void>(cudaSetDevice(device_));
      static_cast<void>(cudaGraphExecDestroy(graph_));
    }
  }

  /// nullptr when the device has failed.
  cudaGraphExec_t graph() const { return graph_; }

  bool is_current() const { return frees_ == FreesOf(device_); }

 private:
  const int device_;
  const cudaGraphExec_t graph_;
  const uint64_t frees_;
};

}  // namespace

Status DeviceFailed(const char* what, cudaError_t error) {
  return Status::Unavailable(fmt::format(
      "the CUDA device failed: {}: {} (cuda error {}); this process can't use it any more",
      what,
      cudaGetErrorString(error),
      static_cast<int>(error)));
}

Result<std::unique_ptr<Memory>> AllocateCudaMemory(int device, MemoryKind kind, size_t size_bytes) {
  void* data = nullptr;
  cudaError_t error = cudaSetDevice(device);
  if (error == cudaSuccess && size_bytes > 0) {
    error = kind == MemoryKind::kDevice ? cudaMalloc(&data, size_bytes)
                                        : cudaHostAlloc(&data, size_bytes, cudaHostAllocPortable);
  }
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // no later call is to report it again
    return Status::InvalidArgument(fmt::format(
        "{} of {} asked, and there is not so much free",
        FormatBytes(size_bytes),
        kind == MemoryKind::kDevice ? fmt::format("the memory of cuda:{}", device)
                                    : std::string("pinned host memory")));
  }
  if (error != cudaSuccess) {
    return DeviceFailed("allocating", error);
  }
  return std::unique_ptr<Memory>(std::make_unique<CudaMemory>(device, kind, data, size_bytes));
}

void ReachCudaDevice(int from, int to) {
  int can_reach = 0;
  cudaError_t error = cudaDeviceCanAccessPeer(&can_reach, from, to);
  if (error == cudaSuccess && can_reach != 0) {
    error = cudaSetDevice(from);
  }
  if (error == cudaSuccess && can_reach != 0) {
    error = cudaDeviceEnablePeerAccess(to, 0);
  }
  if (error != cudaSuccess) {
    // It may have been enabled before, or by so many that there is no more of it. What is wrong
    // with a device its streams report.
    static_cast<void>(cudaGetLastError());
  }
}

Result<std::unique_ptr<CudaEvent>> CudaEvent::Make(int device) {
  cudaEvent_t event = nullptr;
  cudaError_t error = cudaSetDevice(device);
  if (error == cudaSuccess) {
    error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  }
  if (error != cudaSuccess) {
    return DeviceFailed("making an event", error);
  }
  return std::unique_ptr<CudaEvent>(new CudaEvent(device, event));
}

CudaEvent::~CudaEvent() {
  static_cast<void>(cudaSetDevice(device_));
  static_cast<void>(cudaEventDestroy(event_));
}

bool CudaEvent::IsReached() const {
  // After a failure nothing is waited for any more; Wait tells of it.
  return cudaEventQuery(event_) != cudaErrorNotReady;
}

Status CudaEvent::Wait() const {
  const cudaError_t error = cudaEventSynchronize(event_);
  return error == cudaSuccess ? Status::Ok() : DeviceFailed("waiting for an event", error);
}

Result<std::unique_ptr<CudaStream>> CudaStream::Make(int device, GemmChoices* choices) {
  std::unique_ptr<Gemm> gemm;
  if (choices != nullptr) {
    PS_ASSIGN(gemm, MakeCublasGemm(device, choices));
  }
  return Make(device, std::move(gemm), kPartialsMax);
}

Result<std::unique_ptr<CudaStream>> CudaStream::MakeForCopies(int device) {
  return Make(device, nullptr, 0);
}

Result<std::unique_ptr<CudaStream>> CudaStream::Make(
    int device, std::unique_ptr<Gemm> gemm, int64_t partials_max) {
  const size_t partials_bytes = static_cast<size_t>(partials_max) * sizeof(LossResult);
  PS_ASSIGN(
      std::unique_ptr<Memory> partials,
      AllocateCudaMemory(device, MemoryKind::kDevice, partials_bytes));
  PS_ASSIGN(std::unique_ptr<Memory> scratch, AllocateCudaMemory(device, MemoryKind::kDevice, 0));
  cudaStream_t stream = nullptr;
  const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) {
    return DeviceFailed("making a stream", error);
  }
  return std::unique_ptr<CudaStream>(
      new CudaStream(device, stream, std::move(gemm), std::move(partials), std::move(scratch)));
}

CudaStream::CudaStream(
    int device,
    cudaStream_t stream,
    std::unique_ptr<Gemm> gemm,
    std::unique_ptr<Memory> partials,
    std::unique_ptr<Memory> scratch)
    : device_(device),
      stream_(stream),
      gemm_(std::move(gemm)),
      partials_(std::move(partials)),
      scratch_(std::move(scratch)) {}

CudaStream::~CudaStream() {
  Synchronize().Ignore("who cares for the results has asked before");
  static_cast<void>(cudaStreamDestroy(stream_));
}

Result<std::unique_ptr<Op>> CudaStream::MakeOp(const OpSpec& spec) {
  return MakeCudaOp(spec, this);
}

cudaStream_t CudaStream::Enter() {
  Note(cudaSetDevice(device_));
  return stream_;
}

void CudaStream::Note(cudaError_t error) {
  if (error != cudaSuccess && failure_.ok()) {
    failure_ = DeviceFailed("working", error);
  }
}

void CudaStream::Note(Status status) {
  if (failure_.ok()) {
    failure_ = std::move(status);
  }
}

Status CudaStream::ReserveScratch(int64_t floats) {
  const size_t size_bytes = static_cast<size_t>(floats) * sizeof(float);
  if (size_bytes > scratch_->size()) {
    PS_TRY(Synchronize());  // who still works in the old one
    PS_ASSIGN(scratch_, AllocateCudaMemory(device_, MemoryKind::kDevice, size_bytes));
  }
  return Status::Ok();
}

void CudaStream::Transfer(void* to, const void* from, size_t size_bytes, cudaMemcpyKind kind) {
  if (size_bytes > 0) {  // no memory of no bytes has an address
    cudaStream_t stream = Enter();
    Note(cudaMemcpyAsync(to, from, size_bytes, kind, stream));
  }
}

void CudaStream::Upload(const void* host, void* device, size_t size_bytes) {
  Transfer(device, host, size_bytes, cudaMemcpyHostToDevice);
}

void CudaStream::Download(const void* device, void* host, size_t size_bytes) {
  Transfer(host, device, size_bytes, cudaMemcpyDeviceToHost);
}

void CudaStream::Copy(const float* x, float* y, int64_t n) {
  Note(CopyValues(Enter(), x, y, n));
}

void CudaStream::CopyAcross(const float* x, float* y, int64_t n) {
  Transfer(y, x, static_cast<size_t>(n) * sizeof(float), cudaMemcpyDefault);
}

void CudaStream::Fill(float value, float* y, int64_t n) {
  Note(FillValues(Enter(), value, y, n));
}

void CudaStream::Add(const float* a, const float* b, float* y, int64_t n) {
  Note(AddValues(Enter(), a, b, y, n));
}

void CudaStream::Subtract(const float* a, const float* b, float* y, int64_t n) {
  Note(SubtractValues(Enter(), a, b, y, n));
}

void CudaStream::Scale(float factor, float* x, int64_t n) {
  Note(ScaleValues(Enter(), factor, x, n));
}

void CudaStream::ScaleBy(const float* factor, float* x, int64_t n) {
  Note(ScaleValuesBy(Enter(), factor, x, n));
}

void CudaStream::ClipFactor(const double* squares, int64_t count, float norm_max, float* factor) {
  Note(ClipFactorOf(Enter(), squares, count, norm_max, factor));
}

void CudaStream::SquaredNorm(const float* x, int64_t n, double* sum) {
  auto* partials = reinterpret_cast<double*>(partials_->data());
  Note(SquaredNormOf(Enter(), x, n, partials, sum));
}

void CudaStream::PackBf16(const float* x, uint16_t* y, int64_t n) {
  Note(PackBf16Values(Enter(), x, y, n));
}

void CudaStream::Encode(const EncodeArgs& args) {
  Note(EncodeValues(Enter(), args));
}

void CudaStream::ComputeLoss(const LossArgs& args) {
  auto* partials = reinterpret_cast<LossResult*>(partials_->data());
  Note(LossOf(Enter(), args, partials));
}

void CudaStream::MakePictures(const PictureArgs& args) {
  Note(PicturesOf(Enter(), args));
}

void CudaStream::CheckFinite(ConstSpans tensors, uint32_t* not_finite) {
  Note(FindNotFinite(Enter(), tensors, not_finite));
}

void CudaStream::ApplyUpdates(
    const OptimizerRule& rule, std::span<const TensorUpdate> updates, uint32_t* left_out) {
  Note(UpdateParameters(Enter(), rule, updates, left_out));
}

void CudaStream::MoveAverages(std::span<const AverageMove> moves) {
  Note(MoveAveragesTowards(Enter(), moves));
}

bool CudaStream::BeginRecording() {
  cudaStream_t stream = Enter();
  frees_before_recording_ = FreesOf(device_);
  // Other threads do as they like meanwhile; what they free counts.
  Note(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  return true;
}

std::unique_ptr<Recording> CudaStream::EndRecording() {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(Enter(), &graph);
  Note(ended);
  if (ended == cudaSuccess) {
    Note(cudaGraphInstantiate(&executable, graph, 0));
    Note(cudaGraphDestroy(graph));
  }
  return std::make_unique<CudaRecording>(device_, executable, frees_before_recording_);
}

bool CudaStream::CanReplay(const Recording& recording) const {
  return static_cast<const CudaRecording&>(recording).is_current();
}

void CudaStream::Replay(const Recording& recording) {
  cudaGraphExec_t graph = static_cast<const CudaRecording&>(recording).graph();
  if (graph != nullptr) {  // else the failure is noted
    Note(cudaGraphLaunch(graph, Enter()));
  }
}

void CudaStream::Record(Event* event) {
  cudaStream_t stream = Enter();
  Note(cudaEventRecord(static_cast<CudaEvent*>(event)->handle(), stream));
}

void CudaStream::WaitFor(const Event& event) {
  cudaStream_t stream = Enter();
  Note(cudaStreamWaitEvent(stream, static_cast<const CudaEvent&>(event).handle(), 0));
}

Status CudaStream::Synchronize() {
  cudaStream_t stream = Enter();
  Note(cudaStreamSynchronize(stream));
  return failure_;
}

}  // namespace ps::kernels
