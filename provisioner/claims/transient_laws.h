#pragma once

#include <span>
#include <string>
#include <vector>

namespace ps::provisioner {

// Laws of training on servers that are taken away. Li, Walls, Xu, Guo, "Speeding up Deep Learning
// with Transient Servers" (ICAC 2019); Li, Walls, Guo, "Characterizing and Modeling Distributed
// Training with Transient Cloud GPU Servers" (CM-DARE, ICDCS 2020). All of it is of asynchronous
// training, where workers do not wait for each other.

/// A worker that trains from `from_s` to `to_s` of the run (infinity: to its end).
struct WorkerSpan {
  double from_s = 0;
  double to_s = 0;
  double steps_per_s = 0;
};

/// Seconds until `steps` are done; the speeds of present workers add up. Infinity: never.
double SecondsToSteps(double steps, std::span<const WorkerSpan> spans);

/// The conservation of worker-seconds: `workers` equal ones would take `seconds_alone`; those that
/// go at `revoked_at_s` are not replaced. (workers x seconds_alone - sum of times) / survivors.
double SecondsWithRevocations(
    int workers, double seconds_alone, std::span<const double> revoked_at_s);

/// A worker's machine: how long it was up, at which price.
struct MachineUse {
  double seconds = 0;
  double usd_per_s = 0;
};

double UsdOf(std::span<const MachineUse> machines);

/// Steps of a second: the workers' own speeds add up as long as the servers keep pace.
double ClusterStepsPerSecond(std::span<const double> worker_steps_per_s, double server_steps_per_s);

/// CM-DARE's training step of one worker and one server by operations and tensors of the model, in
/// seconds. The coefficients are ours, fitted to its measurements of 20 models.
struct StepTimeFit {
  double constant_s = 0;
  double s_per_gflop = 0;   // of the model, a sample forward
  double s_per_tensor = 0;  // kernels and requests
};

double StepSecondsOf(const StepTimeFit& fit, double gflops, double tensors);

/// Known for K80 and P100; null for others.
const StepTimeFit* StepTimeOf(const std::string& device);

/// CM-DARE's time of a checkpoint to a remote bucket, while its worker stands still.
double CheckpointSecondsOf(double megabytes);

/// CM-DARE's whole run: training, checkpoints and replacements one after the other.
struct ComposedRun {
  double steps = 0;
  std::vector<double> worker_steps_per_s;
  double checkpoint_interval_steps = 0;
  double checkpoint_s = 0;
  double revocations = 0;    // expected ones
  double replacement_s = 0;  // of each: provisioning and set-up
};

/// Infinity without workers.
double ComposedSeconds(const ComposedRun& run);

}  // namespace ps::provisioner
