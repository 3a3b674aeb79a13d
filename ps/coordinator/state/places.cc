#include "ps/coordinator/state/places.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace ps::coordinator {
namespace {

/// Capacity comes back by itself, and to ask for it costs nothing.
constexpr Duration kNoCapacityFirst = std::chrono::minutes(1);
constexpr Duration kNoCapacityLimit = std::chrono::minutes(10);
/// A program has to be mended, and who mends it can say so by psctl scale.
constexpr Duration kFailingFirst = std::chrono::minutes(10);
constexpr Duration kFailingLimit = std::chrono::hours(4);
constexpr uint32_t kDoublingsMax = 8;

constexpr size_t kWhyBytesMax = 200;

/// "g4dn in zone a"
std::string NameOf(const std::string& type, const std::string& zone) {
  return zone.empty() ? type : type + " in zone " + zone;
}

}  // namespace

Places::Places(
    const proto::JobConfig& config, std::vector<proto::PlaceRecord>* records, Events* events)
    : config_(config), records_(records), events_(events) {}

void Places::SetBegin(TimePoint began_at) {
  began_at_ = began_at;
  for (const proto::PlaceRecord& record : *records_) {
    Place& place = places_[{record.type, record.zone}];
    place.failures = record.failures;
    place.times_left_out = record.times_left_out;
    place.is_program = record.is_program;
    place.left_out_until =
        record.left_out_until == Duration::zero() ? TimePoint() : began_at + record.left_out_until;
    place.why = record.why;
  }
}

void Places::Keep(const PlaceKey& key, const Place& place) {
  const auto key_of = [](const proto::PlaceRecord& record) {
    return std::pair(std::string_view(record.type), std::string_view(record.zone));
  };
  const std::pair<std::string_view, std::string_view> wanted = key;
  const auto at = std::ranges::lower_bound(*records_, wanted, {}, key_of);
  const bool is_known = at != records_->end() && key_of(*at) == wanted;
  if (place.failures == 0) {
    if (is_known) {
      records_->erase(at);
    }
    return;
  }
  const auto record = is_known ? at : records_->insert(at, proto::PlaceRecord());
  record->type = key.first;
  record->zone = key.second;
  record->failures = place.failures;
  record->times_left_out = place.times_left_out;
  record->is_program = place.is_program;
  record->left_out_until = std::max(Duration::zero(), place.left_out_until - began_at_);
  record->why = place.why;
}

/// All that the job knows of: for ssh those of its hosts.
std::vector<std::string> Places::ZonesOf(const proto::WorkerGroup& group) const {
  if (!group.zones.empty()) {
    return group.zones;
  }
  std::vector<std::string> zones;
  const auto add = [&](const std::string& zone) {
    if (std::ranges::find(zones, zone) == zones.end()) {
      zones.push_back(zone);
    }
  };
  for (const proto::ZoneConfig& zone : config_.launch.zones) {
    add(zone.name);
  }
  for (const proto::HostConfig& host : config_.launch.hosts) {
    add(host.zone);
  }
  return zones.empty() ? std::vector<std::string>{""} : zones;
}

std::vector<PlaceKey> Places::KeysOf(const proto::WorkerGroup& group) const {
  std::vector<PlaceKey> keys;
  for (std::string& zone : ZonesOf(group)) {
    keys.emplace_back(group.type, std::move(zone));
  }
  return keys;
}

void Places::AddTo(PlaceViews* views, const std::vector<PlaceKey>& keys) const {
  for (const PlaceKey& key : keys) {
    const auto it = places_.find(key);
    if (it == places_.end()) {
      views->try_emplace(key);
      continue;
    }
    const Place& place = it->second;
    const TimePoint ready_at =
        std::max({place.pace.ready_at(), place.left_out_until, place.probed_until});
    views->insert_or_assign(key, PlaceView{ready_at, place.taken, place.failures, place.why});
  }
}

std::string Places::Take(WorkerId seat, const proto::WorkerGroup& group, TimePoint now) {
  const std::vector<PlaceKey> keys = KeysOf(group);
  PlaceViews views;
  AddTo(&views, keys);
  const PlaceKey& key = ChoosePlace(keys, views, now);
  Take(seat, key, now);
  return key.second;
}

