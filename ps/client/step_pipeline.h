#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ps/base/logger.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/client/gradient_loan.h"
#include "ps/client/lease_queue.h"
#include "ps/client/parameter_gate.h"
#include "ps/client/session.h"
#include "ps/client/shard_links.h"
#include "ps/client/step_reports.h"
#include "ps/client/work_times.h"
#include "ps/client/worker_host.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"

namespace ps::client {

/// Leases become steps: from a grant over arithmetic and push to the report.
///
/// Invariants:
/// - A step is computed, then travels until every shard has acknowledged it. Without overlap the
///   next one waits for both and for the fused pull; with overlap (async) it is computed while the
///   last one travels. So at most one travels, and at most one is computed beside it.
/// - The host has one task at a time, of whatever session.
class StepPipeline {
 public:
  /// All outlive it.
  StepPipeline(
      const Session& session,
      WorkerHost& host,
      ShardLinks& links,
      LeaseQueue& leases,
      ParameterGate& parameters,
      StepReports& reports,
      WorkTimes& times,
      const Logger& log);

  /// A session begins whose gradients travel so at first.
  void Begin(const proto::StepSettings& settings);
  void Reset();

  /// Does all that can be done now. Without `may_begin` no step or evaluation begins. Errors: the
  /// host's.
  Status Advance(bool may_begin, TimePoint now, proto::Outbox* out);

  /// The gradient of `tensor` has its final value.
  void OnTensorReady(uint32_t tensor, TimePoint now, proto::Outbox* out);

  /// Arithmetic is over, also that of an earlier session, or lost.
  void OnHostFree() { is_host_busy_ = false; }

  /// After OnHostFree: of what comes of it. `is_void`: it was an earlier session's. Errors: the
  /// host's.
  Status OnComputed(
      const ComputeResult& result, bool is_void, bool may_begin, TimePoint now, proto::Outbox* out);
  void OnEvaluated(
      const ComputeResult& result,
      bool is_void,
      bool may_report,
      TimePoint now,
      proto::Outbox* out);

  /// Arithmetic is under way.
  bool is_host_busy() const { return is_host_busy_; }

  /// A step is computed or travels, or arithmetic is under way.
  bool is_busy() const { return is_host_busy_ || travelling_ || computing_; }

  /// A step is on its way to the shards, and not computed any more.
  bool is_travelling() const { return travelling_ && travelling_->is_computed; }

  /// There is a step that is to be finished before the worker leaves.
  bool HasStepToFinish();

  /// The instance is taken back: a step that would take longer than half of the grace, since the
  /// rest is for the push and the reports, ends with what is done of its local steps, or is
  /// dropped.
  void ShortenStepThatIsLate(TimePoint deadline, TimePoint now);
  /// After that, and when the grace gets shorter: has what encoding holds back go with the last
  /// step of a worker that leaves, if the other half of the grace is long enough to push it as f32.
  /// That is the step in hand; in async and ssp without local steps, and between two steps, one
  /// more of the lease, if there is time.
  void HandOverWithLast(TimePoint deadline, TimePoint now);
  /// The device is lost with the task in hand: its arithmetic is not waited for.
  void DropTask();

 private:
  /// One step from the start of its arithmetic to the last shard's acknowledgement.
  struct StepWork {
    proto::StepDone done;
    uint64_t round = 0;
    GradientLoan gradient;
    bool is_computed = false;
    uint32_t local_steps = 1;
    uint32_t reference_steps = 1;         // those of the job
    bool is_local = false;                // it travels once it is computed
    std::vector<uint32_t> ready_tensors;  // until the push has begun
    TimePoint began{};
    std::optional<TimePoint> sent_since;  // its first frame
    uint64_t pushed_before = 0;           // bytes
  };

  void AdvanceTravelling(bool may_begin, TimePoint now, proto::Outbox* out);
  Status AdvanceCompute(bool may_begin, TimePoint now, proto::Outbox* out);
  /// False while steps under way have other settings.
  Result<bool> TakeSettings(const proto::StepSettings& settings);
  Status StartStep(LeaseQueue::Lease* lease, TimePoint now, proto::Outbox* out);
  Status StartEvaluation(const proto::LeaseGrant& grant);
  bool MayTravel(const StepWork& work) const;
  /// async, ssp: the lease has another step, which could begin until then.
  std::optional<TimePoint> LatestOfOneMore(TimePoint deadline, TimePoint now);
  void GiveUpOneMore(TimePoint now);
  /// The host hands over with this step; 0: with none.
  void TellLast(Step step);
  void SendTensor(uint32_t tensor, TimePoint now, proto::Outbox* out);
  void NotePushed(const StepWork& work, TimePoint now);
  void BeginTravel(bool wants_pull, TimePoint now, proto::Outbox* out);
  void DropStep();
  /// The step whose arithmetic is under way, or null.
  StepWork* InHand();

  const Session& session_;
  WorkerHost& host_;
  ShardLinks& links_;
  LeaseQueue& leases_;
  ParameterGate& parameters_;
  StepReports& reports_;
  WorkTimes& times_;
  const Logger& log_;

  proto::StepSettings settings_;  // of the newest step
  Step last_step_ = 0;
  std::optional<StepWork> computing_;
  std::optional<StepWork> travelling_;
  bool is_evaluating_ = false;
  bool is_host_busy_ = false;
  std::optional<TimePoint> last_begins_by_;  // leaving: one more step begins, the last
  bool has_told_last_ = false;
  bool is_device_lost_ = false;
  bool is_step_dropped_ = false;  // the one in hand: its arithmetic is not waited for
};

}  // namespace ps::client
