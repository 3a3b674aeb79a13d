#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/client/chunk_layout.h"
#include "ps/client/gradient_loan.h"
#include "ps/client/pull_intake.h"
#include "ps/proto/exchange.h"
#include "ps/proto/messages.h"
#include "ps/proto/timing.h"

namespace ps::client {

/// What the core needs to know of the job; the host reads it out of JoinReply.
struct WorkerSettings {
  bool overlap = true;  // async: compute the next step while this one travels
  size_t frame_bytes = 512U << 10;
  proto::Timing timing;
  std::vector<int64_t> tensor_elements;           // of the model as this program builds it
  std::vector<codec::Encoding> tensor_encodings;  // of each one's gradient; none: all f32
  std::vector<proto::PushKind> tensor_pushes;     // none: all are gradients
  proto::StepSettings steps;                      // that tensor_encodings are of
  proto::DatasetFingerprint data;                 // as this program has read it
  std::string device;                             // that it computes on, for people
  uint32_t frozen_crc = 0;                        // proto::LeaseRequest::frozen_crc
};

/// One piece of arithmetic for the host.
struct ComputeTask {
  uint64_t session = 0;  // handed back; answers of an earlier session are dropped
  proto::LeaseKind kind = proto::LeaseKind::kTrain;
  Step step = 0;  // train
  uint32_t epoch = 0;
  uint64_t begin = 0;  // samples [begin, end)
  uint64_t end = 0;
  uint32_t minibatch = 0;     // train: of so many samples, the last one of fewer
  uint32_t local_steps = 1;   // minibatches, at most
  bool is_local = false;      // the gradient is what the host has changed by as many steps
  uint64_t samples_done = 0;  // of the whole job, about, when it begins
};

/// Training samples of an epoch's order.
struct SamplesAhead {
  uint32_t epoch = 0;
  uint64_t begin = 0;  // samples [begin, end)
  uint64_t end = 0;

  friend bool operator==(const SamplesAhead&, const SamplesAhead&) = default;
};

struct ComputeResult {
  double loss_sum = 0;
  uint64_t correct = 0;
  double seconds = 0;
  uint64_t samples = 0;         // the first ones of the task that it is of; 0: all
  double held_back = 0;         // as proto::WorkerTimes has it
  proto::MetricSums sums = {};  // of an evaluation
};

/// The world as a worker's core sees it, apart from messages. Implemented by the worker program and
/// by the simulation. Calls back into the core come later, never from inside.
class WorkerHost {
 public:
  virtual ~WorkerHost() = default;

  /// Brings into memory what Configure needs. Returns nothing when all of it is there. If it takes
  /// long, the host begins it on another thread and returns the job's times; it calls
  /// WorkerCore::OnLoaded afterwards, and the core asks to join anew. Meanwhile heartbeats go on
  /// and notices are heard. Errors: as those of Configure.
  virtual Result<std::optional<proto::Timing>> Load(const proto::JoinReply& /*reply*/) {
    return std::optional<proto::Timing>();
  }

  /// What is being loaded and how far it is, for people: "/data, 34 %".
  virtual std::string LoadingText() const { return {}; }

  /// Builds the model. An error is the reason why this program cannot take part, and ends it.
  virtual Result<WorkerSettings> Configure(const proto::JoinReply& reply) = 0;
  /// Connects, and again whenever the connection is lost, until Exit. `incarnation` goes into
  /// Hello.
  virtual void ConnectCoordinator(Incarnation incarnation) = 0;
  virtual void ConnectShard(const proto::ShardAddress& address, Incarnation incarnation) = 0;

  /// The shard is no part of the job any more: it is not to be connected.
  virtual void ForgetShard(ShardId /*shard*/) {}

  /// After Configure, before anything is handed over or lent: makes room for the parameters and for
  /// this many gradients at a time. Memory of an earlier call may go, but for loans that a
  /// transport still holds. Errors: as those of Configure.
  virtual Status Prepare(const ChunkLayout& layout, size_t gradients) = 0;

  /// Gradients that are lent from now on are of the layout's encodings, with or without what
  /// encoding loses of them kept for later ones; what is kept already goes with the next one.
  /// Called when no gradient is lent and no task is under way. Errors: kUnsupported: a host that
  /// can't.
  virtual Status ChangeEncodings(const ChunkLayout& /*layout*/, bool /*has_feedback*/) {
    return Status::Unsupported("this worker can't change how its gradients travel");
  }

  /// New values of a chunk, or of a part of one, in the order of calls; others still come, so a
  /// device can fetch these meanwhile. The host copies them before it returns, or keeps their
  /// owner. The next StartCompute is with them.
  virtual void TakeChunk(const PullIntake::Fresh& fresh) = 0;

  /// Whether TakeChunk may be called while a task is under way, which then computes without the
  /// values. Else they are handed over when it has ended. Constant between two calls of Prepare.
  virtual bool TakesChunksDuringTasks() const { return false; }

  /// Begins a task with the parameters handed over. Returns the gradient that a train task will
  /// fill, of the types that WorkerSettings says; null for an evaluation. An error ends the worker.
  /// If the task is local: the parameters, less what training on its minibatches in turn makes of
  /// them; of what is averaged, the observation that has the effect of all of them.
  virtual Result<GradientLoan> StartCompute(const ComputeTask& task) = 0;

  /// The task under way, of that step and local, is to end with the minibatch in hand;
  /// ComputeResult::samples says where it has. A host that can't goes on to its end.
  virtual void EndStepEarly(Step /*step*/) {}

  /// The step under way, or the next one, is the worker's last, and there is time to push it as
  /// f32: what encoding holds back goes with it, with each tensor that is not encoded yet
  /// (StepGradient::IsWhole). 0: there is no time any more. Called if CanHandOver says so.
  virtual void HandOver(Step /*step*/) {}

  virtual bool CanHandOver() const { return false; }

  /// The train task after the one under way will probably begin with these samples, so that a host
  /// can fetch them meanwhile. Nothing counts before StartCompute.
  virtual void OnSamplesAhead(const SamplesAhead& /*next*/) {}

  /// What the worker's program tells of its training, at each heartbeat; at most kFiguresMax.
  virtual std::vector<proto::Figure> Figures() { return {}; }

  /// The core is finished: OK at the job's end, kRevoked after a notice, else why it can't go on.
  virtual void Exit(const Status& status) = 0;
};

}  // namespace ps::client