void Places::Take(WorkerId seat, const PlaceKey& key, TimePoint now) {
  Place& place = places_[key];
  place.taken = ++starts_;
  if (place.failures >= PlaceView::kFailuresInARow) {
    place.probed_until = now + FromSeconds(static_cast<double>(config_.fleet.join_timeout_s));
  }
  started_[seat] = {key, place.pass};
}

void Places::Adopt(WorkerId seat, const proto::WorkerGroup& group) {
  if (const std::vector<PlaceKey> keys = KeysOf(group); keys.size() == 1) {
    started_[seat] = {keys[0], places_[keys[0]].pass};
  }
}

void Places::EndPass(const std::set<PlaceKey>& places, TimePoint now, Random* random) {
  for (const PlaceKey& key : places) {
    Place& place = places_[key];
    place.pace.NoteStart(now, random);
    ++place.pass;
  }
}

void Places::NoteStep(WorkerId seat) {
  const auto it = started_.find(seat);
  if (it == started_.end()) {
    return;
  }
  Place& place = places_.at(it->second.key);
  place.failures = 0;
  place.times_left_out = 0;
  place.left_out_until = {};
  place.probed_until = {};
  Keep(it->second.key, place);
}

/// One fault of a place, or of what starts programs there, may end all that were started together.
void Places::NoteFailure(WorkerId seat, Cause cause, const std::string& why, TimePoint now) {
  const auto it = started_.find(seat);
  if (it == started_.end()) {
    return;
  }
  const Started started = std::move(it->second);
  started_.erase(it);
  Place& place = places_.at(started.key);
  if (now < place.left_out_until || started.pass <= place.failed_pass) {
    return;
  }
  place.failed_pass = started.pass;
  ++place.failures;
  place.is_program = cause == Cause::kProgram;
  place.probed_until = {};
  place.why = why.substr(0, kWhyBytesMax);
  if (place.failures >= PlaceView::kFailuresInARow) {
    LeaveOut(started.key, &place, now);
  }
  Keep(started.key, place);
}

void Places::LeaveOut(const PlaceKey& key, Place* place, TimePoint now) {
  const Duration first = place->is_program ? kFailingFirst : kNoCapacityFirst;
  const Duration limit = place->is_program ? kFailingLimit : kNoCapacityLimit;
  const Duration wait =
      std::min(limit, first * (1 << std::min(place->times_left_out, kDoublingsMax)));
  ++place->times_left_out;
  place->left_out_until = now + wait;
  events_->Tell(
      proto::EventCode::kTypeLeftOut,
      {{"type", NameOf(key.first, key.second)},
       {"seconds", Seconds(wait)},
       {"failures", place->failures},
       {"why", place->why}});
}

void Places::NoteFree(WorkerId seat, TimePoint now) {
  const auto it = started_.find(seat);
  if (it == started_.end()) {
    return;
  }
  const PlaceKey key = it->second.key;
  Place& place = places_.at(key);
  started_.erase(it);
  if (!place.is_program) {
    place.left_out_until = std::min(place.left_out_until, now);
    place.probed_until = std::min(place.probed_until, now);
    Keep(key, place);
  }
}

void Places::Forget() {
  places_.clear();
  started_.clear();
  records_->clear();
}

std::optional<PlaceWait> Places::WaitOf(const proto::WorkerGroup& group, TimePoint now) const {
  const std::vector<PlaceKey> keys = KeysOf(group);
  PlaceViews views;
  AddTo(&views, keys);
  return coordinator::WaitOf(keys, views, now);
}

bool Places::HaveFailedEverywhere(const proto::WorkerGroup& group, TimePoint now) const {
  return std::ranges::all_of(KeysOf(group), [&](const PlaceKey& key) {
    const auto it = places_.find(key);
    return it != places_.end() && it->second.is_program && now < it->second.left_out_until;
  });
}

double StartLimit::LeftAt(TimePoint now) const {
  // At least one at once, or a rate below 1 would never let one go.
  return std::min(std::max(per_second_, 1.0), left_ + Seconds(now - last_) * per_second_);
}

uint32_t StartLimit::Allowed(TimePoint now) const {
  return per_second_ <= 0 ? UINT32_MAX : static_cast<uint32_t>(LeftAt(now));
}

void StartLimit::Take(uint32_t starts, TimePoint now) {
  if (per_second_ > 0) {
    left_ = LeftAt(now) - starts;
    last_ = now;
  }
}

}  // namespace ps::coordinator
