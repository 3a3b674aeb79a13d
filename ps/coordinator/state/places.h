#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/random.h"
#include "ps/base/time.h"
#include "ps/coordinator/state/events.h"
#include "ps/coordinator/state/place_view.h"
#include "ps/coordinator/state/start_pace.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/state/job_state.h"

namespace ps::coordinator {

/// Where workers are started. A place is a type of machine in a zone: one type may be short, or its
/// workers fail, where another does well. Workers of a group take the zones by turns. Whose workers
/// are lost again and again is used less and less often, and a place where none can be started, or
/// none gets to a step, is left out for a while, then tried with one worker at a time.
///
/// What is left out, and why, is part of the job's state: a coordinator that goes on knows it. When
/// a place was last used is known to this process alone.
class Places {
 public:
  /// Why a worker that was started never trained.
  enum class Cause : uint8_t {
    kPlace,    // no machine was free, or none came: another place may do better, or a later time
    kProgram,  // it ended by itself with an error: it would do so everywhere, until it is mended
  };

  /// Goes on from `records`, and keeps there what it has to; all outlive it.
  Places(const proto::JobConfig& config, std::vector<proto::PlaceRecord>* records, Events* events);

  /// The job began then: times of the records are its age. Called before anything is asked or told.
  void SetBegin(TimePoint began_at);

  /// Where workers of the group may be started; at least one.
  std::vector<PlaceKey> KeysOf(const proto::WorkerGroup& group) const;
  /// Adds what is known of `keys` to `views`.
  void AddTo(PlaceViews* views, const std::vector<PlaceKey>& keys) const;

  /// The seat's new worker is started there.
  void Take(WorkerId seat, const PlaceKey& key, TimePoint now);
  /// The same in the place that ChoosePlace says. Returns the zone.
  std::string Take(WorkerId seat, const proto::WorkerGroup& group, TimePoint now);
  /// An earlier process has started the seat's worker, or may have: where is known if the group has
  /// one place.
  void Adopt(WorkerId seat, const proto::WorkerGroup& group);
  /// All workers that were missing are started, in `places`, where the next ones wait a while.
  void EndPass(const std::set<PlaceKey>& places, TimePoint now, Random* random);

  /// The seat's worker has trained.
  void NoteStep(WorkerId seat);
  /// The seat's worker never did. Nothing happens when it is not known where it was started.
  void NoteFailure(WorkerId seat, Cause cause, const std::string& why, TimePoint now);
  /// The seat's worker has ended otherwise, and a machine may be free.
  void NoteFree(WorkerId seat, TimePoint now);
  /// Whoever asks may have mended it: every place is ready.
  void Forget();

  /// Until a worker of the group may be started, and why not before; nothing: one may be now.
  std::optional<PlaceWait> WaitOf(const proto::WorkerGroup& group, TimePoint now) const;
  /// Workers of the group failed by themselves, wherever they were started.
  bool HaveFailedEverywhere(const proto::WorkerGroup& group, TimePoint now) const;

 private:
  struct Place {
    StartPace pace;            // of the passes
    uint64_t taken = 0;        // the number of its last start
    uint64_t pass = 1;         // the one under way
    uint64_t failed_pass = 0;  // the last one that counts as a failure of the place
    uint32_t failures = 0;     // in a row
    uint32_t times_left_out = 0;
    bool is_program = false;  // the last failure
    TimePoint left_out_until{};
    TimePoint probed_until{};  // one worker was started, to see
    std::string why;
  };

  struct Started {
    PlaceKey key;
    uint64_t pass = 0;
  };

  std::vector<std::string> ZonesOf(const proto::WorkerGroup& group) const;
  /// The record follows the place.
  void Keep(const PlaceKey& key, const Place& place);
  void LeaveOut(const PlaceKey& key, Place* place, TimePoint now);

  const proto::JobConfig& config_;
  std::vector<proto::PlaceRecord>* const records_;
  Events* const events_;
  std::map<PlaceKey, Place> places_;  // that were ever taken
  std::map<WorkerId, Started> started_;
  uint64_t starts_ = 0;
  TimePoint began_at_{};
};

/// How many workers may be started: so many per second, and a second's at once. 0: any number.
class StartLimit {
 public:
  explicit StartLimit(double per_second) : per_second_(per_second), left_(per_second) {}

  /// So many may be started now.
  uint32_t Allowed(TimePoint now) const;
  /// So many are started. Requires: at most Allowed(now).
  void Take(uint32_t starts, TimePoint now);

 private:
  double LeftAt(TimePoint now) const;

  const double per_second_;
  double left_;
  TimePoint last_{};
};

}  // namespace ps::coordinator
