#include "ps/server/roster.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ps/proto/membership.h"

namespace ps::server {

proto::Membership Roster::Merge(const proto::Membership& later) const {
  proto::Membership all;
  for (const auto& [incarnation, member] : members_) {
    all.members.push_back({member.worker, incarnation, member.is_active});
  }
  all.resolve = resolve_;
  proto::ApplyMembership(later, &all);
  return all;
}

std::optional<Roster::Change> Roster::Update(const proto::Membership& later, bool has_chunks) {
  if (later.generation <= generation_) {
    return std::nullopt;
  }
  const proto::Membership membership = Merge(later);
  generation_ = membership.generation;
  incarnation_max_ = std::max(incarnation_max_, membership.incarnation_max);
  resolve_ = membership.resolve;
  floor_ = std::max(floor_, SlowestActive().value_or(0));

  std::vector<Incarnation> were_active;
  for (const auto& [incarnation, member] : members_) {
    if (member.is_active) {
      were_active.push_back(incarnation);
    }
  }
  std::map<Incarnation, Member> next;
  for (const proto::Member& listed : membership.members) {
    incarnation_max_ = std::max(incarnation_max_, listed.incarnation);
    auto node = members_.extract(listed.incarnation);
    Member& member = next[listed.incarnation];
    if (!node.empty()) {
      member = std::move(node.mapped());
    }
    member.worker = listed.worker;
    member.incarnation = listed.incarnation;
    member.is_active = listed.is_active;
  }
  std::swap(members_, next);  // what is left in `next` is not listed any more
  LevelClocks(were_active);
  CountClocks();

  Change change;
  for (auto& [incarnation, member] : next) {
    const Step last_step = has_chunks ? member.last_step : proto::kEveryStep;
    fenced_[incarnation] = {incarnation, last_step, member.last_outcome};
    change.fenced.push_back(std::move(member));
  }
  for (const Incarnation incarnation : resolve_) {
    // Never a member here.
    const Step last_step = has_chunks ? 0 : proto::kEveryStep;
    fenced_.try_emplace(
        incarnation,
        proto::MembershipAck::Resolved{incarnation, last_step, proto::PushOutcome::kApplied});
  }
  const std::set<Incarnation> asked_for(resolve_.begin(), resolve_.end());
  std::erase_if(fenced_, [&](const auto& entry) {
    const bool is_forgotten = !asked_for.contains(entry.first);
    if (is_forgotten) {
      change.forgotten.push_back(entry.first);
    }
    return is_forgotten;
  });
  return change;
}

std::optional<uint64_t> Roster::SlowestActive() const {
  return active_clocks_.empty() ? std::nullopt : std::optional(active_clocks_.begin()->first);
}

void Roster::CountClocks() {
  active_clocks_.clear();
  for (const auto& [incarnation, member] : members_) {
    if (member.is_active) {
      ++active_clocks_[member.clock];
    }
  }
}

void Roster::Level() {
  for (const auto& [incarnation, member] : members_) {
    floor_ = std::max(floor_, member.clock);
  }
  for (auto& [incarnation, member] : members_) {
    member.clock = floor_;
  }
  CountClocks();
}

void Roster::SetClocks(const std::map<Incarnation, Clock>& clocks) {
  std::optional<uint64_t> slowest;
  std::optional<uint64_t> slowest_of_all;
  std::set<Incarnation> were_active;
  for (auto& [incarnation, member] : members_) {
    const auto there = clocks.find(incarnation);
    if (there == clocks.end()) {
      member.clock = 0;
      continue;
    }
    member.clock = there->second.clock;
    slowest_of_all = std::min(slowest_of_all.value_or(member.clock), member.clock);
    if (member.is_active && there->second.is_active) {
      were_active.insert(incarnation);
      slowest = std::min(slowest.value_or(member.clock), member.clock);
    }
  }
  floor_ = slowest.value_or(slowest_of_all.value_or(0));
  for (auto& [incarnation, member] : members_) {
    if (member.is_active && !were_active.contains(incarnation)) {
      member.clock = std::max(member.clock, floor_);
    }
  }
  CountClocks();
}

bool Roster::Advance(Member* member) {
  const uint64_t clock = member->clock++;
  if (!member->is_active) {
    return false;
  }
  ++active_clocks_[clock + 1];
  const auto left = active_clocks_.find(clock);
  if (--left->second > 0) {
    return false;
  }
  const bool was_slowest = left == active_clocks_.begin();
  active_clocks_.erase(left);
  return was_slowest;
}

/// Who becomes active starts level with the slowest of those that were active before and still are:
/// it neither holds them back for steps it was not there to make, nor runs far ahead. When none of
/// them still is, it starts where the slowest of them was: an answer that they have been promised
/// may still be on its way.
void Roster::LevelClocks(const std::vector<Incarnation>& were_active) {
  std::optional<uint64_t> slowest;
  for (const Incarnation incarnation : were_active) {
    const Member* const member = Find(incarnation);
    if (member != nullptr && member->is_active) {
      slowest = slowest ? std::min(*slowest, member->clock) : member->clock;
    }
  }
  floor_ = std::max(floor_, slowest.value_or(0));
  for (auto& [incarnation, member] : members_) {
    const bool was_active = std::binary_search(were_active.begin(), were_active.end(), incarnation);
    if (member.is_active && !was_active) {
      member.clock = std::max(member.clock, floor_);
    }
  }
}

Member* Roster::Find(Incarnation incarnation) {
  const auto it = members_.find(incarnation);
  return it == members_.end() ? nullptr : &it->second;
}

Result<Member*> Roster::Admit(WorkerId worker, Incarnation incarnation) {
  if (Member* const member = Find(incarnation); member != nullptr) {
    if (member->worker != worker) {
      return Status::InvalidArgument(fmt::format(
          "incarnation {} is worker {}, not {}",
          incarnation.value,
          member->worker.value,
          worker.value));
    }
    return member;
  }
  if (incarnation == Incarnation()) {
    return Status::InvalidArgument("incarnation 0 is nobody; join first");
  }
  if (incarnation > incarnation_max_) {
    return Status::Unavailable(fmt::format(
        "incarnation {} is newer than membership {}; the next one may list it",
        incarnation.value,
        generation_.value));
  }
  return Status::Stale(fmt::format(
      "incarnation {} is fenced: membership {} does not list it; join anew",
      incarnation.value,
      generation_.value));
}

std::vector<proto::MembershipAck::Resolved> Roster::Resolved() const {
  std::vector<proto::MembershipAck::Resolved> resolved;
  for (const Incarnation incarnation : resolve_) {
    resolved.push_back(fenced_.at(incarnation));
  }
  return resolved;
}

uint64_t Roster::LeadOf(const Member& member) const {
  return member.clock - std::min(member.clock, SlowestActive().value_or(floor_));
}

}  // namespace ps::server
