#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/messages.h"
#include "run/directory/run_directory.h"
#include "run/report/console.h"

namespace ps::psctl {

// Commands that change the fleet of a running job.

struct NoticeCommand {
  uint32_t worker = 0;  // or the number of a server
  bool is_server = false;
  double grace_s = 10;
  std::string job;  // empty: the only running job
};

struct DrainCommand {
  uint32_t worker = 0;
  double grace_s = 60;
  std::string job;
};

struct ScaleCommand {
  std::vector<proto::ScaleChange> changes;
  bool is_waiting = false;
  double wait_max_s = INFINITY;  // of is_waiting
  bool is_preview = false;       // says what it would do, and does nothing
  std::string profile_path;      // of a preview; empty: the goal's, or ./profile.json
  std::string catalog_path;      // empty: the goal's, or the default one
  std::string job;
};

struct PauseCommand {
  bool is_paused = false;  // false: psctl continue
  std::string job;
};

/// Words of the command line: "workers=8", "servers+=1", "fast=2,slow-=1", and at most one without
/// "=", the job. Errors: kInvalidArgument saying what is wrong.
Result<ScaleCommand> ParseScale(const std::vector<std::string>& words);

/// What `psctl move` is told: "fc1.weight" or "fc1.weight:2", and "1" or "any". Errors:
/// kInvalidArgument saying what is wrong.
Result<proto::ScaleChange> ParseMove(const std::string& tensor, const std::string& server);

int RunNotice(const NoticeCommand& command, const RunPaths& run, const Console& console);
int RunDrain(const DrainCommand& command, const RunPaths& run, const Console& console);
int RunPause(const PauseCommand& command, const RunPaths& run, const Console& console);
/// `psctl move`, too. `today` as "2026-07-20".
int RunScale(
    const ScaleCommand& command,
    const RunPaths& run,
    const std::string& today,
    const Console& console);

}  // namespace ps::psctl
