#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/ids.h"

namespace ps::proto {

// How many workers and servers there are, and what people change of it during a run.

/// On whose behalf a run is changed: psctl, the planner of its goal, its policy, or a replay.
enum class Asker : uint8_t { kPerson, kPlan, kPolicy, kReplay };

/// "psctl", "plan", "policy" or "replay".
std::string_view AskerName(Asker asker);

/// A tensor, or one chunk of it, that was moved to a server by hand and stays there.
struct PinnedPart {
  std::string tensor;
  int32_t chunk = -1;  // -1: all
  uint32_t server = 0;

  friend bool operator==(const PinnedPart&, const PinnedPart&) = default;
};

struct ServersStatus {
  uint32_t count = 0;  // that have the parameters
  uint32_t wanted = 0;
  bool is_moving = false;            // chunks move to those that are wanted
  uint64_t moves = 0;                // that were made
  std::string trouble;               // why the last change was given up; empty: it was not
  std::vector<uint32_t> shares{};    // of the parameters, in proportion, by server; empty: even
  std::vector<PinnedPart> pinned{};  // the first ones, in the order of the model
  uint64_t chunks_pinned = 0;        // all of them
};

/// The workers of all groups of one type.
struct FleetRow {
  std::string type;      // of machine, as the config names it
  uint32_t wanted = 0;   // by the config, or by the newest request since
  uint32_t present = 0;  // that take part and are not told to leave
  uint32_t waiting = 0;  // that can't be started now
  double wait_s = 0;     // until the next one is
  std::string why{};     // they wait: by zone
};

/// Tells a worker that its machine is taken back in `grace_ms`: it hands over and leaves, and the
/// fleet kills it if it is still there. A second notice can only shorten the grace. Of a server a
/// checkpoint is made within the grace, then it leaves, and is started again. Errors: kNotFound,
/// kInvalidArgument (the grace, or the run is ending, or there are no checkpoints).
struct NoticeRequest {
  WorkerId worker;  // with is_server the number of a server
  uint32_t grace_ms = 0;
  bool is_server = false;
  bool is_release = false;  // a worker: nobody takes it back, its group is to be smaller by one
};

struct NoticeReply {
  uint32_t grace_ms = 0;  // what is left of the shortest notice
};

/// The machine of a shard's server is taken back in `grace_ms`: as a person's notice to the server.
/// Answered by NoticeReply. Errors: kInvalidArgument (the grace, the run is ending, or there are no
/// checkpoints), after which the server leaves as it is.
struct ServerNotice {
  ShardId shard;
  uint32_t grace_ms = 0;
  std::string what;  // who says so, for people
};

/// How many workers a group, or all groups together, are to have; or how many servers there are to
/// be, and what share of the parameters each is to have; or which of them has some chunks.
struct ScaleChange {
  std::string type;  // of the group; empty: all groups, in the proportions that the config gives
  int32_t count = 0;
  bool is_relative = false;        // so many more, or fewer, than are wanted now
  bool is_servers = false;         // of servers, not workers: type is empty then
  std::vector<uint32_t> shares{};  // of servers: as in ServersStatus; as many as count, or none
  // Not empty: the chunks of this tensor go to server `count`, or with -1 where the shares want
  // them. Nothing else is said then.
  std::string tensor{};
  int32_t chunk = -1;  // of the tensor; -1: all
};

/// "2:1:1", or "even".
std::string SharesText(const std::vector<uint32_t>& shares);

/// Workers and servers are started, or told to leave, and chunks move; all changes or none. Errors:
/// kNotFound (no such group, tensor or server), kInvalidArgument (such a number, the run is ending,
/// servers without checkpoints).
struct ScaleRequest {
  std::vector<ScaleChange> changes;
};

/// Says what is wanted now.
struct ScaleReply {
  std::vector<FleetRow> fleet;
  ServersStatus servers;
};

}  // namespace ps::proto
