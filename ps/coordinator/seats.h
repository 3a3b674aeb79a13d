#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "ps/base/ids.h"
#include "ps/proto/job_config.h"

namespace ps::coordinator {

inline constexpr uint32_t kSeatsMax = 4096;

/// The places for workers and what the config says of each. Seats of the config come first, in the
/// order of its groups; those of `add` faults and of workers started by hand follow.
class Seats {
 public:
  explicit Seats(const proto::JobConfig& config);

  /// The settings of a seat: count 1, minibatch resolved. Defaults for seats that nobody described.
  const proto::WorkerGroup& GroupOf(WorkerId seat) const;
  /// Takes the next fresh seat for a worker of `group`. Requires: size() < kSeatsMax.
  WorkerId AddFresh(const proto::WorkerGroup& group);
  /// Somebody asks for a seat that was not there. Requires: seat.value < kSeatsMax.
  void Open(WorkerId seat);

  uint32_t size() const { return next_; }

  /// Of the config's groups.
  uint32_t initial() const { return initial_; }

  /// Seats whose worker was started and has not asked for its first lease yet.
  void Expect(WorkerId seat) { expected_.insert(seat); }

  void StopExpecting(WorkerId seat) { expected_.erase(seat); }

  bool IsExpected(WorkerId seat) const { return expected_.contains(seat); }

  const std::set<WorkerId>& expected() const { return expected_; }

  /// Why a worker that was started never joined.
  void NoteEnd(WorkerId seat, std::string description) { ends_[seat] = std::move(description); }

  const std::map<WorkerId, std::string>& ends() const { return ends_; }

 private:
  proto::WorkerGroup Resolve(proto::WorkerGroup group) const;

  const uint32_t reference_minibatch_;
  const proto::WorkerGroup default_group_;
  std::map<WorkerId, proto::WorkerGroup> groups_;
  uint32_t next_ = 0;
  uint32_t initial_ = 0;
  std::set<WorkerId> expected_;
  std::map<WorkerId, std::string> ends_;
};

}  // namespace ps::coordinator
