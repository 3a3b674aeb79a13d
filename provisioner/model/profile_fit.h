#pragma once

#include <span>
#include <string>
#include <vector>

#include "provisioner/model/performance_model.h"
#include "ps/base/status.h"
#include "ps/proto/files/profile.h"

namespace ps::provisioner {

// From what was measured to the models' coefficients. Pure. Every fit states its residual error,
// which is never below what so few measurements can show. With too few measurements a fit fails
// with kInvalidArgument and says what is missing. Single outliers do not move a fit: residuals
// count with their square up to a few percent, and by their size beyond.

/// Which workers a fit may use, and what a step moves.
struct FitJob {
  std::vector<WorkerClass> classes;  // by instance type, as the samples name them
  JobTraffic traffic;
};

/// Predicted against measured speed.
struct FleetErrors {
  int fleets = 0;       // samples whose every worker is of a known class
  double residual = 0;  // root mean square of ln(predicted / measured)
  double bias = 0;      // mean of it; above 0: promises too much
};

/// Samples with workers of other classes are left out. A sample's server_bytes_per_s of 0 means no
/// limit.
FleetErrors CheckFleets(const SpeedModel& model, std::span<const proto::FleetSample> fleets);

/// wait_share and overhead_s. Needs 3 fleets, one of them with 2 or more workers; without one of 3
/// or more, wait_share is 1.
Result<proto::QueueFit> FitQueue(const FitJob& job, std::span<const proto::FleetSample> fleets);

/// [a1, b1] of spotDNN (9). Needs fleets of 3 sizes (the paper: 2, 4 and 7 workers), one of which
/// asks for more than the servers have.
Result<proto::ContentionFit> FitContention(
    const FitJob& job, std::span<const proto::FleetSample> fleets);

struct LossFitOptions {
  bool has_heterogeneity = true;
};

/// [c1 to c5] of spotDNN (3). Needs 20 points of a falling curve; with has_heterogeneity from
/// fleets of 3 mixes and 2 sizes. c2 stays 0 unless batch means differ by a tenth.
Result<proto::LossFit> FitLoss(
    std::span<const proto::LossSample> samples, const LossFitOptions& options);

/// Steps to a loss from the curves of fleets, best of several sizes (curve_model.h). Needs one
/// curve of 20 points that falls. Points are in the order in which they were measured; short curves
/// and such that do not fall are left out.
Result<proto::CurveFit> FitCurves(std::span<const proto::LossSample> samples);

/// One measurement of how much device memory a minibatch takes.
struct MemorySample {
  int minibatch = 0;
  double device_memory_gib = 0;
};

/// [a2, b2]: samples that fit = a2 memory + b2.
struct MemoryFit {
  double samples_per_gib = 0;
  double offset = 0;
  double residual = 0;  // relative, of the minibatch
  int samples = 0;

  /// [b_k] The largest power of two that fits: 2^floor(log2(a2 mem + b2)). 0: not even one.
  int LargestMinibatch(double device_memory_gib) const;
};

/// Needs 2 different minibatches.
Result<MemoryFit> FitMemory(std::span<const MemorySample> samples);

/// Fits contention, queue, loss and curves of `profile` where it has samples, and leaves the rest
/// as it is. Returns what could not be fitted and why, a line each.
std::vector<std::string> RefitProfile(const FitJob& job, proto::JobProfile* profile);

/// RefitProfile with the classes and the traffic that the profile itself tells.
std::vector<std::string> FitProfile(proto::JobProfile* profile);

}  // namespace ps::provisioner
