#include "ps/proto/membership.h"

#include <map>
#include <set>

namespace ps::proto {

void ApplyMembership(const Membership& later, Membership* all) {
  if (later.base == Generation()) {
    *all = later;
    return;
  }
  std::map<Incarnation, Member> members;
  for (const Member& member : all->members) {
    members[member.incarnation] = member;
  }
  for (const Member& member : later.members) {
    members[member.incarnation] = member;
  }
  std::set<Incarnation> resolve(all->resolve.begin(), all->resolve.end());
  for (const Incarnation incarnation : later.resolve) {
    members.erase(incarnation);
    resolve.insert(incarnation);
  }
  for (const Incarnation incarnation : later.forgotten) {
    members.erase(incarnation);
    resolve.erase(incarnation);
  }
  all->generation = later.generation;
  all->incarnation_max = later.incarnation_max;
  all->mode = later.mode;
  all->round = later.round;
  all->members.clear();
  for (const auto& [incarnation, member] : members) {
    all->members.push_back(member);
  }
  all->resolve.assign(resolve.begin(), resolve.end());
}

}  // namespace ps::proto
