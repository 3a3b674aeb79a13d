#include "ps/coordinator/state/membership.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace ps::coordinator {
namespace {

constexpr size_t kChangesMax = 1U << 14;

}  // namespace

Membership::Membership(MembershipState* state, uint32_t shard_count, TouchedRows* touched)
    : state_(state),
      touched_(touched),
      shard_count_(shard_count),
      changes_since_(state->generation) {
  for (auto& [incarnation, record] : state_->members) {
    NoteMember(&record);
    seats_[record.seat] = incarnation;
    processes_.insert({record.process(), incarnation});
    if (!record.is_admitted) {
      joining_.insert({record.joined, incarnation});
    }
  }
  for (auto& [incarnation, record] : state_->departures) {
    departures_[incarnation].record = &record;
    if (record.is_resolved) {
      kept_.insert({record.kept_for_round, incarnation});
      continue;
    }
    ++unresolved_;
    if (record.answers.size() == shard_count_) {
      answered_.insert(incarnation);
    }
  }
  NoteAcknowledgements();
}

Member& Membership::Add(WorkerId seat, const proto::ProcessId& process) {
  PS_CHECK(!seats_.contains(seat)) << "seat " << seat << " is taken";
  const Incarnation incarnation(++state_->incarnation_max.value);
  ++state_->generation.value;
  touched_->Mark(RowKind::kMember, incarnation.value);
  MemberRecord& record = state_->members[incarnation];
  record.seat = seat;
  record.host = process.host;
  record.pid = process.pid;
  record.launch = process.launch;
  record.incarnation = incarnation;
  record.joined = state_->generation;
  seats_[seat] = incarnation;
  processes_.insert({process, incarnation});
  joining_.insert({record.joined, incarnation});
  NoteChange(incarnation);
  return NoteMember(&record);
}

std::optional<Duration> Membership::BeganOf(const proto::ProcessId& process) const {
  if (!process.is_known()) {
    return std::nullopt;
  }
  for (const auto& [incarnation, departure] : departures_) {
    if (departure.record->member.process() == process) {
      return departure.record->member.began;
    }
  }
  const auto gone =
      std::find_if(state_->gone.rbegin(), state_->gone.rend(), [&](const GoneWorker& worker) {
        return worker.member.process() == process;
      });
  return gone == state_->gone.rend() ? std::nullopt : gone->member.began;
}

Member& Membership::NoteMember(MemberRecord* record) {
  Member& member = members_[record->incarnation];
  member.record = record;
  member.own_record_ = record;
  member_index_.Insert(record->incarnation, &member);
  return member;
}

Departure& Membership::Remove(
    Incarnation incarnation, LeaveKind kind, std::string reason, TimePoint now) {
  auto node = state_->members.extract(incarnation);
  PS_CHECK(!node.empty()) << "incarnation " << incarnation << " is no member";
  ++state_->generation.value;
  touched_->Mark(RowKind::kMember, incarnation.value);
  touched_->Mark(RowKind::kDeparture, incarnation.value);
  DepartureRecord& record = state_->departures[incarnation];
  record.member = std::move(node.mapped());
  record.kind = kind;
  record.reason = std::move(reason);
  record.generation = state_->generation;
  seats_.erase(record.member.seat);
  processes_.erase({record.member.process(), incarnation});
  joining_.erase({record.member.joined, incarnation});
  member_index_.Erase(incarnation);
  members_.erase(incarnation);
  NoteChange(incarnation);
  ++unresolved_;
  Departure& departure = departures_[incarnation];
  departure.record = &record;
  departure.since = now;
  return departure;
}

void Membership::SetActive(Member* member, bool is_active) {
  MemberRecord& record = Edit(*member);
  PS_CHECK(record.is_active != is_active) << "incarnation " << record.incarnation;
  ++state_->generation.value;
  record.is_active = is_active;
  record.activated = state_->generation;
  NoteChange(record.incarnation);
}

