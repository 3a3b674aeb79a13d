// With multipliers k on X, m on the weights and q on the crowding, the Lagrangian's minimum over
// the box and the pools is
//     G(k, m, q) = cost_fixed + min (cost - k rate - m weight + q crowding) . x,
// a sort and a greedy fill. From it, every feasible x has a ratio of at least
//     k + G / rate_min   when G <= 0,      k + G / rate_max   when G >= 0,
// because the ratio is k + (cost - k X) / X, and G bounds cost - k X from below. Both are concave
// in k with slope 1 - X / rate_min (rate_max): the best k is where G = 0 (Dinkelbach's method finds
// it), or where the fill's X passes the limit that the first one breaks.

#include "provisioner/planner/exact/ratio_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ps::provisioner {
namespace {

constexpr int kRateStepsMax = 30;
constexpr int kGrowthsMax = 20;
constexpr double kGrowth = 4;
constexpr double kGrowthFromStart = 1.5;
constexpr int kFallsMax = 2;
constexpr int kTangentsMax = 12;
constexpr double kTolerance = 1e-12;
// Relative error of a bound; a smaller one is not worth more steps.
constexpr double kRatioTolerance = 1e-7;

/// Multipliers of the relaxed constraints: m on the weights, q on the crowding.
struct Prices {
  double m = 0;
  double q = 0;
};

/// The minimum at one set of multipliers.
struct Corner {
  double cost = 0;  // cost_fixed + (cost - m weight + q crowding) . x
  double rate = 0;
  double weight = 0;
  double crowding = 0;
  double k = 0;  // where it is the minimum
  Prices prices;
  bool is_fastest = false;

  double Lagrangian(double multiplier) const { return cost - multiplier * rate; }
};

/// The best ratio for some multipliers.
struct Edge {
  double ratio = -std::numeric_limits<double>::infinity();
  double k = 0;
  Prices prices;
  // How the ratio grows with each of the prices, at the relaxed optimum: a mean of corners.
  Prices slope;
  Corner below;
  Corner above;
};

class Search {
 public:
  explicit Search(const RatioProblem& problem) : problem_(problem) {
    base_.cost = problem.cost_fixed;
    spare_ = problem.total;
    for (size_t i = 0; i < problem.terms.size(); ++i) {
      const RatioTerm& term = problem.terms[i];
      AddTo(&base_, term, term.cost, term.low);
      spare_ -= term.low;
      if (term.high > term.low) {
        order_.push_back(free_.size());
        free_.push_back(i);
      }
    }
    priced_.resize(free_.size());
    keys_.resize(free_.size());
  }

  /// The best k for these prices.
  Edge BestRate(const Prices& prices) {
    Price(prices);
    Corner corner = Fill(start_k_);
    double k = start_k_;
    for (int i = 0; i < kRateStepsMax; ++i) {
      if (corner.rate <= 0) {
        return AtLevel(k, corner, problem_.rate_min);
      }
      const double next = std::max(corner.cost / corner.rate, 0.0);
      if (next <= k && corner.rate < problem_.rate_min) {
        start_k_ = k;  // so is every corner at a lower k, and the one where G = 0 is no higher
        return AtLevel(k, corner, problem_.rate_min);
      }
      if (std::abs(next - k) <= kTolerance * next) {
        break;
      }
      k = next;
      corner = Fill(k);
    }
    start_k_ = k;
    if (corner.rate < problem_.rate_min) {
      return AtLevel(k, corner, problem_.rate_min);
    }
    if (corner.rate > problem_.rate_max) {
      return AtLevel(k, corner, problem_.rate_max);
    }
    return EdgeOf(k, corner, corner, corner, corner.rate);
  }

  /// The whole x of a corner.
  std::vector<int> CountsOf(const Corner& corner) {
    std::vector<int> x;
    x.reserve(problem_.terms.size());
    for (const RatioTerm& term : problem_.terms) {
      x.push_back(term.low);
    }
    Price(corner.prices);
    Fill(corner.k, corner.is_fastest, &x);
    return x;
  }

 private:
  static void AddTo(Corner* corner, const RatioTerm& term, double cost, int count) {
    corner->cost += count * cost;
    corner->rate += count * term.rate;
    corner->weight += count * term.weight;
    corner->crowding += count * term.crowding;
  }

  void Price(const Prices& prices) {
    empty_ = base_;
    empty_.prices = prices;
    empty_.cost += prices.q * base_.crowding - prices.m * base_.weight;
    for (size_t i = 0; i < free_.size(); ++i) {
      const RatioTerm& term = problem_.terms[free_[i]];
      priced_[i] = term.cost - prices.m * term.weight + prices.q * term.crowding;
    }
  }

  /// The minimum at k; with is_fastest the one at infinite k. `x`: where to add it, or null.
  Corner Fill(double k, bool is_fastest = false, std::vector<int>* x = nullptr) {
    for (size_t i = 0; i < keys_.size(); ++i) {
      const double rate = problem_.terms[free_[i]].rate;
      keys_[i] = is_fastest ? -rate : priced_[i] - k * rate;
    }
    SortByKey();
    Corner corner = empty_;
    corner.k = k;
    corner.is_fastest = is_fastest;
    int left = spare_;
    pools_ = problem_.pools;
    for (const size_t i : order_) {
      if (left == 0) {
        break;
      }
      const RatioTerm& term = problem_.terms[free_[i]];
      int more = std::min(left, term.high - term.low);
      if (term.pool >= 0) {
        int& room = pools_[static_cast<size_t>(term.pool)];
        more = std::min(more, room);
        room -= more;
      }
      left -= more;
      if (x != nullptr) {
        (*x)[free_[i]] += more;
      }
      AddTo(&corner, term, priced_[i], more);
    }
    return corner;
  }

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

