// One step from the fleet that is there to the one that is wanted.

#include "ps/coordinator/fleet/reconcile.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ps/base/overloaded.h"

namespace ps::coordinator {
namespace {

using std::chrono::seconds;
using testing::IsEmpty;

constexpr TimePoint kNow{seconds(1000)};
const PlaceKey kA{"spot", "a"};
const PlaceKey kB{"spot", "b"};

std::vector<WorkerId> SeatsOf(std::initializer_list<uint32_t> seats) {
  return {seats.begin(), seats.end()};
}

std::string ActionText(const FleetAction& action) {
  return std::visit(
      Overloaded{
          [](const GiveUp& a) { return fmt::format("give up {}", a.seat.value); },
          [](const Cancel& a) { return fmt::format("cancel {}", a.seat.value); },
          [](const Release& a) { return fmt::format("release {}", a.seat.value); },
          [](const Start& a) {
            const std::string seat = a.seat ? fmt::format("{}", a.seat->value) : "fresh";
            return fmt::format("{}: start {} in {}", a.group, seat, a.place.second);
          },
          [](const Wait& a) {
            constexpr const char* kFor[] = {"place", "rate", "seat"};
            return fmt::format(
                "{}: {} wait for a {}", a.group, a.missing, kFor[static_cast<size_t>(a.what)]);
          }},
      action);
}

std::vector<std::string> ActionsOf(const DesiredFleet& desired, const ObservedFleet& observed) {
  std::vector<std::string> texts;
  for (const FleetAction& action : Reconcile(desired, observed)) {
    texts.push_back(ActionText(action));
  }
  return texts;
}

/// Three workers of one group, in zones a and b, are there and wanted, and all may be done.
struct OneGroup {
  OneGroup() {
    desired.workers = {3};
    desired.may_start = true;
    desired.may_release = true;
    desired.seats_max = 100;
    desired.join_timeout = seconds(30);
    observed.now = kNow;
    observed.groups = {{{}, SeatsOf({0, 1, 2}), {}, {}, {kA, kB}}};
    observed.places = {{kA, {}}, {kB, {}}};
    observed.seats = 3;
    observed.starts_allowed = 100;
  }

  ObservedGroup& group() { return observed.groups[0]; }