void Membership::SetAllActive(bool is_active) {
  ++state_->generation.value;
  for (const auto& [incarnation, member] : members_) {
    MemberRecord& record = Edit(member);
    record.is_active = is_active;
    record.activated = state_->generation;
    NoteChange(incarnation);
  }
}

void Membership::NoteChange(Incarnation incarnation) {
  changes_.emplace(state_->generation, incarnation);
  if (changes_.size() + forgotten_.size() > kChangesMax) {
    changes_.clear();
    forgotten_.clear();
    changes_since_ = state_->generation;
  }
}

MemberRecord& Membership::Edit(const Member& member) {
  touched_->Mark(RowKind::kMember, member.record->incarnation.value);
  return *member.own_record_;
}

DepartureRecord& Membership::Edit(const Departure& departure) {
  touched_->Mark(RowKind::kDeparture, departure.record->member.incarnation.value);
  return state_->departures.at(departure.record->member.incarnation);
}

void Membership::NoteStats(const Member& member, const proto::WorkerStats& stats) {
  member.own_record_->stats = stats;
}

Member* Membership::FindSeat(WorkerId seat) {
  const auto it = seats_.find(seat);
  return it == seats_.end() ? nullptr : Find(it->second);
}

Member* Membership::FindLaunch(LaunchId launch) {
  const auto it = processes_.lower_bound({{launch, "", INT64_MIN}, Incarnation()});
  const bool is_there = launch != LaunchId() && it != processes_.end();
  return is_there && it->first.launch == launch ? Find(it->second) : nullptr;
}

Member* Membership::FindProcess(const proto::ProcessId& process) {
  for (auto it = processes_.lower_bound({process, Incarnation()});
       it != processes_.end() && it->first == process;
       ++it) {
    if (Member* const member = Find(it->second); member->peer == proto::PeerId()) {
      return member;
    }
  }
  return nullptr;
}

Departure* Membership::FindDeparture(Incarnation incarnation) {
  const auto it = departures_.find(incarnation);
  return it == departures_.end() ? nullptr : &it->second;
}

const Departure* Membership::FindDeparture(Incarnation incarnation) const {
  const auto it = departures_.find(incarnation);
  return it == departures_.end() ? nullptr : &it->second;
}

proto::Membership Membership::Message() const {
  proto::Membership message;
  message.generation = state_->generation;
  message.incarnation_max = state_->incarnation_max;
  for (const auto& [incarnation, member] : state_->members) {
    message.members.push_back({member.seat, incarnation, member.is_active});
  }
  for (const auto& [incarnation, departure] : state_->departures) {
    message.resolve.push_back(incarnation);
  }
  return message;
}

proto::Membership Membership::MessageSince(Generation base) const {
  if (base == Generation() || base < changes_since_) {
    return Message();
  }
  std::set<Incarnation> changed;
  for (auto it = changes_.upper_bound(base); it != changes_.end(); ++it) {
    changed.insert(it->second);
  }
  if (changed.size() > state_->members.size()) {
    return Message();
  }
  proto::Membership message;
  message.generation = state_->generation;
  message.base = base;
  message.incarnation_max = state_->incarnation_max;
  for (const Incarnation incarnation : changed) {
    if (const auto member = state_->members.find(incarnation); member != state_->members.end()) {
      const MemberRecord& record = member->second;
      message.members.push_back({record.seat, incarnation, record.is_active});
    } else if (state_->departures.contains(incarnation)) {
      message.resolve.push_back(incarnation);
    }
  }
  // The membership that the receiver has was made before those of `base` itself were forgotten.
  for (auto it = forgotten_.lower_bound(base); it != forgotten_.end(); ++it) {
    message.forgotten.push_back(it->second);
  }
  return message;
}

