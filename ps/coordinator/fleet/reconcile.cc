#include "ps/coordinator/fleet/reconcile.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace ps::coordinator {
namespace {

std::vector<FleetAction> GiveUpAbsent(const DesiredFleet& desired, const ObservedFleet& observed) {
  std::vector<FleetAction> actions;
  for (const auto& [seat, since] : observed.awaited) {
    if (observed.now - since >= desired.join_timeout) {
      actions.emplace_back(GiveUp{
          seat,
          desired.join_timeout,
          fmt::format(
              "no worker came within {:g} s (fleet.join_timeout_s)",
              Seconds(desired.join_timeout))});
    }
  }
  return actions;
}

/// Those who have not joined go first, then those who sit out of the rounds, then the highest
/// seats: the first ones stay.
void LetGo(const ObservedGroup& group, size_t surplus, std::vector<FleetAction>* actions) {
  for (auto it = group.coming.rbegin(); it != group.coming.rend() && surplus > 0; ++it) {
    actions->emplace_back(Cancel{*it});
    --surplus;
  }
  std::vector<WorkerId> present = group.present;
  std::ranges::sort(present, {}, [&](WorkerId seat) {
    return std::pair(group.sitting_out.contains(seat), seat);
  });
  for (auto it = present.rbegin(); it != present.rend() && surplus > 0; ++it) {
    actions->emplace_back(Release{*it});
    --surplus;
  }
}

/// What the starts of one step leave to those that follow in it.
class Starts {
 public:
  Starts(const DesiredFleet& desired, const ObservedFleet& observed)
      : desired_(desired),
        now_(observed.now),
        places_(observed.places),
        seats_(observed.seats),
        left_(observed.starts_allowed) {
    for (const auto& [key, place] : places_) {
      starts_ = std::max(starts_, place.taken);
    }
  }

  void Fill(uint32_t group, const ObservedGroup& seats, std::vector<FleetAction>* actions) {
    const uint32_t wanted = desired_.workers[group];
    for (size_t there = seats.size(); there < wanted; ++there) {
      const size_t used = there - seats.size();
      const bool is_vacant = used < seats.vacant.size();
      Wait wait{group, wanted - static_cast<uint32_t>(there), Wait::For::kPlace, {}};
      if (!MayStart(is_vacant, seats.places, &wait)) {
        actions->emplace_back(std::move(wait));
        return;
      }
      const PlaceKey& place = Take(seats.places);
      seats_ += is_vacant ? 0 : 1;
      actions->emplace_back(Start{
          group,
          is_vacant ? std::optional(seats.vacant[used]) : std::nullopt,
          place,
          fmt::format("{} are wanted, {} are there or on the way", wanted, there)});
    }
  }

 private:
  bool MayStart(bool is_vacant, const std::vector<PlaceKey>& keys, Wait* wait) const {
    if (!is_vacant && seats_ >= desired_.seats_max) {
      wait->what = Wait::For::kSeat;
      return false;
    }
    if (std::optional<PlaceWait> place = WaitOf(keys, places_, now_)) {
      wait->what = Wait::For::kPlace;
      wait->place = *std::move(place);
      return false;
    }
    wait->what = Wait::For::kRate;
    return left_ > 0;
  }

  const PlaceKey& Take(const std::vector<PlaceKey>& keys) {
    const PlaceKey& key = ChoosePlace(keys, places_, now_);
    PlaceView& place = places_.at(key);
    place.taken = ++starts_;
    if (place.is_doubtful()) {
      place.ready_at = std::max(place.ready_at, now_ + desired_.join_timeout);
    }
    --left_;
    return key;
  }

  const DesiredFleet& desired_;
  const TimePoint now_;
  PlaceViews places_;
  uint32_t seats_;
  uint32_t left_;
  uint64_t starts_ = 0;
};

}  // namespace

std::vector<FleetAction> Reconcile(const DesiredFleet& desired, const ObservedFleet& observed) {
  std::vector<FleetAction> actions = GiveUpAbsent(desired, observed);
  if (!actions.empty()) {
    return actions;
  }
  for (uint32_t group = 0; desired.may_release && group < observed.groups.size(); ++group) {
    const ObservedGroup& seats = observed.groups[group];
    LetGo(seats, seats.size() - std::min<size_t>(seats.size(), desired.workers[group]), &actions);
  }
  Starts starts(desired, observed);
  for (uint32_t group = 0; desired.may_start && group < observed.groups.size(); ++group) {
    starts.Fill(group, observed.groups[group], &actions);
  }
  return actions;
}

}  // namespace ps::coordinator
