#pragma once

#include <string>
#include <variant>
#include <vector>

#include "ps/base/status.h"
#include "ps/process/manual.h"
#include "ps/proto/job/job_config.h"

namespace ps::run {

// What the program ps_coordinator is told to do.

/// A job from its beginning.
struct TrainOrder {
  std::string job_path;
  std::vector<proto::ConfigOverride> overrides;
  bool is_json = false;
  std::string plan_path;     // empty: the job's own fleet
  std::string profile_path;  // refined or made by the run; empty: profile.json if it is there
  bool no_refine = false;    // the profile stays as it is
  bool is_detached = false;  // it returns when the run listens, and the run goes on
};

/// A run that has ended before it was done.
struct ResumeOrder {
  std::string from;  // a run, its directory, a checkpoint path, or a place of copies
  std::vector<proto::ConfigOverride> overrides;
  bool is_json = false;
  bool is_detached = false;
  bool is_trusted = false;  // a job in another place may start what it names
};

using CoordinatorOrder = std::variant<TrainOrder, ResumeOrder>;

/// The words after the program's name.
std::vector<std::string> WordsOf(const CoordinatorOrder& order);

/// Reads them. Errors: kInvalidArgument.
Result<CoordinatorOrder> ParseOrder(int argc, const char* const* argv);

/// The manual of ps_coordinator.
Manual CoordinatorManual();

/// Has this process become ps_coordinator, which lies beside this program: same process, terminal,
/// descriptors and ignored signals. Returns only when that fails.
Status BecomeCoordinator(const CoordinatorOrder& order);

}  // namespace ps::run