  /// The corner `best` at k, and the two whose mean has a rate of `rate`.
  Edge EdgeOf(
      double k, const Corner& best, const Corner& below, const Corner& above, double rate) const {
    const double span = above.rate - below.rate;
    const double share = span > 0 ? std::clamp((rate - below.rate) / span, 0.0, 1.0) : 0;
    Edge edge;
    edge.ratio = RatioAt(k, best);
    edge.k = k;
    edge.prices = best.prices;
    if (rate > 0) {
      edge.slope.m = -std::lerp(below.weight, above.weight, share) / rate;
      edge.slope.q = std::lerp(below.crowding, above.crowding, share) / rate;
    }
    edge.below = below;
    edge.above = above;
    return edge;
  }

  /// The best k when X has to be at `level`, which the corner at `k` is not.
  Edge AtLevel(double k, const Corner& corner, double level) {
    Corner best = corner;  // at k
    Corner below = corner;
    Corner above = corner;
    const bool is_below = corner.rate < level;
    const Corner near = Fill(level_k_);  // what was best for other prices
    if (is_below && near.rate >= level) {
      above = near;
    } else if (is_below) {
      above = Fill(0, /*is_fastest=*/true);
    } else if (near.rate < level) {
      below = near;
    } else {
      below = Fill(0);
    }
    if (below.rate >= level) {
      k = 0;  // even the cheapest is beyond the limit
      best = below;
      above = below;
    }
    for (int i = 0; i < kRateStepsMax && above.rate - below.rate > kTolerance * above.rate; ++i) {
      k = std::max((above.cost - below.cost) / (above.rate - below.rate), 0.0);
      best = Fill(k);
      const double gain = below.Lagrangian(k) - best.Lagrangian(k);
      if (gain <= kTolerance * std::abs(below.cost)) {
        break;
      }
      (best.rate < level ? below : above) = best;
    }
    level_k_ = k;
    return EdgeOf(k, best, below, above, level);
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
  std::vector<size_t> free_;  // terms that can vary
  Corner base_;               // of the least counts, without prices
  Corner empty_;              // with them
  std::vector<double> priced_;
  std::vector<double> keys_;
  std::vector<size_t> order_;
  std::vector<int> pools_;  // scratch
  double start_k_ = 0;
  double level_k_ = 0;
  int spare_ = 0;  // of the sum, beyond what `low` takes
};

/// The best ratio over one price, from `start` on: it is concave, so that none is above where two
/// tangents meet.  `evaluate` gives the edge at a price. Ends early with a ratio above `enough`.
template <typename Evaluate>
Edge Climb(double Prices::*price, double start, double enough, const Evaluate& evaluate) {
  Edge edge = evaluate(start);
  Edge low = edge;
  Edge high = edge;
  Edge best = edge;
  const auto try_at = [&](double x) {
    edge = evaluate(x);
    if (edge.ratio > best.ratio) {
      best = edge;
    }
  };
  if (edge.slope.*price > 0) {
    const bool is_far = start == 0;
    double x =
        is_far ? std::max(std::abs(edge.below.cost / edge.below.rate / (edge.slope.*price)), 1e-300)
               : start * kGrowthFromStart;
    for (int i = 0; i < kGrowthsMax && high.slope.*price > 0 && best.ratio <= enough; ++i) {
      low = high;
      try_at(x);
      high = edge;
      x *= is_far || i > 1 ? kGrowth : kGrowthFromStart;
    }
  } else {
    for (int i = 0; low.slope.*price < 0 && low.prices.*price > 0 && best.ratio <= enough; ++i) {
      high = low;
      try_at(i < kFallsMax ? high.prices.*price / kGrowthFromStart : 0);
      low = edge;
    }
  }
  for (int i = 0;
       i < kTangentsMax && low.slope.*price > 0 && high.slope.*price < 0 && best.ratio <= enough;
       ++i) {
    const double span = high.prices.*price - low.prices.*price;
    const double slope = low.slope.*price - high.slope.*price;
    const double share = (high.ratio - low.ratio - high.slope.*price * span) / (slope * span);
    const double ratio_most = low.ratio + low.slope.*price * share * span;
    if (ratio_most - best.ratio <= kRatioTolerance * std::abs(best.ratio)) {
      break;
    }
    try_at(low.prices.*price + std::clamp(share, 0.01, 0.99) * span);
    (edge.slope.*price > 0 ? low : high) = edge;
  }
  // The mean of both sides at which the price's own constraint just holds.
  const double slope = low.slope.*price - high.slope.*price;
  const double share = slope > 0 ? std::clamp(low.slope.*price / slope, 0.0, 1.0) : 0;
  best.slope.m = std::lerp(low.slope.m, high.slope.m, share);
  best.slope.q = std::lerp(low.slope.q, high.slope.q, share);
  best.below = low.below;
  best.above = high.above;
  return best;
}

}  // namespace

RatioBound BoundRatio(const RatioProblem& problem, const RatioStart& start, double enough) {
  Search search(problem);
  double m = start.weight;
  const Edge edge = Climb(&Prices::q, start.crowding, enough, [&](double q) {
    const Edge inner = Climb(&Prices::m, m, enough, [&](double x) {
      return search.BestRate({x, q});
    });
    m = inner.prices.m;
    return inner;
  });
  RatioBound bound;
  bound.ratio = edge.ratio;
  bound.rate_multiplier = edge.k;
  bound.weight_multiplier = edge.prices.m;
  bound.crowding_multiplier = edge.prices.q;
  if (edge.ratio <= enough) {
    bound.corners.push_back(search.CountsOf(edge.below));
    bound.corners.push_back(search.CountsOf(edge.above));
  }
  return bound;
}

}  // namespace ps::provisioner
