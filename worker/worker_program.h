#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ps/client/host_tensors.h"
#include "worker/compute_thread.h"
#include "worker/device.h"
#include "worker/loader.h"
#include "worker/shell/worker_shell.h"

namespace ps::worker {

/// The process of a worker that trains our own models: a compute thread and a loader behind the
/// shell.
class WorkerProgram final : public WorkerShell {
 public:
  struct Options : WorkerShell::Options {
    int threads = 0;     // 0: what the job says of the seat
    std::string device;  // empty: likewise
    DeviceOpener open_device;
    Loader::Make make_trainer = Trainer::Make;
  };

  WorkerProgram(Options options, const Logger* log);
  ~WorkerProgram() override;

  /// As RunLoop.
  Status Run();

 private:
  // client::WorkerHost.
  Result<std::optional<proto::Timing>> Load(const proto::JoinReply& reply) override;
  std::string LoadingText() const override;
  Result<client::WorkerSettings> Configure(const proto::JoinReply& reply) override;
  Status Prepare(const client::ChunkLayout& layout, size_t gradients) override;
  Status ChangeEncodings(const client::ChunkLayout& layout, bool has_feedback) override;
  void TakeChunk(const client::PullIntake::Fresh& fresh) override;
  bool TakesChunksDuringTasks() const override;
  Result<client::GradientLoan> StartCompute(const client::ComputeTask& task) override;
  void EndStepEarly(Step step) override;
  void HandOver(Step step) override;

  bool CanHandOver() const override { return is_encoding_; }

  void OnSamplesAhead(const client::SamplesAhead& next) override;

  // WorkerShell.
  void OnTick() override { LogLoading(); }

  Status ChooseDevice(const proto::JoinReply& reply, proto::Mode mode);
  /// Puts what was loaded for the config in the place of the trainer before it.
  Status TakeTrainer(const proto::JobConfig& config);
  /// Now and then, how far loading is.
  void LogLoading();
  void OnComputeFailed(const Status& why);
  void OnComputeDone(const client::ComputeTask& task, const client::ComputeResult& result);

  const Options options_;
  std::unique_ptr<ComputeThread> compute_;
  std::unique_ptr<Loader> loader_;
  // What the last JoinReply's config led to. A worker that joins anew has the same.
  std::string config_json_;
  std::string loaded_json_;     // what the loader is at, or has
  std::string data_directory_;  // of that
  TimePoint loading_since_{};
  TimePoint loading_told_{};
  std::optional<proto::DeviceChoice> device_choice_;
  Products products_ = Products::kSameBits;
  Device device_;
  Trainer* trainer_ = nullptr;  // the compute thread's
  std::optional<client::HostTensors> tensors_;
  client::WorkerSettings settings_;
  bool is_encoding_ = false;  // the compute thread, of gradients
  bool has_error_feedback_ = false;
};

}  // namespace ps::worker
