#pragma once

namespace ps::provisioner {

// A deadline met with spot machines where there are any. Wu et al., "Can't Be Late: Optimizing Spot
// Instance Savings under Deadlines" (NSDI 2024), its policy "uniform progress" with the safety net.
// The guarantee: as long as Decide is asked at least every `interval_s`, on-demand machines can
// always be had, a change takes at most `changeover_s`, and the job could meet its deadline on
// demand at its start, it meets it, whatever becomes of the spot machines.

enum class DeadlineChoice : unsigned char { kSpot, kOnDemand, kNothing };

/// A job as it stands. Work is counted in seconds on the machines that it asks for.
struct DeadlineState {
  double now_s = 0;
  double work_left_s = 0;
  bool has_spot = false;  // spot machines can be had now
  DeadlineChoice running = DeadlineChoice::kNothing;
};

struct DeadlineJob {
  double deadline_s = 0;    // from the start
  double work_s = 0;        // all of it
  double changeover_s = 0;  // from asking for machines until they work
  double interval_s = 0;    // between decisions, at most
};

/// Latest start of machines on demand that still meets the deadline, with one more interval until
/// the next decision and one more changeover for work that a revocation undoes.
double LatestOnDemandStart(const DeadlineJob& job, double work_left_s);

/// 1. Beyond the latest start: on demand to the end. 2. Spot where there is some. 3. None: on
/// demand while progress is behind the even one (work over deadline), which is kept until spot is
/// back and a changeover is worth it; nothing while it is ahead.
DeadlineChoice DecideByDeadline(const DeadlineJob& job, const DeadlineState& state);

/// Whether the goal can be met with machines on demand from the start.
bool IsDeadlineReachable(const DeadlineJob& job);

}  // namespace ps::provisioner
