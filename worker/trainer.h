#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "ps/base/buffer.h"
#include "ps/base/status.h"
#include "ps/client/chunk_layout.h"
#include "ps/client/host_tensors.h"
#include "ps/client/worker_core.h"
#include "ps/codec/encoding.h"
#include "ps/proto/job/job_config.h"
#include "worker/data/dataset.h"
#include "worker/data/load_progress.h"
#include "worker/data/prefetcher.h"
#include "worker/local_steps.h"
#include "worker/model/model.h"
#include "worker/model/network.h"

namespace ps::worker {

/// Parameters that have new values.
struct ParameterRange {
  int64_t offset = 0;             // in elements from the start of the flat parameters
  std::span<const float> values;  // where they are there; within one tensor
};

/// What a task reads and writes: flat, as client::ChunkLayout lays them out, in memory that
/// Trainer::MakeBuffer has made.
struct TaskTensors {
  std::span<const float> parameters;
  std::span<float> gradient;             // of a train task
  client::FlatGradient* loan = nullptr;  // that has it, for what is said of its tensors
};

/// The job's arithmetic on its devices: model, data and network behind flat tensors. Thread: one at
/// a time, unless a function says otherwise.
class Trainer {
 public:
  /// Loads the data and builds the model. `progress`, if any, as of Dataset::Load. Errors: as
  /// Dataset::Load, MakeModel, CheckTrainBatches and Network::Make.
  static Result<std::unique_ptr<Trainer>> Make(
      const proto::JobConfig& config,
      std::vector<std::shared_ptr<kernels::Backend>> backends,
      LoadProgress* progress = nullptr);

  /// Elements of each tensor, in tensor order.
  const std::vector<int64_t>& TensorElements() const { return elements_; }

  /// What each tensor's gradient travels as. Step leaves it so where the device encodes it
  /// (proto::IsEncodedByDevice), as client::ChunkLayout says, else as f32.
  std::vector<codec::Encoding> TensorEncodings() const;
  std::vector<proto::PushKind> TensorPushes() const;

  const proto::DatasetFingerprint& data() const { return dataset_.fingerprint(); }

  /// See Dataset::note.
  const std::string& data_note() const { return dataset_.note(); }

  /// Memory for parameters or a gradient. It may outlive the trainer. Thread: any.
  Result<Buffer> MakeBuffer(size_t size_bytes) const;

  /// Whether Upload has to be told which parameters have changed.
  bool has_copies() const { return network_->has_copies(); }

  /// These parameters have changed since the last call that named them. Returns before the device
  /// has them: they stay as they are until SettleUploads has returned, or the task that began
  /// later. Requires: they lie within one tensor. Thread: any one, between two tasks or behind a
  /// step's on_taken.
  void Upload(const ParameterRange& changed);
  /// Nothing of what was uploaded is read any more. Thread: as Upload.
  void SettleUploads();
  /// The same, and nothing else is done. Requires: no task is under way.
  void Settle();

  /// Gradients leave the device encoded from now on, as the layout says, each part of a chunk in
  /// frames of `frame_bytes`. With `has_feedback` the device keeps what is lost. Requires:
  /// has_copies; no step is under way. Errors: kInvalidArgument, the device's memory is short: then
  /// as after StopEncodings.
  Status SetEncodings(const client::ChunkLayout& layout, size_t frame_bytes, bool has_feedback);
  /// The same, and what was kept before is forgotten.
  Status BeginEncodings(const client::ChunkLayout& layout, size_t frame_bytes, bool has_feedback);
  /// Gradients leave as f32 again, and take along what is kept: FinishEncoded. Requires: no step is
  /// under way.
  void StopEncodings();

  /// The device needed the memory for a step: that one's gradient left as f32. StopEncodings is to
  /// follow.
  bool has_given_up_encoding() { return device_encodes_ && network_->encoder()->is_stopped(); }

  /// The tensor of the step under way, or of the last one with local steps, is ready: if it is
  /// `whole`, feedback has ended, or it left as f32, it takes along what is kept of it, and loses
  /// nothing. Errors: kUnavailable, the device is lost.
  Status FinishEncoded(uint32_t tensor, bool whole, client::FlatGradient* loan);

  /// As client::GradientEncoder::TakeHeldBack. Requires: SetEncodings. Errors: as FinishEncoded.
  Result<double> TakeHeldBack() { return network_->encoder()->TakeHeldBack(); }

