#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/status.h"

namespace ps::coordinator {

/// Disjoint half-open ranges, neighbours merged: begin -> end.
class RangeSet {
 public:
  /// Requires: begin < end, and nothing of it is in the set.
  void Insert(uint64_t begin, uint64_t end);
  /// Takes at most `count` elements off the lowest range. Requires: not empty, count > 0.
  std::pair<uint64_t, uint64_t> TakeLowest(uint64_t count);

  bool empty() const { return ranges_.empty(); }

  uint64_t size() const { return size_; }

  const std::map<uint64_t, uint64_t>& ranges() const { return ranges_; }

 private:
  std::map<uint64_t, uint64_t> ranges_;
  uint64_t size_ = 0;
};

/// The right of one incarnation to train on samples [begin, end) of an epoch. Steps take them in
/// order, so what is counted is always a prefix.
struct TrainLease {
  LeaseId lease;
  Incarnation holder;
  uint32_t epoch = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t next = 0;  // [begin, next) is counted
};

struct EpochRecord {
  uint64_t fresh = 0;  // [fresh, samples_per_epoch) was never leased
  RangeSet returned;   // leased once, not counted, waiting for a new holder
  RangeSet counted;
  uint64_t samples_returned = 0;  // so far
};

/// All that the ledger knows; a checkpoint can keep it.
struct LedgerState {
  LeaseId last_lease;
  std::vector<EpochRecord> epochs;       // begun, from epoch 0
  std::map<LeaseId, TrainLease> leases;  // not counted in full
};

/// Which samples were trained on, which are out, which are left. Invariant (Check): every sample of
/// a begun epoch is in exactly one of counted, leased, queued (fresh or returned).
class SampleLedger {
 public:
  /// Requires: samples_per_epoch > 0, epochs > 0.
  SampleLedger(uint64_t samples_per_epoch, uint32_t epochs);

  /// Whether Grant would grant.
  bool HasWork(uint32_t epochs_ahead) const;
  /// Leases at most `samples_max` samples of the oldest epoch that has some, returned ones first.
  /// An epoch begins when all before it are leased out, and at most `epochs_ahead` of those are not
  /// counted in full. Nothing when there is no such epoch.
  std::optional<TrainLease> Grant(Incarnation holder, uint64_t samples_max, uint32_t epochs_ahead);
  /// Samples [begin, end) of `lease` were trained on. Errors: kInvalidArgument when the lease is
  /// not open or these are not its next samples; nothing has changed then.
  Status Count(LeaseId lease, uint64_t begin, uint64_t end);
  /// What is left of the lease goes back to the queue. Requires: the lease is open.
  void Return(LeaseId lease);
  /// A number for a lease that is kept elsewhere (evaluation), from the same sequence.
  LeaseId NewLeaseId();

  /// Null when it is not open.
  const TrainLease* Find(LeaseId lease) const;
  /// Open leases of `holder`, in grant order.
  std::vector<TrainLease> LeasesOf(Incarnation holder) const;

  bool HasLease(Incarnation holder) const { return holders_.contains(holder); }

  bool is_epoch_complete(uint32_t epoch) const;

  bool is_complete() const { return samples_counted_ == samples_total(); }

  /// Samples that could be leased now without beginning another epoch.
  uint64_t samples_queued() const;

  uint64_t samples_counted() const { return samples_counted_; }

  uint64_t samples_leased(uint32_t epoch) const;

  uint64_t samples_total() const { return samples_per_epoch_ * epochs_; }

  uint64_t samples_per_epoch() const { return samples_per_epoch_; }

  uint32_t epochs() const { return epochs_; }

  const LedgerState& state() const { return state_; }

  /// Errors: kCorruption naming the first broken invariant.
  Status Check() const;

 private:
  bool HasQueued(const EpochRecord& record) const;
  void Close(std::map<LeaseId, TrainLease>::iterator lease);
  bool CanBegin(uint32_t epochs_ahead) const;

  const uint64_t samples_per_epoch_;
  const uint32_t epochs_;
  LedgerState state_;
  // What follows from the state, kept at hand.
  uint64_t samples_counted_ = 0;
  std::map<Incarnation, std::set<LeaseId>> holders_;
};

}  // namespace ps::coordinator
