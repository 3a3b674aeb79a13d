#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include "ps/coordinator/state/job.h"

namespace ps::coordinator {

/// Work: leases out, steps and evaluations in, rounds and epochs closed.
///
/// Under ssp a member is active exactly while it holds a train lease (a moment longer after the
/// last step), and gets one only when every shard has acknowledged that it is active. Under bsp a
/// round is committed when all who entered it have contributed or are gone, and nobody who could
/// still enter it is awaited; evaluations happen between the rounds.
///
/// A member that wants a lease is looked at when something that it waits for has happened, so that
/// the work of an event does not grow with the number of those who wait.
class LeaseDesk {
 public:
  explicit LeaseDesk(Job* job);

  void On(const Call& call, const proto::LeaseRequest& message);
  void On(const Call& call, const proto::StepReport& message);
  void On(const Call& call, const proto::CutLease& message);
  void On(const Call& call, const proto::EvaluateReport& message);

  /// Takes note of what has become of a member: draining, or none any more.
  void Track(Incarnation incarnation);
  /// The mode has changed: the same for every member.
  void TrackAll();
  /// Counts the next step of an incarnation, reported or resolved. Errors: kInvalidArgument when it
  /// is not the step that must come next; nothing has changed then. Without `has_loss` nobody knows
  /// its loss.
  Status CountStep(MemberRecord* member, const proto::StepDone& done, bool has_loss, TimePoint now);

  /// Begins the evaluations of epochs that are counted in full (bsp: and committed).
  void FinishEpochs();
  /// Parts that so many samples are evaluated in.
  uint64_t PartsOf(SampleSpan samples) const;
  /// Grants what can be granted.
  void Serve(const Call& call);
  /// bsp: commits the open round when all is in. True when it did; shards are to be told.
  bool TryCommit(const Call& call);

  /// Whether a train lease could be granted now to somebody.
  bool HasTrainingWork() const;

  /// bsp: it is to enter the open round and has not asked yet.
  bool IsAwaited(const Member& member) const;
  /// It holds work, or others wait for it to take some.
  bool IsOwingWork(const Member& member) const;

 private:
  /// What decides whether anybody at all can be served.
  struct Offer {
    bool has_training = false;
    bool has_evaluation = false;
    uint64_t round = 0;
    bool is_open = false;  // the job is training

    friend bool operator==(const Offer&, const Offer&) = default;
  };

  Offer OfferNow() const;
  void ServeOne(Member* member, const Call& call);
  bool ServeEvaluation(Member* member, const Call& call);
  bool ServeTraining(Member* member, const Call& call);
  void SendGrant(Member* member, proto::LeaseGrant grant, const Call& call);
  /// Samples of the steps of its next lease.
  uint32_t BatchOf(const MemberRecord& member) const;
  uint32_t LocalStepsOf(const MemberRecord& member, uint32_t minibatch) const;
  uint64_t LeaseSamples(uint32_t step_samples) const;
  void NoteRejection(const MemberRecord& member, Step step, uint64_t samples);

  uint32_t epochs_ahead() const { return job_->is_bsp() ? 0 : 1; }

  Job* const job_;
  const bool looks_at_paces_;      // train.mode_policy
  std::set<Incarnation> wanting_;  // a lease, and may get one
  std::set<Incarnation> due_;      // of these, to be looked at
  std::set<Incarnation> between_;  // bsp: may enter the open round, and has not asked yet
  std::set<std::pair<Generation, Incarnation>> activating_;  // ssp: wait for this acknowledgement
  uint64_t rejections_told_ = 0;                             // samples
  Offer offer_;                                              // when all were looked at last
};

}  // namespace ps::coordinator
