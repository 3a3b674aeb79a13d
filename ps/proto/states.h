#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ps::proto {

// How a run and its parts stand, as a status says it. StateName is what people and JSON see.

enum class RunState : uint8_t {
  kStarting,  // until the shards are set up and the first workers have asked for work
  kTraining,
  kPaused,
  kWaiting,  // for workers, or for a server
  kDone,
  kStopped,  // by a person
  kFailed,
};

enum class WorkerRowState : uint8_t {
  kStarting,  // its process was started and has not joined
  kJoining,
  kComputing,
  kWaiting,
  kDraining,
  kSitsOut,  // of the rounds
  kLost,     // without a notice
  kDrained,  // on notice
  kLeft,
  kFailed,
};

enum class ShardRowState : uint8_t {
  kMissing,
  kSetUp,  // it has its tensors, and gets their values
  kReady,
  kSilent,
  kLeaving,  // its server has a notice
  kParked,
};

constexpr std::string_view StateName(RunState state) {
  constexpr std::string_view kNames[] = {
      "starting", "training", "paused", "waiting", "done", "stopped", "failed"};
  return kNames[static_cast<size_t>(state)];
}

/// "sits out", ...
constexpr std::string_view StateName(WorkerRowState state) {
  constexpr std::string_view kNames[] = {
      "starting",
      "joining",
      "computing",
      "waiting",
      "draining",
      "sits out",
      "lost",
      "drained",
      "left",
      "failed"};
  return kNames[static_cast<size_t>(state)];
}

/// "set up", ...
constexpr std::string_view StateName(ShardRowState state) {
  constexpr std::string_view kNames[] = {
      "missing", "set up", "ready", "silent", "leaving", "parked"};
  return kNames[static_cast<size_t>(state)];
}

}  // namespace ps::proto
