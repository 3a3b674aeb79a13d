#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "ps/base/status.h"
#include "worker/model/batch.h"
#include "worker/model/device/device_encoder.h"
#include "worker/model/device/gradient_return.h"
#include "worker/model/division.h"
#include "worker/model/model.h"
#include "worker/model/picture_format.h"
#include "worker/model/replica.h"

namespace ps::worker {

/// The arithmetic of a model on one device, or on several that share each minibatch. Parameters,
/// gradients and batches live with the caller in pinned memory (Backend::AllocatePinned),
/// parameters and gradients one flat span a tensor in the order of Model::tensors, in canonical
/// layout. Where the device has a memory of its own, the network keeps copies there: parameters go
/// there by Upload, gradients come back from it. Thread: one at a time. After the first step of a
/// batch size, no step allocates tensor memory.
class Network {
 public:
  using Parameters = kernels::ConstSpans;
  using Gradients = kernels::Spans;
  /// Called once a tensor, when its gradient is final and here, from the last layer to the first.
  using GradientReady = std::function<void(uint32_t tensor)>;

  struct StepOptions {
    uint64_t step = 0;  // with the seed it decides the dropout masks
    /// Above 0: gradients of the kOptimizer tensors are scaled so that their common Euclidean norm
    /// is at most this; then none is ready before all are. A norm that is not finite is left as it
    /// is: the server rejects such a push by itself.
    float clip_norm = 0;
    /// Above 0: each device computes at most so many samples at a time, and the gradients of such
    /// pieces are added up. Batch norm sees a piece at a time, and what it observes is their mean.
    int64_t micro_batch = 0;
    /// Gradients of the kOptimizer tensors are rounded to bfloat16 when they are final; the caller
    /// gets them so, back to back in the first half of the tensor's span.
    bool bf16_gradients = false;
    /// Instead: they leave the device as SetEncodings has said.
    bool encodes = false;
    /// The gradients stay where they are made, in sums(), and none is told of.
    bool stays = false;
    /// Called in TrainStep when its work is about to begin: it has its memory, and reads parameters
    /// where later values do not go if has_second_copy.
    std::function<void()> on_begin = {};
  };

  /// The backends, at least one and all of one kind, outlive the network. Of n samples each of d
  /// devices takes n / d in a row, rounded up, and computes them as a piece of a minibatch.
  /// `precision` is that of linear, conv2d and attention; parameters, gradients and all that layers
  /// pass on are f32. Errors: as of the backends; kUnsupported when they lack an op.
  static Result<std::unique_ptr<Network>> Make(
      const Model& model,
      const std::vector<kernels::Backend*>& backends,
      uint64_t seed,
      kernels::Precision precision = kernels::Precision::kF32);

  /// From now on batches have bytes and moves instead of images, and the device makes these of
  /// them. Once, before the first batch. Errors: kInvalidArgument when such pictures are not the
  /// model's input; the backend's.
  Status TakePictures(const PictureFormat& format);

  /// Whether a change of parameters has to be told by Upload; else the arithmetic reads them where
  /// they are.
  bool has_copies() const { return replicas_[0]->has_copies(); }

  /// Puts values of `tensor` from element `begin` on the way to the device. They stay as they are
  /// until SettleUploads, or a step behind the next TakeUploads, has returned. With a second copy,
  /// also on another thread while a step runs, from its on_begin on.
  void Upload(uint32_t tensor, int64_t begin, std::span<const float> values);
  /// Whatever runs from now on is with all that was put on the way before. If that has failed, it
  /// says so.
  void TakeUploads();
  /// All parameters, taken.
  void UploadAll(Parameters parameters);
  /// Waits until all that was put on the way has left its place. Thread: as Upload. Errors:
  /// kUnavailable, the device is lost.
  Status SettleUploads();
  /// The same, and until the devices have nothing to do. Errors: likewise.
  Status Settle();

  /// Has each device keep the parameters twice, so that Upload goes on during a step. If there is
  /// not enough memory for that, or for a minibatch beside it, there is none (any more), and
  /// TakeNote says so. Requires: has_copies. Errors: the backend's, other than short memory.
  Status ReserveSecondCopy();

  bool has_second_copy() const { return first().has_second_copy(); }

  /// Memory is short for something that a step can't do without: what it can do without goes, the
  /// second copy first, then what encodes gradients. False: there is no such thing. Requires: all
  /// uploads have been taken. Errors: kUnavailable, the device is lost.
  Result<bool> GiveUpMemory(const Status& why);

  /// TakeNote says that the host encodes gradients instead of the device.
  void NoteEncodingOnHost(const Status& why);

  /// What people are to know, once; empty: nothing new.
  std::string TakeNote() { return std::exchange(note_, {}); }

