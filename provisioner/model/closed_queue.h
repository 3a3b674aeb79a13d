#pragma once

namespace ps::provisioner {

// The closed queue itself: n equal customers think, then pass two stations. Pure arithmetic.

/// A station's service time of one customer, seconds.
struct StationPair {
  double push_s = 0;
  double pull_s = 0;

  double sum() const { return push_s + pull_s; }

  double slower() const { return push_s < pull_s ? pull_s : push_s; }
};

/// Customers per second through stations that serve all present in equal parts (or one after the
/// other with exponential times: the same rate). Exact for whole numbers of customers up to 64, by
/// mean value analysis; between them continuous and growing; above 64 within 3e-5.
/// Requires: customers > 0, think_s >= 0, think_s + stations.sum() > 0.
double SharedRate(double customers, double think_s, const StationPair& stations);

/// customers / SharedRate, and how it grows with the thinking time: between 0 and 1, above 64
/// customers nearly.
struct SharedCycle {
  double cycle_s = 0;
  double slope = 0;
};

SharedCycle SharedCycleOf(double customers, double think_s, const StationPair& stations);

}  // namespace ps::provisioner
