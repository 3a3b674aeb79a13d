#pragma once

#include <span>
#include <vector>

#include "provisioner/model/performance_model.h"

namespace ps::provisioner {

// A step by what overlaps in it, tensor by tensor, as Srifty's simulator has it (Srift, arXiv
// 2011.14243; Srifty, MLSys 2022; the equations are a reading of its author's public code): two
// streams that each do one thing after the other, computing and the network. A gradient is ready at
// a time within backward, and then leaves as soon as what was ready before it has left:
//
//   ready_k = F + B f_k,  start_k = max(ready_k, end_{k-1}),  end_k = start_k + bytes_k / rate
//   step    = max(F + B, end of the network's work) + update
//
// There the network's work is an all-reduce of each bucket of gradients. Adapted to a parameter
// server:
//  - a bucket is pushed, and values are pulled once the last one is there, by the other direction
//    of a full duplex link: pulled = end_last + round trip + pull bytes / rate;
//  - a worker that hides its exchange behind the next step computes on with older values. At most
//    one step travels and one is computed beside it (ps/client), so that a step takes as
//    long as the slowest of computing, pushing and pulling; see OverlapWorker::HiddenSeconds;
//  - a worker has its own link, of the rate that it has when alone, and n workers share the
//    servers'. In a round all of them meet. Without rounds worker i meets worker j for the share of
//    time u_j in which j moves bytes, and all bytes of a step take max(1, (own_i + sum over j != i
//    of u_j own_j) / servers) times as long as alone, with `own` the lower of a worker's rate and
//    the servers'. Shares and times are found together, from u = 0 upwards.
//  - servers' work is in the measured rates and the round trip; there is no update at a worker.
//
// Pure: same input, same answer. No step is shorter than forward and backward. More bandwidth of
// the servers is never slower, where workers' links are alike both ways: a worker whose pull gets
// faster while its push does not pushes more often, and may be in the way of others.

/// Gradient tensors that leave together, and the share of backward after which they are ready.
struct GradientBucket {
  double bytes = 0;
  double ready = 0;  // 0 to 1

  friend bool operator==(const GradientBucket&, const GradientBucket&) = default;
};

/// What a step of one worker takes when it is alone.
struct StepShape {
  double forward_s = 0;
  double backward_s = 0;
  double update_s = 0;                  // by the worker, once it has what it needs
  std::vector<GradientBucket> buckets;  // as they become ready
  double pull_bytes = 0;

  double compute_s() const { return forward_s + backward_s; }
};

/// A worker's link, of the rates that it has when alone. A rate of 0 is one without limit.
struct WorkerLink {
  double push_bytes_per_s = 0;
  double pull_bytes_per_s = 0;
  double round_trip_s = 0;
};

struct BucketTimes {
  double ready_s = 0;  // from the step's begin, as the others
  double start_s = 0;
  double end_s = 0;
};

struct OverlapTimeline {
  std::vector<BucketTimes> buckets;
  double pushed_s = 0;  // the last bucket has left
  double pulled_s = 0;  // the new values are here
  double step_s = 0;    // of a worker that waits for them
};

/// One step of a worker that waits for its exchange.
OverlapTimeline SimulateStep(const StepShape& step, const WorkerLink& link);

struct OverlapWorker {
  StepShape step;
  WorkerLink link;

  /// With the exchange `factor` times as long as alone: of a worker that waits for it.
  double WaitingSeconds(double factor) const;
  /// Likewise, of one that hides it: the mean time between steps, in the long run. It is the
  /// longest of computing with the update, of the push with the round trip, and of the pull, since
  /// one step is computed, travels and is answered after the other. Cycles through several steps
  /// (one begins when the one before the last is acknowledged, behind older values) are means of
  /// these, so when tensors are ready within a step does not matter here.
  double HiddenSeconds(double factor) const;
  /// Seconds in which bytes of a step are under way in one direction, the longer one, alone.
  double BusySeconds() const;
};

enum class ExchangeKind : unsigned char {
  kWaiting,  // each worker by itself; it waits for its new values
  kHidden,   // each worker by itself; it computes the next step meanwhile
  kRounds,   // all workers push, then all pull
};

/// Seconds of a step of each worker. Rounds are as Srifty has synchronous steps of unequal workers:
/// a bucket leaves when it is ready at the last worker, at the rate of the slowest one; workers
/// have as many buckets each. Requires: workers, a time above 0 in each.
std::vector<double> OverlapStepSeconds(
    std::span<const OverlapWorker> workers, const ServerSide& servers, ExchangeKind kind);

}  // namespace ps::provisioner