Status Membership::OnAck(const proto::MembershipAck& ack) {
  if (ack.generation > state_->generation) {
    return Status::InvalidArgument(fmt::format(
        "generation {} is not there yet; the newest is {}",
        ack.generation.value,
        state_->generation.value));
  }
  for (const proto::MembershipAck::Resolved& resolved : ack.resolved) {
    Departure* const departure = FindDeparture(resolved.incarnation);
    if (departure == nullptr || ack.generation < departure->record->generation) {
      continue;
    }
    DepartureRecord* const record = &Edit(*departure);
    record->answers.emplace(ack.shard, resolved);  // the first answer can't change any more
    if (!record->is_resolved && record->answers.size() == shard_count_) {
      answered_.insert(resolved.incarnation);
    }
  }
  // An acknowledgement without the answers that it owes is none: the membership is sent again.
  const bool is_owing = std::any_of(departures_.begin(), departures_.end(), [&](const auto& entry) {
    const DepartureRecord& record = *entry.second.record;
    return record.generation <= ack.generation && !record.answers.contains(ack.shard);
  });
  if (!is_owing) {
    touched_->Mark(RowKind::kAcknowledged, ack.shard.value);
    Generation& acknowledged = state_->acknowledged[ack.shard];
    acknowledged = std::max(acknowledged, ack.generation);
    NoteAcknowledgements();
  }
  return Status::Ok();
}

void Membership::NoteAcknowledgements() {
  if (state_->acknowledged.size() < shard_count_) {
    return;
  }
  acknowledged_by_all_ = std::min_element(
                             state_->acknowledged.begin(),
                             state_->acknowledged.end(),
                             [](const auto& a, const auto& b) { return a.second < b.second; })
                             ->second;
  changes_.erase(changes_.begin(), changes_.upper_bound(acknowledged_by_all_));
  forgotten_.erase(forgotten_.begin(), forgotten_.lower_bound(acknowledged_by_all_));
}

void Membership::ForgetAcknowledged(ShardId shard) {
  touched_->Mark(RowKind::kAcknowledged, shard.value);
  state_->acknowledged.erase(shard);
  for (auto& [incarnation, departure] : departures_) {
    if (!departure.record->is_resolved && departure.record->answers.contains(shard)) {
      Edit(departure).answers.erase(shard);
      answered_.erase(incarnation);
    }
  }
}

Generation Membership::AcknowledgedBy(ShardId shard) const {
  const auto it = state_->acknowledged.find(shard);
  return it == state_->acknowledged.end() ? Generation() : it->second;
}

std::vector<Incarnation> Membership::TakeJoined() {
  std::vector<Incarnation> joined;
  while (!joining_.empty() && IsAcknowledged(joining_.begin()->first)) {
    joined.push_back(joining_.begin()->second);
    joining_.erase(joining_.begin());
  }
  return joined;
}

std::vector<Incarnation> Membership::TakeAnswered() {
  std::vector<Incarnation> answered(answered_.begin(), answered_.end());
  answered_.clear();
  return answered;
}

void Membership::Resolve(Departure* departure, uint64_t round) {
  DepartureRecord* const record = &Edit(*departure);
  PS_CHECK(!record->is_resolved) << "incarnation " << record->member.incarnation;
  record->is_resolved = true;
  record->kept_for_round = round;
  kept_.insert({round, record->member.incarnation});
  --unresolved_;
}

void Membership::ForgetKept(uint64_t round) {
  while (!kept_.empty() && kept_.begin()->first <= round) {
    const Incarnation incarnation = kept_.begin()->second;
    kept_.erase(kept_.begin());
    departures_.erase(incarnation);
    forgotten_.emplace(state_->generation, incarnation);
    touched_->Mark(RowKind::kDeparture, incarnation.value);
    touched_->Mark(RowKind::kGone, state_->gone_before + state_->gone.size());
    auto node = state_->departures.extract(incarnation);
    DepartureRecord& record = node.mapped();
    state_->gone.push_back({std::move(record.member), record.kind, std::move(record.reason)});
    if (state_->gone.size() > kGoneWorkersMax) {
      touched_->Mark(RowKind::kGone, state_->gone_before);
      state_->gone.pop_front();
      ++state_->gone_before;
    }
  }
}

