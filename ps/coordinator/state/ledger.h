#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ps/base/id_index.h"
#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/coordinator/state/touched_rows.h"
#include "ps/proto/state/job_state.h"

namespace ps::coordinator {

using proto::EpochRecord;
using proto::LedgerState;
using proto::TrainLease;

/// Which samples were trained on, which are out, which are left. Invariant (Check): every sample of
/// a begun epoch is in exactly one of counted, leased, queued (fresh or returned). No call looks at
/// more than the leases of one holder and the epochs that are not counted in full.
class SampleLedger {
 public:
  /// Works on `state` and marks what it changes; both outlive it. A loaded state has passed
  /// CheckJobState. Requires: samples_per_epoch > 0, epochs > 0.
  SampleLedger(
      LedgerState* state, uint64_t samples_per_epoch, uint32_t epochs, TouchedRows* touched);

  /// Whether Grant would grant.
  bool HasWork(uint32_t epochs_ahead) const;
  /// Leases at most `samples_max` samples of the oldest epoch that has some, returned ones first.
  /// An epoch begins when all before it are leased out, and at most `epochs_ahead` of those are not
  /// counted in full. Nothing when there is no such epoch.
  /// `minibatch`: samples of each of its steps but the last. Requires: it is above 0.
  std::optional<TrainLease> Grant(
      Incarnation holder, uint64_t samples_max, uint32_t epochs_ahead, uint32_t minibatch = 1);
  /// Samples [begin, end) of `lease` were trained on. Errors: kInvalidArgument when the lease is
  /// not open or these are not its next samples; nothing has changed then.
  Status Count(LeaseId lease, uint64_t begin, uint64_t end);
  /// The lease ends at `end`, and what is behind goes back to the queue. Errors: kInvalidArgument
  /// when the lease is not open, or has nothing left before `end`, or ends before it.
  Status Cut(LeaseId lease, uint64_t end);
  /// What is left of the lease goes back to the queue. Requires: the lease is open.
  void Return(LeaseId lease);
  /// A number for a lease that is kept elsewhere (evaluation), from the same sequence.
  LeaseId NewLeaseId();

  /// Null when it is not open.
  const TrainLease* Find(LeaseId lease) const { return lease_index_.Find(lease); }

  /// Open leases of `holder`, in grant order.
  std::vector<TrainLease> LeasesOf(Incarnation holder) const;

  /// The first of them, or null.
  const TrainLease* OldestOf(Incarnation holder) const;
  /// How many there are.
  size_t CountOf(Incarnation holder) const;

  bool HasLease(Incarnation holder) const { return holder_index_.Find(holder) != nullptr; }

  bool is_epoch_complete(uint32_t epoch) const;

  bool is_complete() const { return samples_counted_ == samples_total(); }

  /// Samples that could be leased now without beginning another epoch.
  uint64_t samples_queued() const { return samples_queued_; }

  uint64_t samples_counted() const { return samples_counted_; }

  uint64_t samples_leased(uint32_t epoch) const;

  uint64_t samples_total() const { return samples_per_epoch_ * epochs_; }

  uint64_t samples_per_epoch() const { return samples_per_epoch_; }

  uint32_t epochs() const { return epochs_; }

  const LedgerState& state() const { return *state_; }

  /// Errors: kCorruption naming the first broken invariant.
  Status Check() const;

 private:
  void NoteQueue(uint32_t epoch);
  void Open(TrainLease* lease);
  void Close(TrainLease* lease);
  bool CanBegin(uint32_t epochs_ahead) const;

  const uint64_t samples_per_epoch_;
  const uint32_t epochs_;
  LedgerState* const state_;
  TouchedRows* const touched_;
  // What follows from the state, kept at hand.
  uint64_t samples_counted_ = 0;
  uint64_t samples_queued_ = 0;
  uint32_t epochs_complete_ = 0;
  std::set<uint32_t> queued_epochs_;                         // those with samples to lease
  std::map<Incarnation, std::vector<TrainLease*>> holders_;  // open leases in grant order
  IdIndex<Incarnation, std::vector<TrainLease*>> holder_index_;
  IdIndex<LeaseId, TrainLease> lease_index_;
};

/// Whether a ledger can be made of a loaded state. Errors: kCorruption naming what is wrong.
Status CheckLedgerState(const LedgerState& state, uint64_t samples_per_epoch, uint32_t epochs);

}  // namespace ps::coordinator
