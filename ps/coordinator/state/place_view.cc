#include "ps/coordinator/state/place_view.h"

#include <fmt/core.h>

#include <algorithm>

#include "ps/base/text.h"

namespace ps::coordinator {

std::optional<PlaceWait> WaitOf(
    const std::vector<PlaceKey>& keys, const PlaceViews& views, TimePoint now) {
  PlaceWait wait;
  wait.is_left_out = true;
  std::optional<TimePoint> first;
  for (const PlaceKey& key : keys) {
    const PlaceView& place = views.at(key);
    if (place.ready_at <= now) {
      return std::nullopt;
    }
    first = std::min(first.value_or(place.ready_at), place.ready_at);
    wait.is_left_out = wait.is_left_out && place.is_doubtful();
    wait.why += fmt::format(
        "{}{}{}",
        wait.why.empty() ? "" : "; ",
        key.second.empty() ? "" : "zone " + key.second + ": ",
        place.failures == 0
            ? "one was started moments ago"
            : fmt::format("{} came to nothing: {}", Plural(place.failures, "start"), place.why));
  }
  wait.wait = first.value_or(now) - now;
  return wait;
}

const PlaceKey& ChoosePlace(
    const std::vector<PlaceKey>& keys, const PlaceViews& views, TimePoint now) {
  return *std::ranges::min_element(keys, {}, [&](const PlaceKey& key) {
    const PlaceView& place = views.at(key);
    return std::pair(std::max(place.ready_at, now), place.taken);
  });
}

}  // namespace ps::coordinator
