#pragma once

#include <span>
#include <vector>

namespace ps::provisioner {

// What measurements are reduced to.

/// Middle value; the mean of the two middle ones for even counts. Requires: not empty.
double Median(std::vector<double> values);

/// 1.4826 times the median distance from `center`: the standard deviation of normal values, hardly
/// moved by wild ones. Requires: not empty.
double RobustDeviation(std::vector<double> values, double center);

/// || w - (1, 0, ..., 0) || for the workers' shares w of the cluster's speed, largest first [R].
/// `counts[k]` workers of samples_per_s[k] each. 0 for one worker.
double Heterogeneity(std::span<const int> counts, std::span<const double> samples_per_s);

/// || w - (1, 0, ..., 0) || from the sum, the sum of squares and the largest of the workers'
/// speeds: no sorting needed.
double HeterogeneityOfSums(double sum, double square_sum, double largest);

}  // namespace ps::provisioner
