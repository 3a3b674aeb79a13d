#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "ps/base/status.h"
#include "ps/proto/chunks.h"
#include "worker/model/batch.h"
#include "worker/model/device/device_copy.h"
#include "worker/model/device/device_parameters.h"
#include "worker/model/device/tensor_memory.h"
#include "worker/model/picture_maker.h"
#include "worker/model/sequence.h"
#include "worker/model/step_recorder.h"

namespace ps::worker {

/// What the sum of a batch's losses becomes a mean by: its labels without those of kNoLabel, or
/// their classes' weights.
double DivisorOf(const kernels::LossRule& loss, const Batch& batch);

/// A value that the device writes and the host reads, or the other way round. The device has one,
/// at an address that stays. The host has one for each piece of a minibatch, and so it need not
/// wait for one piece before it writes or reads the value of another.
template <typename T>
class Exchanged {
 public:
  /// Requires: no copy is under way. Errors: the backend's.
  Status Reserve(kernels::Backend* backend, size_t pieces) {
    if (device_ == nullptr) {
      PS_ASSIGN(device_, backend->AllocateDevice(sizeof(T)));
    }
    if (host_ == nullptr || host_->size() < pieces * sizeof(T)) {
      PS_ASSIGN(host_, backend->AllocatePinned(pieces * sizeof(T)));
    }
    return Status::Ok();
  }

  T* device() const { return reinterpret_cast<T*>(device_->data()); }

  /// As many pieces as were reserved.
  T* host() const { return reinterpret_cast<T*>(host_->data()); }

  /// The piece's value goes to the device, and stays until the stream has come so far.
  void Upload(kernels::Stream* stream, size_t piece) const {
    stream->Upload(host() + piece, device(), sizeof(T));
  }

  /// On its way; the host may read it once the stream has come so far.
  void Download(kernels::Stream* stream, size_t piece) const {
    stream->Download(device(), host() + piece, sizeof(T));
  }

 private:
  std::unique_ptr<kernels::Memory> device_;
  std::unique_ptr<kernels::Memory> host_;
};

/// What a pass is told by numbers: in memory, so that a recording of it finds other ones there.
struct PassNumbers {
  uint64_t step = 0;
  double divisor = 0;
  float weight = 1;
};

/// A model on one of the devices of a network: its memory there, and the work of one piece of a
/// minibatch at a time. Devices stand in a row. Each adds what the one behind it sends to its own
/// gradients, tensor by tensor as they become final, and sends the sums on to the one ahead, so
/// that the first one has those of all. Thread: one at a time.
class Replica {
 public:
  struct Options {
    kernels::Backend* backend = nullptr;  // outlives the replica
    uint64_t seed = 0;
    kernels::Precision precision = kernels::Precision::kF32;
    bool is_first = true;  // in the row
    bool is_last = true;
  };

  /// A piece of a minibatch in training.
  struct Piece {
    Batch batch;
    uint64_t step = 0;
    float weight = 1;  // of its gradients in those of the minibatch, where the kind is weighed
    StepRecorder::Kind kind;
    // The rest is of the last piece. Neighbours in the row, or nullptr: the one behind was told
    // before to send its sums here.
    const Replica* behind = nullptr;
    const Replica* ahead = nullptr;
    // Where there is none ahead: puts work into the stream before these sums leave for the host, or
    // before all of them do; either may be empty. Then they leave.
    StepRecorder::OnTensors pack;
    std::function<void()> pack_all;
    StepRecorder::OnTensors leave;
  };

  /// `model` outlives the replica. Errors: as Network::Make.
  static Result<std::unique_ptr<Replica>> Make(const Model* model, const Options& options);

  kernels::Backend* backend() const { return options_.backend; }

  kernels::Stream* compute() const { return compute_.get(); }

  /// The stream of copies of gradients.
  kernels::Stream* copies() const { return copies_.get(); }

  bool has_copies() const { return !options_.backend->is_host_memory(); }

  /// The device's parameters. Requires: has_copies.
  const TensorMemory& parameters() const { return parameters_.first(); }

  /// The parameters become those of the device ahead, behind the work in its compute().
  void TakeParametersOf(Replica* ahead);

  /// As Network. The format fits the model.
  Status TakePictures(const PictureFormat& format);
  void Upload(uint32_t tensor, int64_t begin, std::span<const float> values);
  Status TakeUploads();
  Status SettleUploads();
  Status Settle();

