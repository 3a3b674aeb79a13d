#include "ps/coordinator/state/seats.h"

#include <algorithm>
#include <utility>

#include "ps/base/check.h"

namespace ps::coordinator {
namespace {

constexpr uint32_t kNoGroup = UINT32_MAX;

}  // namespace

Seats::Seats(
    const proto::JobConfig& config,
    const std::vector<proto::FaultConfig>& faults,
    proto::SeatsState* state,
    TouchedRows* touched)
    : reference_minibatch_(std::max<uint32_t>(config.train.minibatch, 1)),
      default_group_(Resolve({})),
      faults_(faults),
      state_(state),
      touched_(touched),
      config_groups_(config.workers) {
  for (uint32_t place = 0; place < config_groups_.size(); ++place) {
    const proto::WorkerGroup& group = config_groups_[place];
    for (uint32_t i = 0; i < group.count && initial_ < kSeatsMax; ++i) {
      groups_[WorkerId(initial_++)] = Resolve(group);
      places_.push_back(place);
    }
  }
  for (const auto& [seat, group] : state_->scaled) {
    groups_[seat] = Resolve(config_groups_[group]);
    places_.resize(std::max<size_t>(places_.size(), seat.value + 1), kNoGroup);
    places_[seat.value] = group;
  }
  for (const auto& [seat, fault] : state_->added) {
    groups_[seat] = Resolve(faults_[fault].add);
  }
  state_->next = std::max(state_->next, initial_);
  for (uint32_t i = 0; i < state_->next; ++i) {
    NoteVacancy(WorkerId(i));
  }
}

proto::WorkerGroup Seats::Resolve(proto::WorkerGroup group) const {
  group.count = 1;
  group.minibatch = group.minibatch == 0 ? reference_minibatch_ : group.minibatch;
  return group;
}

const proto::WorkerGroup& Seats::GroupOf(WorkerId seat) const {
  const auto it = groups_.find(seat);
  return it == groups_.end() ? default_group_ : it->second;
}

std::optional<uint32_t> Seats::GroupPlaceOf(WorkerId seat) const {
  const uint32_t place = seat.value < places_.size() ? places_[seat.value] : kNoGroup;
  return place == kNoGroup ? std::nullopt : std::optional(place);
}

WorkerId Seats::AddScaled(uint32_t group) {
  PS_CHECK(state_->next < kSeatsMax && group < config_groups_.size());
  const WorkerId seat(state_->next++);
  groups_[seat] = Resolve(config_groups_[group]);
  state_->scaled[seat] = group;
  places_.resize(seat.value + 1, kNoGroup);
  places_[seat.value] = group;
  touched_->Mark(RowKind::kSeat, seat.value);
  NoteVacancy(seat);
  return seat;
}

WorkerId Seats::AddFresh(uint32_t fault) {
  PS_CHECK(state_->next < kSeatsMax && fault < faults_.size());
  const WorkerId seat(state_->next++);
  groups_[seat] = Resolve(faults_[fault].add);
  state_->added[seat] = fault;
  touched_->Mark(RowKind::kSeat, seat.value);
  NoteVacancy(seat);
  return seat;
}

void Seats::Open(WorkerId seat) {
  PS_CHECK(seat.value < kSeatsMax) << "seat " << seat;
  while (state_->next <= seat.value) {
    NoteVacancy(WorkerId(state_->next++));
  }
}

void Seats::NoteVacancy(WorkerId seat) {
  if (taken_.contains(seat) || IsExpected(seat)) {
    vacant_.erase(seat);
  } else {
    vacant_.insert(seat);
  }
}

LaunchId Seats::LaunchOf(WorkerId seat) const {
  const auto it = state_->launches.find(seat);
  return it == state_->launches.end() ? LaunchId() : it->second;
}

void Seats::NoteLaunch(WorkerId seat, LaunchId launch) {
  if (LaunchOf(seat) == launch) {
    return;
  }
  touched_->Mark(RowKind::kSeat, seat.value);
  if (launch == LaunchId()) {
    state_->launches.erase(seat);
  } else {
    state_->launches[seat] = launch;
  }
}

void Seats::Take(WorkerId seat, LaunchId launch) {
  NoteLaunch(seat, launch);
  taken_.insert(seat);
  if (state_->ends.erase(seat) != 0) {
    touched_->Mark(RowKind::kSeat, seat.value);
  }
  NoteVacancy(seat);
}

void Seats::Leave(WorkerId seat) {
  taken_.erase(seat);
  NoteVacancy(seat);
}

void Seats::NoteFailure(WorkerId seat, std::string why) {
  touched_->Mark(RowKind::kSeat, seat.value);
  state_->ends[seat] = std::move(why);
}

void Seats::ForgetFailures() {
  for (const auto& [seat, why] : state_->ends) {
    touched_->Mark(RowKind::kSeat, seat.value);
  }
  for (const auto& [seat, losses] : state_->fruitless) {
    touched_->Mark(RowKind::kSeat, seat.value);
  }
  state_->ends.clear();
  state_->fruitless.clear();
}

uint32_t Seats::NoteFruitless(WorkerId seat, const std::string& why) {
  std::string plain = why;
  std::erase_if(plain, [](char c) { return c >= '0' && c <= '9'; });
  touched_->Mark(RowKind::kSeat, seat.value);
  proto::FruitlessLosses& so_far = state_->fruitless[seat];
  so_far.times = so_far.why == plain ? so_far.times + 1 : 1;
  so_far.why = std::move(plain);
  return so_far.times;
}

void Seats::NoteStep(WorkerId seat) {
  if (state_->fruitless.erase(seat) != 0) {
    touched_->Mark(RowKind::kSeat, seat.value);
  }
}

std::optional<WorkerId> Seats::Vacant() const {
  return vacant_.empty() ? std::nullopt : std::optional(*vacant_.begin());
}

void Seats::Expect(WorkerId seat, LaunchId launch) {
  NoteLaunch(seat, launch);
  AddExpected(seat);
}

void Seats::AddExpected(WorkerId seat) {
  touched_->Mark(RowKind::kSeat, seat.value);
  state_->expected.insert(seat);
  state_->returning.erase(seat);
  cancelled_.erase(seat);
  state_->ends.erase(seat);
  NoteVacancy(seat);
}

void Seats::ExpectBack(WorkerId seat) {
  AddExpected(seat);
  state_->returning.insert(seat);
}

void Seats::StopExpecting(WorkerId seat) {
  if (state_->expected.erase(seat) != 0) {
    state_->returning.erase(seat);
    touched_->Mark(RowKind::kSeat, seat.value);
    NoteVacancy(seat);
  }
}

void Seats::Cancel(WorkerId seat) {
  StopExpecting(seat);
  if (LaunchOf(seat) != LaunchId()) {
    cancelled_.insert(seat);
  }
}

}  // namespace ps::coordinator
