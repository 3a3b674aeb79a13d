#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "ps/proto/messages.h"

namespace ps::run {

/// What machines that could be had were for, in machines times seconds. The parts sum to all.
struct NodeTimes {
  double computing_s = 0;  // as fast as the job's step_ms says; all computing where it says nothing
  double slower_s = 0;     // computing for longer than that: the host has not enough cores for all
  double waiting_s = 0;    // a worker took part, and waited, evaluated, or was not heard of
  double starting_s = 0;   // asked for, and not taking part yet
  double unused_s = 0;     // nobody asked for them
};

/// Adds up what machines were for, from one look at a run after the other. A worker's time is that
/// for which it was seen; how much of it was what, it says itself with its heartbeats.
class NodeTimeMeter {
 public:
  /// `step_s`: how long a minibatch takes, by the worker's type; 0 or absent: not known.
  explicit NodeTimeMeter(std::map<std::string, double> step_s) : step_s_(std::move(step_s)) {}

  /// For `seconds` until now `available` machines could be had, and the run had such workers. The
  /// first call begins: what was before is not counted. Requires: `seconds` is not negative.
  void Look(double seconds, uint32_t available, const proto::JobStatus& status);

  NodeTimes Sum() const;

 private:
  /// A worker's life.
  struct Life {
    double present_s = 0;  // no more than there were machines
    double step_s = 0;     // of a sample
    proto::WorkerStats begun;
    proto::WorkerStats newest;
  };

  const std::map<std::string, double> step_s_;
  std::map<Incarnation, Life> lives_;
  bool is_begun_ = false;
  NodeTimes sum_;  // of what no worker says
};

}  // namespace ps::run