  /// As DeviceParameters.
  Status ReserveSecondCopy() { return parameters_.ReserveSecond(); }

  Status DropSecondCopy() { return parameters_.DropSecond(); }

  bool has_second_copy() const { return parameters_.has_second(); }

  /// Waits until all work but uploads is done. Errors: as Network::Settle.
  Status Finish();

  /// What pieces of n samples need, at most so many `pieces` of a minibatch. Requires: no work is
  /// left. Errors: kInvalidArgument when memory is short.
  Status Reserve(int64_t n, bool training, size_t pieces);
  /// Back to the memory that no piece has needed yet.
  Status Release();

  /// A minibatch begins. Where memory is the host's its parameters are read where they are, and
  /// the first device's sums are made where `gradients` are; in evaluation there are none.
  void Begin(kernels::ConstSpans parameters, kernels::Spans gradients);
  /// Puts forward and backward of a piece into the stream. Requires: memory is reserved, for so
  /// many pieces as begin between one Begin and the next.
  void Train(const Piece& piece);
  /// Puts a forward pass by the running statistics into the stream. Requires: likewise.
  void Evaluate(const Batch& batch);
  /// The same without a loss: the last layer's outputs go into pinned memory. Requires: likewise.
  void Apply(const Batch& batch, std::span<float> outputs);

  /// The pieces' losses since Begin. Requires: Finish since then.
  std::span<const kernels::LossResult> losses() const { return {loss_.host(), pieces_begun_}; }

  /// The gradients of this device's pieces, and of those behind that were added.
  kernels::Spans sums() const { return sums_; }

  /// Waits until this tensor's sum has been sent. Errors: kUnavailable, the device is lost and sent
  /// anything.
  Status WaitForSent(uint32_t tensor) const;

 private:
  /// Tensors that are sent together.
  struct Hop {
    std::unique_ptr<kernels::Event> final;
    std::unique_ptr<kernels::Event> arrived;
  };

  /// What a pass reads besides parameters, on the device.
  struct Input {
    const float* images = nullptr;
    const uint32_t* labels = nullptr;
    int64_t label_count = 0;
  };

  Replica(const Model* model, const Options& options) : model_(*model), options_(options) {}

  Status Build();
  Status ReserveTensors();
  Status MakeLayers();
  Status PutClassWeights();
  Input PutInput(const Batch& batch, uint64_t step, float weight);
  Pass MakePass(const Batch& batch) const;
  const float* Forward(const Pass& pass, const Input& input, bool counts_near);
  void TrainPass(const Piece& piece, const Input& input, const StepRecorder::OnTensors& on_final);
  void AddUp(kernels::Spans parts, uint32_t first_tensor, uint32_t count);
  void SendTo(const Replica& ahead, uint32_t first_tensor, uint32_t count);
  void EndPiece();

  const Model& model_;
  const Options options_;
  std::unique_ptr<kernels::Stream> compute_;
  std::unique_ptr<kernels::Stream> copies_;
  std::unique_ptr<kernels::Event> trained_;  // local steps have changed the parameters here
  std::unique_ptr<kernels::Event> shared_;   // those of the device ahead have come
  std::vector<Hop> hops_;                    // by their first tensor; empty on the first device
  std::vector<uint32_t> hop_of_;             // by tensor
  Exchanged<kernels::LossResult> loss_;
  Exchanged<PassNumbers> numbers_;
  std::unique_ptr<kernels::Memory> class_weights_;       // of the loss, if it has any
  std::unique_ptr<kernels::Memory> host_class_weights_;  // stays until it has been copied
  std::optional<StepRecorder> recorder_;
  std::optional<Sequence> layers_;
  DeviceCopy images_;
  std::optional<PictureMaker> pictures_;  // instead of them
  DeviceCopy labels_;
  std::unique_ptr<kernels::Memory> logit_gradient_;  // unless it may lie where the outputs do
  proto::TensorLayout layout_;
  DeviceParameters parameters_;  // with copies
  TensorMemory gradients_;       // with copies, or not the first
  TensorMemory pieces_;    // gradients of all pieces but the first, which has that of the sums
  TensorMemory arrivals_;  // sums of the device behind
  // The minibatch under way.
  kernels::ConstSpans read_;
  kernels::Spans sums_;
  size_t pieces_begun_ = 0;
};

}  // namespace ps::worker
