#include "ps/coordinator/membership.h"

#include <algorithm>
#include <set>
#include <utility>

namespace ps::coordinator {
namespace {

constexpr size_t kGoneWorkersMax = 64;

}  // namespace

Member& Membership::Add(WorkerId seat) {
  PS_CHECK(!seats_.contains(seat)) << "seat " << seat << " is taken";
  ++incarnation_max_.value;
  ++generation_.value;
  Member& member = members_[incarnation_max_];
  member.seat = seat;
  member.incarnation = incarnation_max_;
  member.joined = generation_;
  seats_[seat] = incarnation_max_;
  return member;
}

Departure& Membership::Remove(
    Incarnation incarnation, LeaveKind kind, std::string reason, TimePoint now) {
  auto node = members_.extract(incarnation);
  PS_CHECK(!node.empty()) << "incarnation " << incarnation << " is no member";
  ++generation_.value;
  seats_.erase(node.mapped().seat);
  Departure& departure = departures_[incarnation];
  departure.member = std::move(node.mapped());
  departure.kind = kind;
  departure.reason = std::move(reason);
  departure.since = now;
  departure.generation = generation_;
  return departure;
}

void Membership::SetActive(Member* member, bool is_active) {
  PS_CHECK(member->is_active != is_active) << "incarnation " << member->incarnation;
  ++generation_.value;
  member->is_active = is_active;
  member->activated = generation_;
}

Member* Membership::Find(Incarnation incarnation) {
  const auto it = members_.find(incarnation);
  return it == members_.end() ? nullptr : &it->second;
}

const Member* Membership::Find(Incarnation incarnation) const {
  const auto it = members_.find(incarnation);
  return it == members_.end() ? nullptr : &it->second;
}

Member* Membership::FindSeat(WorkerId seat) {
  const auto it = seats_.find(seat);
  return it == seats_.end() ? nullptr : Find(it->second);
}

Departure* Membership::FindDeparture(Incarnation incarnation) {
  const auto it = departures_.find(incarnation);
  return it == departures_.end() ? nullptr : &it->second;
}

proto::Membership Membership::Message() const {
  proto::Membership message;
  message.generation = generation_;
  message.incarnation_max = incarnation_max_;
  for (const auto& [incarnation, member] : members_) {
    message.members.push_back({member.seat, incarnation, member.is_active});
  }
  for (const auto& [incarnation, departure] : departures_) {
    message.resolve.push_back(incarnation);
  }
  return message;
}

Status Membership::OnAck(const proto::MembershipAck& ack) {
  if (ack.generation > generation_) {
    return Status::InvalidArgument(
        "generation " + std::to_string(ack.generation.value) + " is not there yet; the newest is " +
        std::to_string(generation_.value));
  }
  for (const proto::MembershipAck::Resolved& resolved : ack.resolved) {
    Departure* const departure = FindDeparture(resolved.incarnation);
    if (departure != nullptr && ack.generation >= departure->generation) {
      departure->answers.emplace(ack.shard, resolved);  // the first answer can't change any more
    }
  }
  // An acknowledgement without the answers that it owes is none: the membership is sent again.
  const bool is_owing = std::any_of(departures_.begin(), departures_.end(), [&](const auto& entry) {
    return entry.second.generation <= ack.generation && !entry.second.answers.contains(ack.shard);
  });
  if (!is_owing) {
    Generation& acknowledged = acknowledged_[ack.shard];
    acknowledged = std::max(acknowledged, ack.generation);
  }
  return Status::Ok();
}

bool Membership::IsAcknowledged(Generation generation) const {
  if (generation == Generation()) {
    return true;
  }
  return acknowledged_.size() == shard_count_ &&
         std::all_of(acknowledged_.begin(), acknowledged_.end(), [&](const auto& entry) {
           return entry.second >= generation;
         });
}

Generation Membership::AcknowledgedBy(ShardId shard) const {
  const auto it = acknowledged_.find(shard);
  return it == acknowledged_.end() ? Generation() : it->second;
}

void Membership::Forget(Incarnation incarnation) {
  auto node = departures_.extract(incarnation);
  PS_CHECK(!node.empty() && node.mapped().is_resolved) << "incarnation " << incarnation;
  gone_.push_back({std::move(node.mapped().member), node.mapped().kind});
  if (gone_.size() > kGoneWorkersMax) {
    gone_.pop_front();
  }
}

Status Membership::Check() const {
  std::set<WorkerId> seats;
  for (const auto& [incarnation, member] : members_) {
    const auto seat = seats_.find(member.seat);
    if (!seats.insert(member.seat).second || seat == seats_.end() || seat->second != incarnation) {
      return Status::Corruption("seat " + std::to_string(member.seat.value) + " has two holders");
    }
    if (incarnation > incarnation_max_ || departures_.contains(incarnation) ||
        member.incarnation != incarnation || member.joined > generation_) {
      return Status::Corruption(
          "incarnation " + std::to_string(incarnation.value) + " makes no sense");
    }
  }
  for (const auto& [shard, generation] : acknowledged_) {
    if (shard.value >= shard_count_ || generation > generation_) {
      return Status::Corruption("shard " + std::to_string(shard.value) + " is ahead");
    }
  }
  return seats.size() == seats_.size() ? Status::Ok()
                                       : Status::Corruption("a seat has a holder that is gone");
}

}  // namespace ps::coordinator