  DesiredFleet desired;
  ObservedFleet observed;
};

struct ReconcileCase {
  const char* what;
  std::function<void(OneGroup*)> change;
  std::vector<std::string> actions;
};

void LeaveOut(PlaceView* place, Duration wait) {
  place->ready_at = kNow + wait;
  place->failures = PlaceView::kFailuresInARow;
}

const ReconcileCase kCases[] = {
    {"all are there", [](OneGroup*) {}, {}},
    {"one is lost, its seat is vacant",
     [](OneGroup* f) {
       f->group().present = SeatsOf({0, 2});
       f->group().vacant = SeatsOf({1});
     },
     {"0: start 1 in a"}},
    {"one is told to leave and has its seat yet",
     [](OneGroup* f) {
       f->group().present = SeatsOf({0, 1});
     },
     {"0: start fresh in a"}},
    {"one is on its way",
     [](OneGroup* f) {
       f->group().present = SeatsOf({0, 1});
       f->group().coming = SeatsOf({2});
     },
     {}},
    {"vacant seats before fresh ones, zones by turns",
     [](OneGroup* f) {
       f->desired.workers = {6};
       f->group().vacant = SeatsOf({4, 7});
       f->observed.places[kA].taken = 5;
       f->observed.places[kB].taken = 4;
     },
     {"0: start 4 in b", "0: start 7 in a", "0: start fresh in b"}},
    {"nobody may be started",
     [](OneGroup* f) {
       f->desired.workers = {6};
       f->desired.may_start = false;
     },
     {}},
    {"who has not joined goes first, then who sits out, then the highest seat",
     [](OneGroup* f) {
       f->desired.workers = {1};
       f->group().coming = SeatsOf({3, 4});
       f->group().sitting_out = {WorkerId(0)};
     },
     {"cancel 4", "cancel 3", "release 0", "release 2"}},
    {"nobody may be released",
     [](OneGroup* f) {
       f->desired.workers = {0};
       f->desired.may_release = false;
     },
     {}},
    {"a group that shrinks does not fill another one",
     [](OneGroup* f) {
       f->desired.workers = {2, 1};
       f->observed.groups.push_back(ObservedGroup{{}, {}, {}, SeatsOf({3}), {kB}});
     },
     {"release 2", "1: start 3 in b"}},
    {"as many at once as the rate allows, over all groups",
     [](OneGroup* f) {
       f->desired.workers = {5, 2};
       f->observed.starts_allowed = 3;
       f->observed.groups.push_back(ObservedGroup{{}, {}, {}, {}, {kA}});
     },
     {"0: start fresh in a", "0: start fresh in b", "1: start fresh in a", "1: 1 wait for a rate"}},
    {"no seat is left but the vacant one",
     [](OneGroup* f) {
       f->desired.workers = {6};
       f->desired.seats_max = 4;
       f->group().vacant = SeatsOf({3});
       f->observed.seats = 4;
     },
     {"0: start 3 in a", "0: 2 wait for a seat"}},
    {"fresh seats count",
     [](OneGroup* f) {
       f->desired.workers = {6};
       f->desired.seats_max = 4;
     },
     {"0: start fresh in a", "0: 2 wait for a seat"}},
    {"a zone is left out: the other one has all",
     [](OneGroup* f) {
       f->desired.workers = {5};
       LeaveOut(&f->observed.places[kA], seconds(60));
     },
     {"0: start fresh in b", "0: start fresh in b"}},
    {"a group whose places fail keeps no other one waiting",
     [](OneGroup* f) {
       f->desired.workers = {5, 1};
       LeaveOut(&f->observed.places[kA], seconds(60));
       f->group().places = {kA};
       f->observed.groups.push_back(ObservedGroup{{}, {}, {}, {}, {kB}});
     },
     {"0: 2 wait for a place", "1: start fresh in b"}},
    {"one worker is started to see whether a place is good again",
     [](OneGroup* f) {
       f->desired.workers = {6};
       LeaveOut(&f->observed.places[kA], seconds(0));
       f->group().places = {kA};
     },
     {"0: start fresh in a", "0: 2 wait for a place"}},
    {"who never came is given up, alone",
     [](OneGroup* f) {
       f->group().coming = SeatsOf({3, 4, 5});
       f->observed.awaited = {
           {WorkerId(3), kNow - seconds(30)},
           {WorkerId(4), kNow - seconds(29)},
           {WorkerId(5), kNow - seconds(31)}};
       f->desired.workers = {0};
     },
     {"give up 3", "give up 5"}},
};

TEST(ReconcileTest, EachStepBringsTheFleetNearerToWhatIsWanted) {
  for (const ReconcileCase& row : kCases) {
    OneGroup fleet;
    row.change(&fleet);
    EXPECT_EQ(ActionsOf(fleet.desired, fleet.observed), row.actions) << row.what;
  }
}

TEST(ReconcileTest, ActionsSayWhy) {
  OneGroup fleet;
  fleet.desired.workers = {5};
  LeaveOut(&fleet.observed.places[kA], seconds(60));
  LeaveOut(&fleet.observed.places[kB], seconds(0));
  fleet.observed.places[kA].why = "no machine";
  const std::vector<FleetAction> actions = Reconcile(fleet.desired, fleet.observed);
  ASSERT_EQ(actions.size(), 2U);
  EXPECT_EQ(std::get<Start>(actions[0]).reason, "5 are wanted, 3 are there or on the way");
  const PlaceWait& wait = std::get<Wait>(actions[1]).place;
  EXPECT_TRUE(wait.is_left_out);
  EXPECT_EQ(wait.wait, seconds(30)) << "zone b is tried until its worker must have joined";
  EXPECT_THAT(wait.why, testing::HasSubstr("zone a: 3 starts came to nothing: no machine"));
  fleet.observed.awaited = {{WorkerId(7), kNow - seconds(30)}};
  EXPECT_EQ(
      std::get<GiveUp>(Reconcile(fleet.desired, fleet.observed).at(0)).why,
      "no worker came within 30 s (fleet.join_timeout_s)");
}

/// From any fleet, when every start comes and every release leaves: so many as are wanted, and then
/// nothing more is done. A coordinator that is restarted between two steps knows no less.
TEST(ReconcileTest, RepeatedStepsEndWithTheWantedFleetAndNobodyTwice) {
  for (uint32_t wanted = 0; wanted < 8; ++wanted) {
    OneGroup fleet;
    fleet.desired.workers = {wanted};
    fleet.observed.starts_allowed = 2;
    fleet.group().vacant = SeatsOf({3});
    fleet.observed.seats = 4;
    for (int step = 0; step < 4; ++step) {
      ObservedGroup& group = fleet.group();
      for (const FleetAction& action : Reconcile(fleet.desired, fleet.observed)) {
        if (const auto* start = std::get_if<Start>(&action)) {
          std::erase(group.vacant, start->seat.value_or(WorkerId(UINT32_MAX)));
          group.coming.push_back(start->seat ? *start->seat : WorkerId(fleet.observed.seats++));
        } else if (const auto* release = std::get_if<Release>(&action)) {
          std::erase(group.present, release->seat);
        } else if (const auto* cancel = std::get_if<Cancel>(&action)) {
          std::erase(group.coming, cancel->seat);
        }
      }
    }
    EXPECT_EQ(fleet.group().size(), wanted);
    EXPECT_THAT(ActionsOf(fleet.desired, fleet.observed), IsEmpty());
  }
}

}  // namespace
}  // namespace ps::coordinator
