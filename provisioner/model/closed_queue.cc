#include "provisioner/model/closed_queue.h"

#include <cmath>

namespace ps::provisioner {
namespace {

// Up to kExactMax customers the recursion starts with an empty network. Beyond, it starts from an
// estimate, whose error kRefinedSteps steps reduce.
constexpr double kExactMax = 64;
constexpr int kRefinedSteps = 48;
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

/// The recursion of mean value analysis without its division: with cycle(m) the cycle of m
/// customers and g(m) = cycle(m) g(m - 1), what it carries are g and h = g (1 + queue), and their
/// derivatives by the thinking time. All terms of g and h are positive, so that rounding adds up to
/// no more than a few bits. Times are in cycles alone.
template <bool kHasSlope>
struct Recursion {
  double think = 0;
  double push = 0;
  double pull = 0;
  double present = 0;  // customers
  double before = 1;   // g of one customer less
  double g = 1;
  double h_push = 1;
  double h_pull = 1;
  double before_slope = 0;
  double g_slope = 0;
  double h_push_slope = 0;
  double h_pull_slope = 0;

  void Add(int customers) {
    // g grows by less than the customers in every step, so this many steps can't overflow.
    constexpr int kStepsUnscaled = 32;
    while (customers > 0) {
      const int steps = customers < kStepsUnscaled ? customers : kStepsUnscaled;
      for (int i = 0; i < steps; ++i) {
        present += 1;
        if constexpr (kHasSlope) {
          before_slope = g_slope;
          g_slope = (g + think * g_slope) + (push * h_push_slope + pull * h_pull_slope);
          h_push_slope = g_slope + present * push * h_push_slope;
          h_pull_slope = g_slope + present * pull * h_pull_slope;
        }
        before = g;
        g = (think * g + push * h_push) + pull * h_pull;
        h_push = g + present * push * h_push;
        h_pull = g + present * pull * h_pull;
      }
      customers -= steps;
      if (customers > 0) {
        h_push /= g;
        h_pull /= g;
        g_slope /= g;
        h_push_slope /= g;
        h_pull_slope /= g;
        g = 1;
      }
    }
  }

  double cycle() const { return g / before; }

  double slope() const { return (g_slope - cycle() * before_slope) / before; }
};

template <bool kHasSlope>
SharedCycle Solve(double customers, double think_s, const StationPair& stations) {
  const double alone_s = think_s + stations.sum();
  if (customers <= 1) {
    return {alone_s, 1};
  }
  Recursion<kHasSlope> recursion{
      .think = think_s / alone_s,
      .push = stations.push_s / alone_s,
      .pull = stations.pull_s / alone_s};
  if (customers <= kExactMax) {
    const int steps = static_cast<int>(std::ceil(customers)) - 1;
    recursion.present = customers - steps;
    recursion.h_push_slope = -recursion.present * recursion.push;
    recursion.h_pull_slope = -recursion.present * recursion.pull;
    recursion.h_push -= recursion.h_push_slope;
    recursion.h_pull -= recursion.h_pull_slope;
    recursion.Add(steps);
  } else {
    recursion.present = customers - kRefinedSteps;
    const double others = recursion.present - 1;
    const double cycle_s = EstimatedCycle(recursion.present, think_s, stations);
    recursion.h_push += recursion.present * stations.push_s / (cycle_s - others * stations.push_s);
    recursion.h_pull += recursion.present * stations.pull_s / (cycle_s - others * stations.pull_s);
    recursion.Add(kRefinedSteps);
  }
  return {recursion.cycle() * alone_s, kHasSlope ? recursion.slope() : 0};
}

}  // namespace

double SharedRate(double customers, double think_s, const StationPair& stations) {
  return customers / Solve</*kHasSlope=*/false>(customers, think_s, stations).cycle_s;
}

SharedCycle SharedCycleOf(double customers, double think_s, const StationPair& stations) {
  return Solve</*kHasSlope=*/true>(customers, think_s, stations);
}

}  // namespace ps::provisioner
