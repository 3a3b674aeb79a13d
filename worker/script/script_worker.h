#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ps/base/logger.h"
#include "ps/client/gradient_encoder.h"
#include "ps/client/host_tensors.h"
#include "ps/emulation/device.h"
#include "ps/proto/chunks.h"
#include "worker/script/description.h"
#include "worker/shell/worker_shell.h"

namespace ps::worker {

/// A worker whose arithmetic is somebody else's program: the shell's loop on a thread of its own,
/// and tasks that are handed to the program's thread, one at a time.
///
/// Invariants:
/// - From Next to Finish the task is the program's: its values don't change, its gradient is the
///   program's to write, and no memory of either goes. The core keeps back what comes meanwhile.
/// - The loop's thread never waits for the program.
/// Thread: the program's, one at a time, unless a function says otherwise.
class ScriptWorker final : public WorkerShell {
 public:
  struct Options : WorkerShell::Options {
    std::string device;  // that it computes on, for people
  };

  ScriptWorker(Options options, Description description, const Logger* log);
  ~ScriptWorker() override;

  /// Connects and joins. Once.
  void Start();

  enum class Wait : uint8_t { kTask, kNothingYet, kOver };

  /// Waits for the next task, at most `limit`. Requires: Start was called, no task is in hand.
  Wait Next(Duration limit);

  /// The task in hand, and what its memory is. Requires: Next has returned kTask, and Finish was
  /// not called since.
  const client::ComputeTask& task() const { return in_hand_->task; }

  std::span<const float> Values(size_t tensor) const;
  /// What is to be pushed. Requires: a train task.
  std::span<float> Gradient(size_t tensor);

  /// The tensor's gradient is final, so that it may travel. Optional; nothing with local steps.
  /// Requires: a train task.
  void TensorReady(uint32_t tensor);
  /// A minibatch of a task with local steps is done, and it goes on. Returns whether it had better
  /// end here: this worker is taken back soon.
  bool LocalStep(uint64_t samples);
  /// The task is done, the gradient of every tensor is written. `samples`: of how many of its
  /// samples, the first ones; 0: all. `seconds` of the result are filled in.
  void Finish(client::ComputeResult result);

  /// A figure of the training (proto::Figure), finite. False: it has told of kFiguresMax others.
  /// Requires: its name is one of proto::kFigureNameBytesMax.
  bool Tell(const std::string& name, double value);

  /// The program ends: the task in hand is dropped, the rest handed over. Waits until that is done,
  /// at most `limit`. Also where nothing was started.
  void Leave(const std::string& why, Duration limit);
  /// The same for one that ends by its own fault, as which it is told.
  void Fail(const std::string& why, Duration limit);

  /// What the job says of this worker. Valid from the first task on.
  struct Seat {
    uint32_t worker = 0;
    uint32_t threads = 1;
    uint64_t order_seed = 0;     // of the order in which samples are visited
    uint64_t train_samples = 0;  // that are visited, of those that there are
    std::string device;          // as in the job file
    std::string config_json;
  };

  Seat seat() const;

  /// It was told to go and finishes what it has.
  bool is_leaving() const { return is_leaving_; }

  /// Once Next has returned kOver. OK: the job is done. kRevoked: left, else why it can't go on.
  Status outcome() const;

 private:
  /// What was told of a figure since the last heartbeat.
  struct Told {
    double sum = 0;
    uint64_t count = 0;
    double last_mean = 0;  // told at an earlier heartbeat, while there is nothing new
  };

  struct InHand {
    client::ComputeTask task;
    std::span<const float> values;
    std::shared_ptr<client::FlatGradient> gradient;
    std::vector<bool> is_ready;  // each tensor, encoded
    TimePoint began{};
  };

  // client::WorkerHost.
  Result<client::WorkerSettings> Configure(const proto::JoinReply& reply) override;
  Status Prepare(const client::ChunkLayout& layout, size_t gradients) override;
  Status ChangeEncodings(const client::ChunkLayout& layout, bool has_feedback) override;
  void TakeChunk(const client::PullIntake::Fresh& fresh) override;
  Result<client::GradientLoan> StartCompute(const client::ComputeTask& task) override;

  std::vector<proto::Figure> Figures() override;

  void EndStepEarly(Step step) override { early_end_ = step; }

  void HandOver(Step step) override { handed_over_ = step; }

  bool CanHandOver() const override { return encoder_.has_value(); }

  // WorkerShell.
  void OnTick() override { is_leaving_ = core().is_leaving(); }

  Status CheckData(const proto::JobConfig& config) const;
  void Encode(uint32_t tensor);
  bool IsAsItWas(uint32_t tensor);
  /// Waits where a device is emulated.
  void BeginMinibatch();
  void EndMinibatch();
  void Pause(Duration duration);
  /// The task in hand is dropped, and `fn` ends the loop.
  void Drop(std::function<void()> fn, Duration limit);
  /// To the loop. A full mailbox ends the worker.
  void Post(std::function<void()> fn);

  const Description description_;
  const std::string device_;
  const emulation::Emulation emulation_;
  std::vector<int64_t> elements_;
  const proto::TensorLayout layout_;
  std::thread thread_;
  std::atomic<bool> is_leaving_ = false;
  std::atomic<Step> early_end_ = 0;
  std::atomic<Step> handed_over_ = 0;  // whose gradient goes whole

  // The loop's, but while a task is pending or in hand.
  std::optional<client::HostTensors> tensors_;
  std::optional<client::GradientEncoder> encoder_;
  client::WorkerSettings settings_;
  std::optional<emulation::Device> emulated_;
  bool has_error_feedback_ = false;

  // The program's.
  std::optional<InHand> in_hand_;
  TimePoint minibatch_began_{};
  TimePoint arithmetic_began_{};  // after what an emulated device waits first

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::optional<InHand> pending_;
  Seat seat_;
  std::map<std::string, Told> figures_;
  bool is_over_ = false;
  Status outcome_;
};

}  // namespace ps::worker
