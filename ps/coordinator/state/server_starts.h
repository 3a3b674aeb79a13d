#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/random.h"
#include "ps/base/time.h"
#include "ps/coordinator/state/start_pace.h"

namespace ps::coordinator {

/// When processes of servers are started again. What ends one after the other may pass, so those
/// that follow the first one that was started again wait longer and longer (StartPace). Another
/// coordinator is told by ShardRecord, and goes on with the waits.
class ServerStarts {
 public:
  struct Planned {
    TimePoint at{};
    std::string why;  // another process is needed
  };

  /// Another process is to be started for the server. Returns when: TakeDue gives it from then on.
  TimePoint Plan(uint32_t server, std::string why, TimePoint now) {
    Starts& starts = servers_[server];
    const TimePoint at = std::max(now, starts.pace.ready_at());
    starts.planned = Planned{at, std::move(why)};
    return at;
  }

  /// Another process has started the server `restarts` times and, with `at`, has planned the last
  /// of these starts.
  void Recall(
      uint32_t server,
      uint32_t restarts,
      std::optional<TimePoint> at,
      TimePoint now,
      Random* random) {
    Starts& starts = servers_[server];
    starts.started_at = now;
    starts.pace.Recall(restarts - (at && restarts > 0 ? 1 : 0), now, random);
    if (at) {
      starts.planned = Planned{*at, "it was lost before the coordinator was restarted"};
    }
  }

  /// A process has come for the server: none is needed.
  void Cancel(uint32_t server) { servers_[server].planned.reset(); }

  /// The servers to start now, ascending; they count as started.
  std::vector<uint32_t> TakeDue(TimePoint now, Random* random) {
    std::vector<uint32_t> due;
    for (auto& [server, starts] : servers_) {
      if (starts.planned && starts.planned->at <= now) {
        starts.planned.reset();
        if (std::exchange(starts.started_at, now)) {
          starts.pace.NoteStart(now, random);
        }
        due.push_back(server);
      }
    }
    return due;
  }

  /// The server has worked for a while: the next start of it is at once again.
  void NoteWorked(uint32_t server) { servers_[server].pace = StartPace(); }

  /// Null: no start is planned.
  const Planned* FindPlanned(uint32_t server) const {
    const auto it = servers_.find(server);
    return it == servers_.end() || !it->second.planned ? nullptr : &*it->second.planned;
  }

  /// The newest start of the server was then, as far as this process knows.
  TimePoint StartedAt(uint32_t server) const {
    const auto it = servers_.find(server);
    return it == servers_.end() ? TimePoint() : it->second.started_at.value_or(TimePoint());
  }

 private:
  struct Starts {
    StartPace pace;
    std::optional<Planned> planned;
    std::optional<TimePoint> started_at;
  };

  std::map<uint32_t, Starts> servers_;
};

}  // namespace ps::coordinator
