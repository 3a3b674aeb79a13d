#include "ps/coordinator/seats.h"

#include <algorithm>

#include "ps/base/check.h"

namespace ps::coordinator {

Seats::Seats(const proto::JobConfig& config)
    : reference_minibatch_(std::max<uint32_t>(config.train.minibatch, 1)),
      default_group_(Resolve({})) {
  for (const proto::WorkerGroup& group : config.workers) {
    for (uint32_t i = 0; i < group.count && next_ < kSeatsMax; ++i) {
      AddFresh(group);
    }
  }
  initial_ = next_;
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

WorkerId Seats::AddFresh(const proto::WorkerGroup& group) {
  PS_CHECK(next_ < kSeatsMax);
  const WorkerId seat(next_++);
  groups_[seat] = Resolve(group);
  return seat;
}

void Seats::Open(WorkerId seat) {
  PS_CHECK(seat.value < kSeatsMax) << "seat " << seat;
  next_ = std::max(next_, seat.value + 1);
}

}  // namespace ps::coordinator
