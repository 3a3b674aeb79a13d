#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "provisioner/strategies/deadline.h"

namespace ps::provisioner {

inline constexpr double kReplayTickS = 60;
inline constexpr double kReplaySpotPrice = 0.3;  // of the one on demand

struct DeadlineReplay {
  double end_s = 0;
  double on_demand_s = 0;
  double spot_s = 0;
};

/// One gang of machines that needs all of `has_spot`, by ticks; a revocation undoes a changeover's
/// work. Beyond the end it begins anew.
inline DeadlineReplay ReplayDeadline(const DeadlineJob& job, const std::vector<bool>& has_spot) {
  DeadlineReplay replay;
  DeadlineState state = {.work_left_s = job.work_s};
  double ready_s = 0;
  for (size_t tick = 0; state.work_left_s > 0; ++tick) {
    state.now_s = static_cast<double>(tick) * kReplayTickS;
    state.has_spot = has_spot[tick % has_spot.size()];
    if (state.running == DeadlineChoice::kSpot && !state.has_spot) {
      state.running = DeadlineChoice::kNothing;
    }
    const DeadlineChoice choice = DecideByDeadline(job, state);
    if (choice != state.running) {
      ready_s = state.now_s + job.changeover_s;
      state.running = choice;
    }
    if (choice == DeadlineChoice::kNothing) {
      continue;
    }
    const double begin_s = std::max(state.now_s, ready_s);
    const double end_s = state.now_s + kReplayTickS;
    const double worked_s = std::min(std::max(0.0, end_s - begin_s), state.work_left_s);
    state.work_left_s -= worked_s;
    replay.end_s = begin_s + worked_s;
    (choice == DeadlineChoice::kSpot ? replay.spot_s : replay.on_demand_s) += kReplayTickS;
  }
  return replay;
}

/// `work_s` of work within `deadline_s`; a change takes 150 s.
inline DeadlineJob ReplayedJob(double work_s, double deadline_s) {
  return {
      .deadline_s = deadline_s, .work_s = work_s, .changeover_s = 150, .interval_s = kReplayTickS};
}

/// Jobs that begin all over a trace.
struct DeadlineReplays {
  int jobs = 0;
  int met = 0;
  double saving = 0;  // of what they cost on demand
};

/// A job of `work_hours` within 1.3 times of it, from every `every`-th minute on that leaves the
/// trace time for it. It needs `needed` machines at once.
inline DeadlineReplays ReplayDeadlines(
    std::span<const uint32_t> minutes, uint32_t needed, double work_hours, size_t every) {
  DeadlineReplays replays;
  const DeadlineJob job = ReplayedJob(work_hours * 3600, 1.3 * work_hours * 3600);
  const auto length = static_cast<size_t>(job.deadline_s / kReplayTickS) + 6;
  double usd = 0;
  for (size_t begin = 0; begin + length < minutes.size(); begin += every) {
    std::vector<bool> has_spot;
    for (size_t minute = begin; minute < begin + length; ++minute) {
      has_spot.push_back(minutes[minute] >= needed);
    }
    const DeadlineReplay replay = ReplayDeadline(job, has_spot);
    ++replays.jobs;
    replays.met += replay.end_s <= job.deadline_s ? 1 : 0;
    usd += replay.spot_s * kReplaySpotPrice + replay.on_demand_s;
  }
  replays.saving = 1 - usd / (replays.jobs * (job.work_s + job.changeover_s));
  return replays;
}

}  // namespace ps::provisioner
