#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "ps/client/gradient_encoder.h"
#include "ps/client/worker_core.h"
#include "ps/emulation/device.h"
#include "ps/net/loop.h"
#include "worker/trainer.h"
#include "worker/upload_thread.h"

namespace ps::worker {

/// The thread that does a worker's arithmetic, so that its loop stays free for the network. It
/// holds at most one task; results and finished tensors are posted to the loop. Thread: the loop's.
class ComputeThread {
 public:
  struct Callbacks {
    std::function<void(uint64_t session, uint32_t tensor)> on_tensor_ready;
    /// A minibatch of a task with local steps is done.
    std::function<void(uint64_t session, uint32_t samples)> on_local_step;
    std::function<void(const client::ComputeTask& task, const client::ComputeResult& result)>
        on_done;
    /// People are to know this of the task that has ended.
    std::function<void(const std::string& note)> on_note;
    /// The arithmetic can't go on, e.g. the machine lacks memory; kUnavailable: the device is lost.
    std::function<void(const Status& why)> on_failure;
  };

  /// `loop` outlives the thread; the callbacks run on it, none after Stop.
  ComputeThread(net::Loop* loop, Callbacks callbacks);
  ComputeThread(const ComputeThread&) = delete;
  ComputeThread& operator=(const ComputeThread&) = delete;
  ~ComputeThread();

  /// Requires: no task is under way. The trainer is used by this thread alone from now on.
  void SetTrainer(std::unique_ptr<Trainer> trainer);
  /// How many threads compute, and the device that they are to look like, if another than this
  /// machine. Requires: no task is under way.
  void SetDevice(int threads, const std::optional<emulation::Device>& emulated);
  /// Gradients are encoded from now on, as soon as they are final: by a device with memory of its
  /// own before they leave it, where it has room, else by this thread. What was kept is forgotten.
  /// Requires: a trainer is set and no task is under way.
  void SetEncodings(const client::ChunkLayout& layout, size_t frame_bytes, bool has_feedback);
  /// They stay as the trainer leaves them. Requires: the same.
  void EncodeNothing();
  /// Goes on with other encodings, and what was kept. Requires: gradients are encoded, no task is
  /// under way.
  void ChangeEncodings(const client::ChunkLayout& layout, bool has_feedback);
  /// New values go to their place in `tensors`, which live until Settle, and to the device, in the
  /// order of the calls. The task under way is computed without them, the next one with them.
  /// Requires: a trainer is set that has copies.
  void Upload(client::PullIntake::Fresh fresh, client::HostTensors* tensors);
  /// Waits until the trainer reads no parameters any more, so that they can go. Requires: no task
  /// is under way.
  void Settle();
  /// What `tensors` names lives until the task has ended. Requires: a trainer is set and no task is
  /// under way.
  void Start(const client::ComputeTask& task, const TaskTensors& tensors);
  /// As Trainer::EndEarly. Requires: a trainer is set.
  void EndEarly(ps::Step step);

  /// What the encoder has kept goes with that step, as far as it is not encoded yet. Thread: any.
  void HandOver(ps::Step step) { handed_over_ = step; }

  /// The task after the one under way will probably be of these samples. Requires: a trainer is
  /// set.
  void Foresee(const client::SamplesAhead& next);
  /// Ends a wait at once and arithmetic after the minibatch under way, and joins the thread.
  void Stop();

 private:
  void Run();
  void RunTask(const client::ComputeTask& task, const TaskTensors& tensors);
  Result<client::ComputeResult> Step(const client::ComputeTask& task, const TaskTensors& tensors);
  /// A minibatch of it begins (ends). False when stopped meanwhile.
  bool BeginMinibatch();
  bool EndMinibatch();

  /// The device lacks memory: this thread encodes.
  void EncodeHere();

  bool is_encoding() const { return encoder_.has_value() || device_encodes_; }

  void Encode(const client::ComputeTask& task, uint32_t tensor, const TaskTensors& tensors);
  /// False when stopped meanwhile.
  bool WaitFor(Duration duration);

  net::Loop* const loop_;
  const Callbacks callbacks_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::optional<client::ComputeTask> task_;
  TaskTensors tensors_;  // of that
  bool is_stopping_ = false;

  std::atomic<ps::Step> handed_over_ = 0;

  // Set while no task is under way, read by the thread during one; handed over through mutex_.
  std::unique_ptr<Trainer> trainer_;
  int threads_ = 1;
  std::optional<emulation::Device> emulated_;
  std::optional<client::GradientEncoder> encoder_;
  bool device_encodes_ = false;
  client::ChunkLayout layout_;  // of what is encoded
  size_t frame_bytes_ = 0;
  bool has_feedback_ = false;
  Status finished_;  // the first failure of Trainer::FinishEncoded in a step

  // The thread's: the minibatch under way.
  TimePoint minibatch_begin_{};
  TimePoint arithmetic_begin_{};

  UploadThread uploads_;
  std::thread thread_;
};

}  // namespace ps::worker
