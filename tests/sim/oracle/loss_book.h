#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/ids.h"
#include "ps/proto/state/job_state.h"

namespace ps::sim {

using StepId = std::pair<Incarnation, Step>;

/// Calls `visit(incarnation, steps)` for all who have taken part: their first steps are counted.
template <typename Visit>
void ForEachCounted(const proto::JobState& job, const Visit& visit) {
  for (const auto& [incarnation, member] : job.membership.members) {
    visit(incarnation, member.reported);
  }
  for (const auto& [incarnation, departure] : job.membership.departures) {
    visit(incarnation, departure.member.reported);
  }
  for (const proto::GoneWorker& gone : job.membership.gone) {
    visit(gone.member.incarnation, gone.member.reported);
  }
}

/// Which counted steps the coordinator reports as undone, loss by loss: with a server's life just
/// those that were counted since the checkpoint which its next life begins from; later those that
/// are counted although an earlier life had them; where all servers go back, those that do not
/// count any more.
class LossBook {
 public:
  /// `violations` outlives it.
  LossBook(uint32_t shards_per_server, std::vector<std::string>* violations)
      : shards_per_server_(shards_per_server), violations_(violations) {}

  /// The checkpoint exists; `job` is what it has of the coordinator.
  void OnCheckpoint(uint64_t checkpoint, const proto::JobState& job);
  /// The coordinator has dealt with something. `undone`: what it reports, as
  /// job.checkpoints.steps_undone.
  void AfterEvent(const proto::JobState& job, uint64_t undone);

  /// The run is gone on with from the checkpoint, by other processes. `incarnation_max`: of those
  /// who had taken part until it was opened; later ones never were.
  void OnResume(uint64_t checkpoint, Incarnation incarnation_max);

  using Counted = std::map<Incarnation, Step>;

  /// What counts of runs that this one goes on with: a job that is resumed has forgotten who made
  /// it.
  const Counted& inherited() const { return inherited_; }

  bool IsUndone(const StepId& id) const { return undone_.contains(id); }

 private:
  struct Kept {
    Counted counted;
    uint64_t total = 0;  // with those of workers that went so long ago that nobody knows them
  };

  struct Shard {
    uint64_t life = 0;
    bool is_ready = false;
    uint64_t restored = 0;  // the checkpoint that its life begins from
  };

  Counted CountedBy(const proto::JobState& job) const;
  void NoteLosses(const proto::JobState& job, uint64_t undone);
  void NoteLate(const Counted& counted, uint64_t undone);
  void NoteReturn(const proto::JobState& job, uint64_t undone);
  void Undo(uint64_t checkpoint);
  StepId NewestOf(uint64_t checkpoint, uint64_t older);
  uint64_t CountedAt(uint64_t checkpoint) const;

  const uint32_t shards_per_server_;
  std::vector<std::string>* const violations_;
  std::map<uint64_t, Kept> checkpoints_;
  std::set<StepId> undone_;
  Counted inherited_;
  uint64_t resumed_ = 0;  // the checkpoint that it is of
  // After the newest event.
  Counted counted_;
  uint64_t total_ = 0;
  uint64_t reported_ = 0;
  uint64_t rollbacks_ = 0;
  std::vector<Shard> shards_;
};

}  // namespace ps::sim
