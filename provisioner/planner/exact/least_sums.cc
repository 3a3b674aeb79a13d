#include "provisioner/planner/exact/least_sums.h"

#include <algorithm>

namespace ps::provisioner {

LeastSums::LeastSums(const RatioProblem& problem) : spare_(problem.total), pools_(problem.pools) {
  lows_.reserve(problem.terms.size());
  parts_.reserve(problem.terms.size());
  for (size_t i = 0; i < problem.terms.size(); ++i) {
    const RatioTerm& term = problem.terms[i];
    lows_.push_back(term.low);
    spare_ -= term.low;
    if (term.high > term.low) {
      parts_.push_back({i, term.high - term.low, term.pool});
    }
  }
}

double LeastSums::Of(std::span<const double> values) {
  for (size_t i = 1; i < parts_.size(); ++i) {
    const Part moved = parts_[i];
    size_t at = i;
    for (; at > 0 && values[parts_[at - 1].term] > values[moved.term]; --at) {
      parts_[at] = parts_[at - 1];
    }
    parts_[at] = moved;
  }
  return Again(values);
}

double LeastSums::Again(std::span<const double> values) const {
  double sum = 0;
  for (size_t i = 0; i < lows_.size(); ++i) {
    sum += lows_[i] * values[i];
  }
  int left = spare_;
  pools_left_ = pools_;
  for (const Part& part : parts_) {
    if (left == 0) {
      break;
    }
    int more = std::min(left, part.spare);
    if (part.pool >= 0) {
      int& room = pools_left_[static_cast<size_t>(part.pool)];
      more = std::min(more, room);
      room -= more;
    }
    sum += more * values[part.term];
    left -= more;
  }
  return sum;
}

namespace {

double LeastSignedSum(const RatioProblem& problem, double RatioTerm::*value, double sign) {
  std::vector<double> values;
  values.reserve(problem.terms.size());
  for (const RatioTerm& term : problem.terms) {
    values.push_back(sign * (term.*value));
  }
  return LeastSums(problem).Of(values);
}

}  // namespace

double LargestSum(const RatioProblem& problem, double RatioTerm::*value) {
  return -LeastSignedSum(problem, value, -1);
}

double SmallestSum(const RatioProblem& problem, double RatioTerm::*value) {
  return LeastSignedSum(problem, value, 1);
}

}  // namespace ps::provisioner