  /// Forward and backward. Writes the gradient of the batch's mean loss; for tensors of rule
  /// kAverage, the observation to be averaged. Same arguments, device and thread count, same bits.
  /// Errors: kInvalidArgument when a span has the wrong size, a label or token is out of range, or
  /// memory is short, with the largest batch for which there is enough; kUnsupported when the
  /// machine cannot run an op; kUnavailable when the device is lost. NaN and infinity are no errors
  /// here: they show in the loss and the gradients (see kernels/op.h for what may hide one).
  Result<BatchLoss> TrainStep(
      Parameters parameters,
      const Batch& batch,
      const StepOptions& options,
      Gradients gradients,
      const GradientReady& ready);

  // What local steps train on a device with memory of its own, the first one where there are
  // several. Requires: has_copies.

  kernels::Stream* compute() const { return first().compute(); }

  const TensorMemory& device_parameters() const { return first().parameters(); }

  /// The first device's parameters go to the others, where the next step finds them.
  void ShareParameters();
  /// sums() come to the host as gradients do. Errors: kUnavailable, the device is lost.
  Status Return(Gradients gradients, const StepOptions& options);

  /// What makes bytes of gradients from the next step or Return on that `encodes`. A step that
  /// lacks memory has it give up.
  DeviceEncoder* encoder();
  /// As DeviceEncoder::TakeKept, of a gradient that is on the host.
  Status TakeKept(uint32_t tensor, bool is_encoded, std::span<float> gradient);

  /// The gradients of the last step that left them on the device, one span a tensor. Where memory
  /// is the host's they are where its caller wanted them.
  Gradients sums() const { return first().sums(); }

  /// Loss and hits with the running statistics and without dropout. Same errors.
  Result<BatchLoss> Evaluate(Parameters parameters, const Batch& batch);

  /// The last layer's outputs of the same pass, before any softmax or sigmoid, into pinned memory:
  /// [n, labels, classes], of numbers [n, classes]. The batch's labels change nothing, but have to
  /// be there. Same errors; kInvalidArgument when `outputs` has another size.
  Status Apply(Parameters parameters, const Batch& batch, std::span<float> outputs);

 private:
  struct Step;

  explicit Network(const Model& model) : model_(model) {}

  Status Build(
      const std::vector<kernels::Backend*>& backends, uint64_t seed, kernels::Precision precision);

  Replica& first() const { return *replicas_[0]; }

  int64_t SamplesOf(const Batch& batch) const {
    return static_cast<int64_t>(batch.labels.size()) / model_.labels;
  }

  Status BeginReturn(Gradients gradients, const StepOptions& options, const GradientReady& ready);
  Batch PieceOf(const Batch& batch, const PieceRange& range) const;
  /// Puts the work of all devices' pieces at this offset into their streams: the last device's
  /// first, since the one ahead of it waits for what it has sent.
  void StartPieces(const Step& step, int64_t offset);
  /// The samples of a device's piece, and what becomes of its gradients: of the first device they
  /// go to the host.
  Replica::Piece MakePiece(const Step& step, size_t device, const PieceRange& range);
  /// The weight of a piece's gradients in those of the mean over all labels.
  float WeightOf(const Step& step, const Batch& piece) const;
  /// Waits for all pieces of the devices.
  Result<kernels::LossResult> AddLosses(const Division& division);
  /// Waits until all work but uploads is done.
  Status Finish();
  Status DropSecondCopy(const Status& why);
  void AddNote(const std::string& note);
  Status OfAll(const std::function<Status(Replica&)>& work) const;
  /// Checks the arguments and makes room.
  Status Prepare(
      Parameters parameters, const Batch& batch, const Division& division, bool training);
  /// Has what pieces of the division need, if need be without second copies.
  Status MakeRoomFor(const Division& division, bool training);
  /// What a minibatch needs, including the shorter pieces at the ends of shares: from its first
  /// piece on the host waits for nothing, so that memory can't be taken. `device`: whose memory is
  /// short.
  Status ReserveAll(const Division& division, bool training, size_t* device);
  /// For pieces of so many samples.
  Status Reserve(const Division& division, int64_t piece, bool training, size_t* device);
  Status Release(const Division& division);
  /// Memory is short for the division's pieces: tries how large they may be, each time with new
  /// layers.
  Status TooLarge(const Division& division, bool training, size_t device, const Status& why);
  /// Scales what the optimizer gets, as StepOptions::clip_norm says.
  void ClipAndPack(Gradients gradients, float norm_max);

  const Model model_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::optional<DeviceEncoder> encoder_;           // of the first device
  std::optional<GradientReturn> gradient_return_;  // from the first device
  std::unique_ptr<kernels::Memory> norms_;  // squared, of each tensor, and what follows from them
  std::optional<PictureFormat> pictures_;
  Status upload_failure_;
  std::string note_;
  std::vector<std::span<const float>> sources_;  // of the step's gradients
};

}  // namespace ps::worker
