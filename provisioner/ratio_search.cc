// With a multiplier k on X and m on the weights, the Lagrangian's minimum over the box is
//     G(k, m) = cost_fixed + min (cost - k rate - m weight) . x,
// a sort and a greedy fill. From it, every feasible x has a ratio of at least
//     k + G / rate_min   when G <= 0,      k + G / rate_max   when G >= 0,
// because the ratio is k + (cost - k X) / X, and G bounds cost - k X from below. Both are concave
// in k with slope 1 - X / rate_min (rate_max): the best k is where G = 0 (Dinkelbach's method finds
// it), or where the fill's X passes the limit that the first one breaks.

#include "provisioner/ratio_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ps::provisioner {
namespace {

constexpr int kRateStepsMax = 30;
constexpr int kWeightGrowthsMax = 20;
constexpr double kWeightGrowth = 4;
constexpr int kWeightStepsMax = 12;
constexpr double kTolerance = 1e-12;
// Of a bound: a closer one is not worth more steps.
constexpr double kWeightTolerance = 1e-7;

/// The minimum at one pair of multipliers.
struct Corner {
  double cost = 0;  // cost_fixed + (cost - m weight) . x
  double rate = 0;
  double weight = 0;
  double k = 0;  // where it is the minimum
  bool is_fastest = false;

  double Lagrangian(double multiplier) const { return cost - multiplier * rate; }
};

class Search {
 public:
  explicit Search(const RatioProblem& problem) : problem_(problem), keys_(problem.terms.size()) {
    spare_ = problem.total;
    for (size_t i = 0; i < problem.terms.size(); ++i) {
      order_.push_back(i);
      spare_ -= problem.terms[i].low;
    }
  }

  /// The minimum at (k, m); with is_fastest the one at infinite k. `x`: where to put it, or null.
  Corner Fill(double k, double m, bool is_fastest = false, std::vector<int>* x = nullptr) {
    for (size_t i = 0; i < keys_.size(); ++i) {
      const RatioTerm& term = problem_.terms[i];
      keys_[i] = is_fastest ? -term.rate : term.cost - k * term.rate - m * term.weight;
    }
    SortByKey();
    Corner corner;
    corner.k = k;
    corner.is_fastest = is_fastest;
    corner.cost = problem_.cost_fixed;
    int left = spare_;
    for (const size_t i : order_) {
      const RatioTerm& term = problem_.terms[i];
      const int more = std::min(left, term.high - term.low);
      left -= more;
      const int count = term.low + more;
      if (x != nullptr) {
        (*x)[i] = count;
      }
      corner.cost += count * (term.cost - m * term.weight);
      corner.rate += count * term.rate;
      corner.weight += count * term.weight;
    }
    return corner;
  }

  /// The whole x of a corner.
  std::vector<int> CountsOf(const Corner& corner, double m) {
    std::vector<int> x(keys_.size());
    Fill(corner.k, m, corner.is_fastest, &x);
    return x;
  }

  struct Edge {
    double ratio = -std::numeric_limits<double>::infinity();
    double k = 0;
    double m = 0;
    double rate = 0;  // of the relaxed optimum
    double weight = 0;
    Corner below;
    Corner above;

    /// Of the ratio over m.
    double Slope() const { return rate > 0 ? -weight / rate : 0; }
  };

  /// The best k for an m.
  Edge BestRate(double m) {
    Corner corner = Fill(start_k_, m);
    double k = start_k_;
    for (int i = 0; i < kRateStepsMax; ++i) {
      if (corner.rate <= 0) {
        return AtLevel(m, k, corner, problem_.rate_min);
      }
      const double next = std::max(corner.cost / corner.rate, 0.0);
      if (next <= k && corner.rate < problem_.rate_min) {
        start_k_ = k;  // so is every corner at a lower k, and the one where G = 0 is no higher
        return AtLevel(m, k, corner, problem_.rate_min);
      }
      if (std::abs(next - k) <= kTolerance * next) {
        break;
      }
      k = next;
      corner = Fill(k, m);
    }
    start_k_ = k;
    if (corner.rate < problem_.rate_min) {
      return AtLevel(m, k, corner, problem_.rate_min);
    }
    if (corner.rate > problem_.rate_max) {
      return AtLevel(m, k, corner, problem_.rate_max);
    }
    Edge edge;
    edge.ratio = RatioAt(k, corner);
    edge.k = k;
    edge.m = m;
    edge.rate = corner.rate;
    edge.weight = corner.weight;
    edge.below = corner;
    edge.above = corner;
    return edge;
  }

 private:
  double RatioAt(double k, const Corner& corner) const {
    const double g = corner.Lagrangian(k);
    if (g > 0) {
      return k + g / problem_.rate_max;
    }
    if (problem_.rate_min > 0) {
      return k + g / problem_.rate_min;
    }
    // Without a least rate nothing follows from a Lagrangian below zero, except that it is zero but
    // for rounding.
    return g >= -kTolerance * std::abs(corner.cost) ? k : -std::numeric_limits<double>::infinity();
  }

