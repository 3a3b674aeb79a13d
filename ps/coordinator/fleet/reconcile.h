#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/time.h"
#include "ps/coordinator/state/place_view.h"

namespace ps::coordinator {

/// The workers that there are to be, and what may be done about it now.
struct DesiredFleet {
  std::vector<uint32_t> workers;  // by group of the config
  bool may_start = false;         // those that are missing
  bool may_release = false;       // those that are too many
  uint32_t seats_max = 0;
  Duration join_timeout{};  // who was started and has not joined by then is given up
};

/// The seats of one group of the config, each in one list at most. One that is told to leave, or
/// belongs to a worker that is, is in none.
struct ObservedGroup {
  std::vector<WorkerId> coming;    // started, and has not joined; ascending, as all are
  std::vector<WorkerId> present;   // takes part
  std::set<WorkerId> sitting_out;  // of `present`: takes no part in the rounds
  std::vector<WorkerId> vacant;    // can be filled
  std::vector<PlaceKey> places;    // where its workers may be started

  size_t size() const { return coming.size() + present.size(); }
};

struct ObservedFleet {
  TimePoint now{};
  std::vector<ObservedGroup> groups;
  PlaceViews places;                      // all that the groups name
  std::map<WorkerId, TimePoint> awaited;  // was started and has not joined, since then
  uint32_t seats = 0;                     // of all groups and of none
  uint32_t starts_allowed = 0;            // at once, by the limit on their rate
};

/// The worker never came: its process is killed, and its place has failed.
struct GiveUp {
  WorkerId seat;
  Duration waited{};
  std::string why;
};

/// The worker was started, has not joined, and is too many: its process is killed.
struct Cancel {
  WorkerId seat;
};

/// The worker takes part and is too many: it is told to leave.
struct Release {
  WorkerId seat;
};

struct Start {
  uint32_t group = 0;
  std::optional<WorkerId> seat;  // none: a fresh one of the group
  PlaceKey place;
  std::string reason;
};

/// Workers are missing that can't be started now.
struct Wait {
  enum class For : uint8_t {
    kPlace,  // none of the group's places is ready
    kRate,   // as many were started at once as may be
    kSeat,   // there is none left, and none will come free by waiting
  };

  uint32_t group = 0;
  uint32_t missing = 0;
  For what = For::kPlace;
  PlaceWait place;  // kPlace
};

using FleetAction = std::variant<GiveUp, Cancel, Release, Start, Wait>;

/// What brings the fleet that is there nearer to the one that is wanted. A group is not left for
/// another one: each has its own workers. The actions are carried out in their order.
///
/// Who never came is given up first, alone: that changes what is observed of seats and places, so
/// the caller looks again and asks again.
///
/// Nothing is remembered from one step to the next. So a coordinator that was restarted, and knows
/// who takes part and who is awaited, starts nobody twice and forgets nobody.
std::vector<FleetAction> Reconcile(const DesiredFleet& desired, const ObservedFleet& observed);

}  // namespace ps::coordinator
