#include "ps/coordinator/ledger.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ps::coordinator {
namespace {

std::string RangeText(uint64_t begin, uint64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

}  // namespace

void RangeSet::Insert(uint64_t begin, uint64_t end) {
  PS_CHECK(begin < end) << RangeText(begin, end);
  size_ += end - begin;
  auto next = ranges_.lower_bound(begin);
  PS_CHECK(next == ranges_.end() || next->first >= end) << RangeText(begin, end) << " is there";
  if (next != ranges_.begin()) {
    const auto previous = std::prev(next);
    PS_CHECK(previous->second <= begin) << RangeText(begin, end) << " is there";
    if (previous->second == begin) {
      begin = previous->first;
      ranges_.erase(previous);
    }
  }
  if (next != ranges_.end() && next->first == end) {
    end = next->second;
    ranges_.erase(next);
  }
  ranges_[begin] = end;
}

std::pair<uint64_t, uint64_t> RangeSet::TakeLowest(uint64_t count) {
  PS_CHECK(!ranges_.empty() && count > 0);
  const auto [begin, end] = *ranges_.begin();
  const uint64_t taken_end = std::min(end, begin + std::min(count, end - begin));
  ranges_.erase(ranges_.begin());
  if (taken_end < end) {
    ranges_[taken_end] = end;
  }
  size_ -= taken_end - begin;
  return {begin, taken_end};
}

SampleLedger::SampleLedger(uint64_t samples_per_epoch, uint32_t epochs)
    : samples_per_epoch_(samples_per_epoch), epochs_(epochs) {
  PS_CHECK(samples_per_epoch > 0 && epochs > 0);
}

bool SampleLedger::HasQueued(const EpochRecord& record) const {
  return !record.returned.empty() || record.fresh < samples_per_epoch_;
}

/// All begun epochs are leased out when this is asked.
bool SampleLedger::CanBegin(uint32_t epochs_ahead) const {
  const auto begun = static_cast<uint32_t>(state_.epochs.size());
  uint32_t incomplete = 0;
  for (uint32_t epoch = 0; epoch < begun; ++epoch) {
    incomplete += is_epoch_complete(epoch) ? 0 : 1;
  }
  return begun < epochs_ && incomplete <= epochs_ahead;
}

bool SampleLedger::HasWork(uint32_t epochs_ahead) const {
  return std::any_of(
             state_.epochs.begin(),
             state_.epochs.end(),
             [this](const EpochRecord& record) { return HasQueued(record); }) ||
         CanBegin(epochs_ahead);
}

std::optional<TrainLease> SampleLedger::Grant(
    Incarnation holder, uint64_t samples_max, uint32_t epochs_ahead) {
  PS_CHECK(samples_max > 0);
  if (!HasWork(epochs_ahead)) {
    return std::nullopt;
  }
  size_t epoch = 0;
  while (epoch < state_.epochs.size() && !HasQueued(state_.epochs[epoch])) {
    ++epoch;
  }
  if (epoch == state_.epochs.size()) {
    state_.epochs.emplace_back();
  }
  EpochRecord& record = state_.epochs[epoch];
  TrainLease lease;
  lease.lease = NewLeaseId();
  lease.holder = holder;
  lease.epoch = static_cast<uint32_t>(epoch);
  if (!record.returned.empty()) {
    std::tie(lease.begin, lease.end) = record.returned.TakeLowest(samples_max);
  } else {
    lease.begin = record.fresh;
    lease.end = record.fresh + std::min(samples_max, samples_per_epoch_ - record.fresh);
    record.fresh = lease.end;
  }
  lease.next = lease.begin;
  state_.leases[lease.lease] = lease;
  holders_[holder].insert(lease.lease);
  return lease;
}

Status SampleLedger::Count(LeaseId lease, uint64_t begin, uint64_t end) {
  const auto it = state_.leases.find(lease);
  if (it == state_.leases.end()) {
    return Status::InvalidArgument("lease " + std::to_string(lease.value) + " is not open");
  }
  TrainLease& open = it->second;
  if (begin != open.next || end <= begin || end > open.end) {
    return Status::InvalidArgument(
        "samples " + RangeText(begin, end) + " are not the next ones of lease " +
        std::to_string(lease.value) + ", which has " + RangeText(open.next, open.end) + " left");
  }
  open.next = end;
  state_.epochs[open.epoch].counted.Insert(begin, end);
  samples_counted_ += end - begin;
  if (open.next == open.end) {
    Close(it);
  }
  return Status::Ok();
}

void SampleLedger::Close(std::map<LeaseId, TrainLease>::iterator lease) {
  const auto holder = holders_.find(lease->second.holder);
  holder->second.erase(lease->first);
  if (holder->second.empty()) {
    holders_.erase(holder);
  }
  state_.leases.erase(lease);
}

void SampleLedger::Return(LeaseId lease) {
  const auto it = state_.leases.find(lease);
  PS_CHECK(it != state_.leases.end()) << "lease " << lease;
  const TrainLease& open = it->second;
  EpochRecord& record = state_.epochs[open.epoch];
  record.returned.Insert(open.next, open.end);
  record.samples_returned += open.end - open.next;
  Close(it);
}

LeaseId SampleLedger::NewLeaseId() {
  ++state_.last_lease.value;
  return state_.last_lease;
}

const TrainLease* SampleLedger::Find(LeaseId lease) const {
  const auto it = state_.leases.find(lease);
  return it == state_.leases.end() ? nullptr : &it->second;
}

std::vector<TrainLease> SampleLedger::LeasesOf(Incarnation holder) const {
  std::vector<TrainLease> leases;
  if (const auto it = holders_.find(holder); it != holders_.end()) {
    for (const LeaseId lease : it->second) {
      leases.push_back(state_.leases.at(lease));
    }
  }
  return leases;
}

bool SampleLedger::is_epoch_complete(uint32_t epoch) const {
  return epoch < state_.epochs.size() && state_.epochs[epoch].counted.size() == samples_per_epoch_;
}

uint64_t SampleLedger::samples_queued() const {
  uint64_t n = 0;
  for (const EpochRecord& record : state_.epochs) {
    n += record.returned.size() + (samples_per_epoch_ - record.fresh);
  }
  return n;
}

uint64_t SampleLedger::samples_leased(uint32_t epoch) const {
  uint64_t n = 0;
  for (const auto& [id, lease] : state_.leases) {
    n += lease.epoch == epoch ? lease.end - lease.next : 0;
  }
  return n;
}

Status SampleLedger::Check() const {
  uint64_t counted = 0;
  for (uint32_t epoch = 0; epoch < state_.epochs.size(); ++epoch) {
    const EpochRecord& record = state_.epochs[epoch];
    const std::string where = "epoch " + std::to_string(epoch) + ": ";
    std::vector<std::pair<uint64_t, uint64_t>> pieces(
        record.counted.ranges().begin(), record.counted.ranges().end());
    pieces.insert(pieces.end(), record.returned.ranges().begin(), record.returned.ranges().end());
    for (const auto& [id, lease] : state_.leases) {
      if (lease.begin > lease.next || lease.next >= lease.end || id > state_.last_lease) {
        return Status::Corruption("lease " + std::to_string(id.value) + " makes no sense");
      }
      if (lease.epoch == epoch) {
        pieces.emplace_back(lease.next, lease.end);
      }
    }
    if (record.fresh < samples_per_epoch_) {
      pieces.emplace_back(record.fresh, samples_per_epoch_);
    }
    std::sort(pieces.begin(), pieces.end());
    uint64_t covered = 0;
    for (const auto& [begin, end] : pieces) {
      if (begin != covered || end <= begin) {
        return Status::Corruption(
            where + RangeText(begin, end) + " follows " + std::to_string(covered) +
            (begin < covered ? ": in two places" : ": samples are missing"));
      }
      covered = end;
    }
    if (covered != samples_per_epoch_) {
      return Status::Corruption(where + "ends at " + std::to_string(covered));
    }
    counted += record.counted.size();
  }
  size_t held = 0;
  for (const auto& [holder, leases] : holders_) {
    held += leases.size();
  }
  if (held != state_.leases.size()) {
    return Status::Corruption("the leases by holder are not the open ones");
  }
  if (counted != samples_counted_ || state_.epochs.size() > epochs_) {
    return Status::Corruption(
        "counted " + std::to_string(samples_counted_) + " samples, not " + std::to_string(counted));
  }
  return Status::Ok();
}

}  // namespace ps::coordinator