  /// The best k when X has to be at `level`, which the corner at `k` is not.
  Edge AtLevel(double m, double k, const Corner& corner, double level) {
    Corner best = corner;  // at k
    Corner below = corner;
    Corner above = corner;
    const bool is_below = corner.rate < level;
    const Corner near = Fill(level_k_, m);  // what was best for another m
    if (is_below && near.rate >= level) {
      above = near;
    } else if (is_below) {
      above = Fill(0, m, /*is_fastest=*/true);
    } else if (near.rate < level) {
      below = near;
    } else {
      below = Fill(0, m);
    }
    if (below.rate >= level) {
      k = 0;  // even the cheapest is beyond the limit
      best = below;
      above = below;
    }
    for (int i = 0; i < kRateStepsMax && above.rate - below.rate > kTolerance * above.rate; ++i) {
      k = std::max((above.cost - below.cost) / (above.rate - below.rate), 0.0);
      best = Fill(k, m);
      const double gain = below.Lagrangian(k) - best.Lagrangian(k);
      if (gain <= kTolerance * std::abs(below.cost)) {
        break;
      }
      (best.rate < level ? below : above) = best;
    }
    level_k_ = k;
    Edge edge;
    edge.k = k;
    edge.m = m;
    edge.ratio = RatioAt(k, best);
    const double span = above.rate - below.rate;
    const double share = span > 0 ? std::clamp((level - below.rate) / span, 0.0, 1.0) : 0;
    edge.rate = level;
    edge.weight = below.weight + share * (above.weight - below.weight);
    edge.below = below;
    edge.above = above;
    return edge;
  }

  /// By insertion: the order changes little from one call to the next.
  void SortByKey() {
    for (size_t i = 1; i < order_.size(); ++i) {
      const size_t moved = order_[i];
      size_t at = i;
      while (at > 0 && keys_[order_[at - 1]] > keys_[moved]) {
        order_[at] = order_[at - 1];
        --at;
      }
      order_[at] = moved;
    }
  }

  const RatioProblem& problem_;
  std::vector<double> keys_;
  std::vector<size_t> order_;
  double start_k_ = 0;
  double level_k_ = 0;
  int spare_ = 0;  // of the sum, beyond what `low` takes
};

void Keep(const Search::Edge& edge, double m, RatioBound* bound) {
  if (edge.ratio > bound->ratio) {
    bound->ratio = edge.ratio;
    bound->rate_multiplier = edge.k;
    bound->weight_multiplier = m;
  }
}

}  // namespace

RatioBound BoundRatio(const RatioProblem& problem) {
  Search search(problem);
  RatioBound bound;
  bound.ratio = -std::numeric_limits<double>::infinity();
  Search::Edge edge = search.BestRate(0);
  Keep(edge, 0, &bound);
  if (edge.weight < 0) {
    // The weights bind: m grows until they hold, then the two sides close in. The best ratio is
    // concave in m, so that none is above where the two tangents meet.
    Search::Edge low = edge;
    Search::Edge high = edge;
    double m = std::max(std::abs(edge.below.cost / edge.weight), 1e-300);
    for (int i = 0; i < kWeightGrowthsMax && high.weight < 0; ++i, m *= kWeightGrowth) {
      low = high;
      high = edge = search.BestRate(m);
      Keep(edge, m, &bound);
    }
    for (int i = 0; i < kWeightStepsMax && high.weight > 0; ++i) {
      const double span = high.m - low.m;
      const double slope = low.Slope() - high.Slope();
      const double share =
          slope > 0 ? (high.ratio - low.ratio - high.Slope() * span) / (slope * span) : 0.5;
      const double ratio_most = low.ratio + low.Slope() * share * span;
      if (ratio_most - bound.ratio <= kWeightTolerance * std::abs(bound.ratio)) {
        break;
      }
      m = low.m + std::clamp(share, 0.01, 0.99) * span;
      edge = search.BestRate(m);
      Keep(edge, m, &bound);
      (edge.weight < 0 ? low : high) = edge;
    }
  }
  bound.corners.push_back(search.CountsOf(edge.below, edge.m));
  bound.corners.push_back(search.CountsOf(edge.above, edge.m));
  return bound;
}

namespace {

/// The largest sum of sign * value.
double LargestSignedSum(const RatioProblem& problem, double RatioTerm::*value, double sign) {
  struct Spare {
    double value;
    int count;
  };

  std::vector<Spare> spares;
  spares.reserve(problem.terms.size());
  int left = problem.total;
  double sum = 0;
  for (const RatioTerm& term : problem.terms) {
    const double signed_value = sign * (term.*value);
    left -= term.low;
    sum += term.low * signed_value;
    if (term.high > term.low) {
      spares.push_back({signed_value, term.high - term.low});
    }
  }
  std::sort(spares.begin(), spares.end(), [](const Spare& a, const Spare& b) {
    return a.value > b.value;
  });
  for (const Spare& spare : spares) {
    if (left <= 0) {
      break;
    }
    const int more = std::min(left, spare.count);
    sum += more * spare.value;
    left -= more;
  }
  return sum;
}

}  // namespace

double LargestSum(const RatioProblem& problem, double RatioTerm::*value) {
  return LargestSignedSum(problem, value, 1);
}

double SmallestSum(const RatioProblem& problem, double RatioTerm::*value) {
  return -LargestSignedSum(problem, value, -1);
}

}  // namespace ps::provisioner
