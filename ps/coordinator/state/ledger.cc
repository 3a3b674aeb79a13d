#include "ps/coordinator/state/ledger.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

namespace ps::coordinator {
namespace {

std::string RangeText(uint64_t begin, uint64_t end) {
  return fmt::format("[{}, {})", begin, end);
}

using Pieces = std::vector<std::pair<uint64_t, uint64_t>>;

/// Whether the pieces cover [0, samples) exactly.
Status CheckTiling(Pieces pieces, uint64_t samples) {
  std::sort(pieces.begin(), pieces.end());
  uint64_t covered = 0;
  for (const auto& [begin, end] : pieces) {
    if (begin != covered || end <= begin) {
      return Status::Corruption(fmt::format(
          "{} follows {}: {}",
          RangeText(begin, end),
          covered,
          begin < covered ? "in two places" : "samples are missing"));
    }
    covered = end;
  }
  return covered == samples ? Status::Ok() : Status::Corruption(fmt::format("ends at {}", covered));
}

}  // namespace

Status CheckLedgerState(const LedgerState& state, uint64_t samples_per_epoch, uint32_t epochs) {
  if (state.epochs.size() > epochs) {
    return Status::Corruption(
        fmt::format("{} epochs of {} have begun", state.epochs.size(), epochs));
  }
  std::vector<Pieces> leased(state.epochs.size());
  for (const auto& [id, lease] : state.leases) {
    if (lease.lease != id || lease.begin > lease.next || lease.next >= lease.end ||
        lease.epoch >= leased.size() || id == LeaseId() || id > state.last_lease ||
        lease.holder == Incarnation()) {
      return Status::Corruption(fmt::format("lease {} makes no sense", id.value));
    }
    leased[lease.epoch].emplace_back(lease.next, lease.end);
  }
  for (size_t epoch = 0; epoch < state.epochs.size(); ++epoch) {
    const EpochRecord& record = state.epochs[epoch];
    Pieces& pieces = leased[epoch];
    if (record.fresh > samples_per_epoch) {
      return Status::Corruption(fmt::format("epoch {} has too many samples", epoch));
    }
    for (const RangeSet* const set : {&record.counted, &record.returned}) {
      pieces.insert(pieces.end(), set->ranges().begin(), set->ranges().end());
    }
    if (record.fresh < samples_per_epoch) {
      pieces.emplace_back(record.fresh, samples_per_epoch);
    }
    PS_TRY(
        CheckTiling(std::move(pieces), samples_per_epoch).Annotate(fmt::format("epoch {}", epoch)));
  }
  return Status::Ok();
}

SampleLedger::SampleLedger(
    LedgerState* state, uint64_t samples_per_epoch, uint32_t epochs, TouchedRows* touched)
    : samples_per_epoch_(samples_per_epoch), epochs_(epochs), state_(state), touched_(touched) {
  PS_CHECK(samples_per_epoch > 0 && epochs > 0);
  for (uint32_t epoch = 0; epoch < state_->epochs.size(); ++epoch) {
    const EpochRecord& record = state_->epochs[epoch];
    samples_counted_ += record.counted.size();
    samples_queued_ += record.returned.size() + (samples_per_epoch_ - record.fresh);
    epochs_complete_ += is_epoch_complete(epoch) ? 1 : 0;
    NoteQueue(epoch);
  }
  for (auto& [id, lease] : state_->leases) {
    Open(&lease);
  }
}

void SampleLedger::NoteQueue(uint32_t epoch) {
  const EpochRecord& record = state_->epochs[epoch];
  if (!record.returned.empty() || record.fresh < samples_per_epoch_) {
    queued_epochs_.insert(epoch);
  } else {
    queued_epochs_.erase(epoch);
  }
}

/// All begun epochs are leased out when this is asked.
bool SampleLedger::CanBegin(uint32_t epochs_ahead) const {
  return state_->epochs.size() < epochs_ &&
         state_->epochs.size() - epochs_complete_ <= epochs_ahead;
}

bool SampleLedger::HasWork(uint32_t epochs_ahead) const {
  return !queued_epochs_.empty() || CanBegin(epochs_ahead);
}

std::optional<TrainLease> SampleLedger::Grant(
    Incarnation holder, uint64_t samples_max, uint32_t epochs_ahead, uint32_t minibatch) {
  PS_CHECK(samples_max > 0 && minibatch > 0);
  if (!HasWork(epochs_ahead)) {
    return std::nullopt;
  }
  if (queued_epochs_.empty()) {
    queued_epochs_.insert(static_cast<uint32_t>(state_->epochs.size()));
    state_->epochs.emplace_back();
    samples_queued_ += samples_per_epoch_;
  }
  TrainLease lease;
  lease.lease = NewLeaseId();
  lease.holder = holder;
  lease.epoch = *queued_epochs_.begin();
  EpochRecord& record = state_->epochs[lease.epoch];
  if (!record.returned.empty()) {
    std::tie(lease.begin, lease.end) = record.returned.TakeLowest(samples_max);
  } else {
    lease.begin = record.fresh;
    lease.end = record.fresh + std::min(samples_max, samples_per_epoch_ - record.fresh);
    record.fresh = lease.end;
  }
  lease.next = lease.begin;
  lease.minibatch = minibatch;
  samples_queued_ -= lease.end - lease.begin;
  NoteQueue(lease.epoch);
  touched_->Mark(RowKind::kEpoch, lease.epoch);
  touched_->Mark(RowKind::kLease, lease.lease.value);
  Open(&state_->leases.emplace(lease.lease, lease).first->second);
  return lease;
}

Status SampleLedger::Count(LeaseId lease, uint64_t begin, uint64_t end) {
  TrainLease* const found = lease_index_.Find(lease);
  if (found == nullptr) {
    return Status::InvalidArgument(fmt::format("lease {} is not open", lease.value));
  }
  TrainLease& open = *found;
  if (begin != open.next || end <= begin || end > open.end) {
    return Status::InvalidArgument(fmt::format(
        "samples {} are not the next ones of lease {}, which has {} left",
        RangeText(begin, end),
        lease.value,
        RangeText(open.next, open.end)));
  }
  touched_->Mark(RowKind::kLease, lease.value);
  open.next = end;
  state_->epochs[open.epoch].counted.Insert(begin, end);
  samples_counted_ += end - begin;
  epochs_complete_ += is_epoch_complete(open.epoch) ? 1 : 0;
  if (open.next == open.end) {
    Close(found);
  }
  return Status::Ok();
}

void SampleLedger::Open(TrainLease* lease) {
  lease_index_.Insert(lease->lease, lease);
  const auto [holder, is_new] = holders_.try_emplace(lease->holder);
  holder->second.push_back(lease);
  if (is_new) {
    holder_index_.Insert(lease->holder, &holder->second);
  }
}

void SampleLedger::Close(TrainLease* lease) {
  const auto holder = holders_.find(lease->holder);
  std::erase(holder->second, lease);
  if (holder->second.empty()) {
    holder_index_.Erase(holder->first);
    holders_.erase(holder);
  }
  touched_->Mark(RowKind::kLease, lease->lease.value);
  lease_index_.Erase(lease->lease);
  state_->leases.erase(lease->lease);
}

Status SampleLedger::Cut(LeaseId lease, uint64_t end) {
  TrainLease* const open = lease_index_.Find(lease);
  if (open == nullptr || end <= open->next || end > open->end) {
    return Status::InvalidArgument(fmt::format(
        "lease {} can't end at sample {}: {}",
        lease.value,
        end,
        open == nullptr ? "it is not open"
                        : "it has " + RangeText(open->next, open->end) + " left"));
  }
  if (end == open->end) {
    return Status::Ok();
  }
  EpochRecord& record = state_->epochs[open->epoch];
  touched_->Mark(RowKind::kEpoch, open->epoch);
  touched_->Mark(RowKind::kLease, lease.value);
  record.returned.Insert(end, open->end);
  record.samples_returned += open->end - end;
  samples_queued_ += open->end - end;
  NoteQueue(open->epoch);
  open->end = end;
  return Status::Ok();
}

void SampleLedger::Return(LeaseId lease) {
  TrainLease* const open = lease_index_.Find(lease);
  PS_CHECK(open != nullptr) << "lease " << lease;
  EpochRecord& record = state_->epochs[open->epoch];
  touched_->Mark(RowKind::kEpoch, open->epoch);
  record.returned.Insert(open->next, open->end);
  record.samples_returned += open->end - open->next;
  samples_queued_ += open->end - open->next;
  NoteQueue(open->epoch);
  Close(open);
}

LeaseId SampleLedger::NewLeaseId() {
  ++state_->last_lease.value;
  return state_->last_lease;
}

std::vector<TrainLease> SampleLedger::LeasesOf(Incarnation holder) const {
  std::vector<TrainLease> leases;
  if (const auto* const open = holder_index_.Find(holder); open != nullptr) {
    for (const TrainLease* const lease : *open) {
      leases.push_back(*lease);
    }
  }
  return leases;
}

const TrainLease* SampleLedger::OldestOf(Incarnation holder) const {
  const auto* const open = holder_index_.Find(holder);
  return open == nullptr ? nullptr : open->front();
}

size_t SampleLedger::CountOf(Incarnation holder) const {
  const auto* const open = holder_index_.Find(holder);
  return open == nullptr ? 0 : open->size();
}

bool SampleLedger::is_epoch_complete(uint32_t epoch) const {
  return epoch < state_->epochs.size() &&
         state_->epochs[epoch].counted.size() == samples_per_epoch_;
}

/// What was taken from the queue and is neither back in it nor counted.
uint64_t SampleLedger::samples_leased(uint32_t epoch) const {
  const EpochRecord& record = state_->epochs[epoch];
  return record.fresh - record.returned.size() - record.counted.size();
}

Status SampleLedger::Check() const {
  PS_TRY(CheckLedgerState(*state_, samples_per_epoch_, epochs_));
  LedgerState copy = *state_;
  TouchedRows touched;
  const SampleLedger fresh(&copy, samples_per_epoch_, epochs_, &touched);
  if (fresh.samples_counted_ != samples_counted_ || fresh.samples_queued_ != samples_queued_ ||
      fresh.epochs_complete_ != epochs_complete_ || fresh.queued_epochs_ != queued_epochs_ ||
      fresh.holders_.size() != holders_.size() || lease_index_.size() != state_->leases.size()) {
    return Status::Corruption("the ledger's sums are not those of its state");
  }
  for (const auto& [id, lease] : state_->leases) {
    const auto* const open = holder_index_.Find(lease.holder);
    if (lease_index_.Find(id) != &lease || open == nullptr ||
        std::count(open->begin(), open->end(), &lease) != 1 ||
        open->size() != fresh.CountOf(lease.holder)) {
      return Status::Corruption(fmt::format("lease {} is not at its holder", id.value));
    }
  }
  return Status::Ok();
}

}  // namespace ps::coordinator