  /// What people are to know of the last task, once; empty: nothing new.
  std::string TakeNote() { return network_->TakeNote(); }

  /// The next Step will probably be of these samples: they are fetched on a thread of their own.
  /// Thread: any.
  void Foresee(const client::SamplesAhead& next);

  /// How the steps so far have come by their data.
  const Prefetcher::Figures& data_figures() const { return prefetcher_.figures(); }

  /// Who watches a step. Called on its thread; any may be empty.
  struct StepWatch {
    /// A minibatch begins, or one of so many samples is done. False: the step is to be given up.
    std::function<bool()> on_begin = {};
    std::function<bool(uint64_t samples)> on_end = {};
    /// The tensor's gradient is final. Once a tensor; with local steps not called, since the push
    /// tells how many samples are behind it.
    std::function<void(uint32_t tensor)> on_ready = {};
    /// The step has taken its parameters: what is uploaded from now on is for later ones. Not
    /// called where it can't be so: then nothing may be uploaded, and the parameters stay as they
    /// are, until the step has ended.
    std::function<void()> on_taken = {};
  };

  /// Gradient of the mean loss over samples [begin, end) of the epoch's order, into
  /// tensors.gradient; with local steps what WorkerHost::StartCompute says. Errors: kCancelled when
  /// it was given up, kUnavailable when the device is lost, else as Network::TrainStep.
  Result<client::ComputeResult> Step(
      const client::ComputeTask& task, const TaskTensors& tensors, const StepWatch& watch);

  /// The step of that number, under way or about to begin, is to end with the minibatch in hand.
  /// Nothing without local steps. Thread: any.
  void EndEarly(ps::Step step) { early_end_ = step; }

  /// Loss and hits over test samples [begin, end).
  Result<client::ComputeResult> Evaluate(
      std::span<const float> parameters, uint64_t begin, uint64_t end);

 private:
  Trainer(
      const proto::JobConfig& config,
      Dataset dataset,
      Model model,
      std::vector<std::shared_ptr<kernels::Backend>> backends,
      std::unique_ptr<Network> network);

  Result<client::ComputeResult> Minibatch(
      const client::ComputeTask& task, const StepWatch& watch, bool is_local);
  Result<client::ComputeResult> MakeLocalSteps(
      const client::ComputeTask& task, const StepWatch& watch);
  Status BeginLocalSteps();
  Status FinishLocalSteps();
  /// The share of the job's samples that is done after so many.
  double FractionOf(uint64_t samples) const;
  void PackGradients();
  Result<BatchMemory> Memory(uint64_t samples);
  /// Too few samples to learn from: parameters and running statistics stay as they are.
  Result<client::ComputeResult> PassOver(
      const BatchMemory& memory, const std::function<void(uint32_t)>& ready);
  /// Before arithmetic with these parameters: what local steps have put on the device goes.
  void TakeDeviceBack();
  Result<std::byte*> MakeSlot(int slot, size_t size_bytes);
  Status Grow(size_t size_bytes, std::unique_ptr<kernels::Memory>* memory) const;
  /// Spans of the tensors within a flat buffer of proto::TensorLayout.
  template <typename T>
  void Split(std::span<T> flat, std::vector<std::span<T>>* tensors) const;

  // Constant after construction.
  const proto::JobConfig config_;
  const Dataset dataset_;
  const Model model_;
  const std::vector<std::shared_ptr<kernels::Backend>> backends_;
  const std::unique_ptr<Network> network_;
  const BatchForm form_;
  std::vector<int64_t> elements_;
  std::vector<int64_t> offsets_;           // of the tensors in a flat buffer
  std::optional<LocalSteps> local_steps_;  // once there were some
  bool is_device_local_ = false;           // it has what they train, not what Upload said
  bool device_encodes_ = false;            // SetEncodings has said how
  bool is_encoded_ = false;                // the step's gradient has left the device so
  std::atomic<ps::Step> early_end_ = 0;
  // Scratch, grown to the largest batch.
  std::unique_ptr<kernels::Memory> train_slots_[2];
  std::unique_ptr<kernels::Memory> tests_;
  std::vector<std::span<const float>> parameters_;
  std::vector<std::span<float>> gradients_;
  Prefetcher prefetcher_;  // its thread ends before what it uses goes
};

}  // namespace ps::worker
