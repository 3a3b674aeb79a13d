#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/messages.h"
#include "psctl/cli/command.h"
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
  std::vector<std::string> words;  // as typed; changes and job are made of them
  std::vector<proto::ScaleChange> changes;
  bool is_waiting = false;
  double wait_max_s = INFINITY;  // of is_waiting
  bool is_preview = false;       // says what it would do, and does nothing
  std::string profile_path;      // of a preview; empty: the goal's, or ./profile.json
  std::string catalog_path;      // empty: the goal's, or the default one
  std::string job;
};

struct MoveCommand {
  std::string tensor;  // as typed, as is the server
  std::string server;
  ScaleCommand scale;
};

struct PauseCommand {
  bool is_paused = false;  // false: psctl continue
  std::string job;
};

/// Words of the command line: "workers=8", "servers+=1", "fast=2,slow-=1", and at most one without
/// "=", the job. Errors: kInvalidArgument saying what is wrong.
Status ParseScale(const std::vector<std::string>& words, ScaleCommand* command);

/// What `psctl move` is told: "fc1.weight" or "fc1.weight:2", and "1" or "any". Errors:
/// kInvalidArgument saying what is wrong.
Result<proto::ScaleChange> ParseMove(const std::string& tensor, const std::string& server);

extern const Command kScale;
extern const Command kMove;
extern const Command kDrain;
extern const Command kNotice;
extern const Command kPause;
extern const Command kContinue;

}  // namespace ps::psctl
