#include "provisioner/closed_queue.h"

#include <cmath>

namespace ps::provisioner {
namespace {

// Up to so many customers the recursion starts with an empty network; beyond, so many steps follow
// an estimate, whose error they wear down.
constexpr double kExactMax = 64;
constexpr double kRefinedSteps = 48;
constexpr int kNewtonSteps = 6;

// Cycle seconds of n customers by Schweitzer's approximation: an arriving customer finds (n - 1)/n
// of the mean queues. The root of c = think + sum of d c / (c - (n - 1) d) above (n - 1) d_max. The
// function is concave, so Newton's steps from the left stay on the left.
double EstimatedCycle(double customers, double think_s, const StationPair& stations) {
  const double slow = stations.slower();
  const double fast = stations.sum() - slow;
  const double slow_pole = (customers - 1) * slow;
  const double fast_pole = (customers - 1) * fast;
  // The root with the faster station's queue left out.
  const double half = (slow_pole + think_s + fast + slow) / 2;
  double cycle = half + std::sqrt(std::fmax(half * half - (think_s + fast) * slow_pole, 0));
  for (int i = 0; i < kNewtonSteps; ++i) {
    const double slow_gap = cycle - slow_pole;
    const double fast_gap = cycle - fast_pole;
    const double value = cycle - think_s - slow * cycle / slow_gap - fast * cycle / fast_gap;
    const double slope =
        1 + slow * slow_pole / (slow_gap * slow_gap) + fast * fast_pole / (fast_gap * fast_gap);
    cycle -= value / slope;
  }
  return cycle;
}

}  // namespace

double SharedRate(double customers, double think_s, const StationPair& stations) {
  const double alone_s = think_s + stations.sum();
  if (customers <= 1) {
    return customers / alone_s;
  }
  double present = 0;     // customers so far
  double push_queue = 0;  // mean number at the station
  double pull_queue = 0;
  double steps = std::ceil(customers) - 1;
  if (customers <= kExactMax) {
    present = customers - steps;
    push_queue = present * stations.push_s / alone_s;
    pull_queue = present * stations.pull_s / alone_s;
  } else {
    steps = kRefinedSteps;
    present = customers - steps;
    const double cycle_s = EstimatedCycle(present, think_s, stations);
    push_queue = present * stations.push_s / (cycle_s - (present - 1) * stations.push_s);
    pull_queue = present * stations.pull_s / (cycle_s - (present - 1) * stations.pull_s);
  }
  double rate = present / alone_s;
  for (double i = 0; i < steps; ++i) {
    present += 1;
    const double push_s = stations.push_s * (1 + push_queue);
    const double pull_s = stations.pull_s * (1 + pull_queue);
    rate = present / (think_s + push_s + pull_s);
    push_queue = rate * push_s;
    pull_queue = rate * pull_s;
  }
  return rate;
}

}  // namespace ps::provisioner