const GoneWorker* Membership::NoteNeverBack(WorkerId seat, const std::string& reason) {
  for (size_t i = state_->gone.size(); i-- > 0;) {
    GoneWorker& last = state_->gone[i];
    if (last.member.seat != seat) {
      continue;
    }
    if (last.kind != LeaveKind::kLeft || !last.member.is_admitted || last.member.is_released) {
      return nullptr;
    }
    const bool has_notice = last.member.is_draining || last.member.is_notified;
    last.kind = has_notice ? LeaveKind::kDrained : LeaveKind::kLost;
    last.reason = reason;
    touched_->Mark(RowKind::kGone, state_->gone_before + i);
    return &last;
  }
  return nullptr;
}

Status Membership::Check() const {
  PS_TRY(CheckMembershipState(*state_, shard_count_));
  for (const auto& [seat, incarnation] : seats_) {
    const auto record = state_->members.find(incarnation);
    if (record == state_->members.end() || record->second.seat != seat) {
      return Status::Corruption(fmt::format("seat {} has a holder that is gone", seat.value));
    }
  }
  const auto resolved = static_cast<size_t>(
      std::count_if(state_->departures.begin(), state_->departures.end(), [](const auto& entry) {
        return entry.second.is_resolved;
      }));
  if (seats_.size() != state_->members.size() || members_.size() != seats_.size() ||
      member_index_.size() != seats_.size() || processes_.size() != seats_.size() ||
      departures_.size() != state_->departures.size() || kept_.size() != resolved ||
      unresolved_ + resolved != departures_.size()) {
    return Status::Corruption("the membership's tables are not those of its state");
  }
  return Status::Ok();
}

Status CheckMembershipState(const MembershipState& state, uint32_t shard_count) {
  const auto nonsense = [](Incarnation incarnation) {
    return Status::Corruption(fmt::format("incarnation {} makes no sense", incarnation.value));
  };
  std::set<WorkerId> seats;
  for (const auto& [incarnation, member] : state.members) {
    if (!seats.insert(member.seat).second) {
      return Status::Corruption(fmt::format("seat {} has two holders", member.seat.value));
    }
    if (incarnation == Incarnation() || incarnation > state.incarnation_max ||
        state.departures.contains(incarnation) || member.incarnation != incarnation ||
        member.joined > state.generation || member.activated > state.generation) {
      return nonsense(incarnation);
    }
  }
  for (const auto& [shard, generation] : state.acknowledged) {
    if (shard.value >= shard_count || generation > state.generation) {
      return Status::Corruption(fmt::format("shard {} is ahead", shard.value));
    }
  }
  for (const auto& [incarnation, departure] : state.departures) {
    const bool is_answered = departure.answers.size() == shard_count;
    if (incarnation > state.incarnation_max || departure.member.incarnation != incarnation ||
        departure.generation > state.generation || (departure.is_resolved && !is_answered)) {
      return nonsense(incarnation);
    }
    for (const auto& [shard, answer] : departure.answers) {
      if (shard.value >= shard_count || answer.incarnation != incarnation) {
        return nonsense(incarnation);
      }
    }
    for (const auto& [shard, generation] : state.acknowledged) {
      if (generation >= departure.generation && !departure.answers.contains(shard)) {
        return Status::Corruption(fmt::format(
            "shard {} has acknowledged the end of incarnation {} without its last step",
            shard.value,
            incarnation.value));
      }
    }
  }
  return state.gone.size() <= kGoneWorkersMax ? Status::Ok()
                                              : Status::Corruption("too many are remembered");
}

}  // namespace ps::coordinator
