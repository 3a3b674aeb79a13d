#include "provisioner/fleet/slurm_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

constexpr std::array<std::string_view, 13> kEnds = {
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "LAUNCH_FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "RECONFIG_FAIL",
    "REVOKED",
    "SPECIAL_EXIT",
    "TIMEOUT"};

/// What the job's own process decides, by its exit code or by a signal.
constexpr std::array<std::string_view, 3> kOwnEnds = {"CANCELLED", "COMPLETED", "FAILED"};

// Signals of Slurm's own in an exit code.
constexpr int kOutOfMemorySignal = 125;
constexpr int kNoOutputSignal = 53;

std::string FieldOf(std::string_view text, std::string_view name) {
  const size_t begin = text.find(name);
  if (begin == std::string_view::npos) {
    return "";
  }
  text.remove_prefix(begin + name.size());
  return std::string(text.substr(0, text.find_first_of(" \n")));
}

int NumberOf(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

SlurmEnd NotStarted(std::string why) {
  return {{kNotStartedExit, 0}, std::move(why)};
}

/// The codes by which a shell, or the job's script, says that there was no program to run.
SlurmEnd OfFailedScript(const SlurmState& state, const std::string& needs) {
  if (state.code == kLacksExit && !needs.empty()) {
    return NotStarted(fmt::format(
        "there is no {} on its node; the folder of the checkpoints has to be shared under one path",
        needs));
  }
  if (state.code == 126 || state.code == 127) {
    return NotStarted("the program can't run on its node; is it there under this path?");
  }
  return {{ExitCodeOf(state.code), 0}, ""};
}

}  // namespace

SlurmState ParseSlurmState(std::string_view text) {
  SlurmState state;
  state.state = FieldOf(text, " JobState=");
  const std::string exit = FieldOf(text, " ExitCode=");
  state.code = NumberOf(exit);
  const size_t colon = exit.find(':');
  state.signal =
      colon == std::string::npos ? 0 : NumberOf(std::string_view(exit).substr(colon + 1));
  return state;
}

bool IsSlurmEnd(std::string_view state) {
  return std::ranges::find(kEnds, state) != kEnds.end();
}

SlurmEnd MeaningOf(const SlurmState& state, bool has_run, const std::string& needs) {
  if (state.state == "OUT_OF_MEMORY" || state.signal == kOutOfMemorySignal) {
    return {
        {1, 0},
        "the program took more memory than the job may; give it more, as with --mem=8G in "
        "launch.sbatch or servers.sbatch"};
  }
  if (state.signal == kNoOutputSignal) {
    return NotStarted(
        "its node can't open the log, or the folder that psctl runs in; both have to be shared "
        "under one path");
  }
  if (std::ranges::find(kOwnEnds, state.state) != kOwnEnds.end()) {
    if (EndsProcess(state.signal)) {
      return {{0, state.signal}, ""};
    }
    if (state.signal == 0 && state.state == "FAILED" && state.code != 0) {
      return OfFailedScript(state, needs);
    }
    if (state.signal == 0 && state.state == "COMPLETED") {
      return {{ExitCodeOf(state.code), 0}, ""};
    }
  }
  return {
      {has_run ? kLostExit : kNotStartedExit, 0},
      fmt::format("{} {}:{}", Printable(state.state), state.code, state.signal)};
}

}  // namespace ps::provisioner
