#include "ps/coordinator/meters/bad_data_watch.h"

#include <algorithm>
#include <utility>

namespace ps::coordinator {
namespace {

constexpr size_t kPlacesMax = 64;

}  // namespace

void BadDataWatch::Note(WorkerId seat, const std::string& what) {
  auto it = std::ranges::find(places_, what, &Place::what);
  if (it == places_.end()) {
    if (places_.size() == kPlacesMax) {
      places_.erase(places_.begin());
    }
    places_.push_back({what, {}, 0});
  } else {
    std::rotate(it, it + 1, places_.end());
  }
  places_.back().seats.insert(seat);
  ++places_.back().times;
}

std::string BadDataWatch::FoundByMost(size_t seats) const {
  const auto it = std::ranges::find_if(places_, [seats](const Place& place) {
    return place.times >= kTimesMin && 2 * place.seats.size() > seats;
  });
  return it == places_.end() ? "" : it->what;
}

}  // namespace ps::coordinator
