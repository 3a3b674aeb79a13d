#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"

namespace ps::proto {

// Knowledge of a job: measured figures, the models fitted to them, and how well they fit.
// configs/profile.fbs is the schema and the manual of the file (profile.json).

/// How fast one kind of worker computes this job.
struct WorkerProfile {
  std::string instance_type;  // a name of the catalog; "local" for this machine
  int minibatch = 0;          // samples, over all devices of the worker
  double compute_s = 0;       // one minibatch without communication, median
  double compute_stddev_s = 0;
  int steps_measured = 0;
  int minibatch_max = 0;  // largest that fits its memory; 0: unknown
  // compute_s is without the copies between host and devices too, as in published figures; steps
  // that were timed here have them.
  bool excludes_pcie = false;
  double host_bytes = 0;    // of main memory that one takes; 0: not known
  double device_bytes = 0;  // of each of its devices; 0: not known, or it has none

  friend bool operator==(const WorkerProfile&, const WorkerProfile&) = default;
};

/// Speed of a whole fleet, as measured: what contention is fitted to and checked against.
struct FleetSample {
  std::vector<std::string> workers;  // instance type of each
  int server_hosts = 1;
  double server_bytes_per_s = 0;  // of one host, each way; 0: not limited
  double steps_per_s = 0;         // minibatches, exchanged or not
  double samples_per_s = 0;
  double seconds = 0;  // how long it was watched

  friend bool operator==(const FleetSample&, const FleetSample&) = default;
};

/// One point of a training run's curve.
struct LossSample {
  double steps = 0;  // normalised iterations j: minibatches of all workers together
  double loss = 0;
  double batch_mean = 0;     // b_w of the fleet that got there, samples
  double heterogeneity = 0;  // R of that fleet
  int workers = 1;
  double late = 1;  // share of exchanges that computation did not hide

  friend bool operator==(const LossSample&, const LossSample&) = default;
};

/// P = min(a1 * sqrt(n) + b1, 1), the chance that workers meet at the servers' network. spotDNN
/// (9).
struct ContentionFit {
  double a1 = 0;
  double b1 = 0;
  double residual = 0;  // relative, standard deviation
  int samples = 0;      // 0: not fitted

  friend bool operator==(const ContentionFit&, const ContentionFit&) = default;
};

/// The closed queue: how workers share the servers' links (1: in equal parts, as TCP connections
/// do; towards 0: one after the other, in step), and the seconds that each exchange spends at the
/// servers besides the bytes.
struct QueueFit {
  double wait_share = 1;
  double overhead_s = 0;
  double residual = 0;  // relative, standard deviation
  int samples = 0;      // 0: not fitted

  friend bool operator==(const QueueFit&, const QueueFit&) = default;
};

/// loss(j) = (c2 b_w + c3) sqrt((R + c4) n) / (j + c1) + c5, spotDNN (3). Without heterogeneity the
/// root is sqrt(n) and c4 is unused, as in the prototype.
struct LossFit {
  double c1 = 0;
  double c2 = 0;
  double c3 = 0;
  double c4 = 0;
  double c5 = 0;
  bool has_heterogeneity = true;
  double residual = 0;  // relative error of j, standard deviation
  int samples = 0;      // 0: not fitted

  friend bool operator==(const LossFit&, const LossFit&) = default;
};

/// A fleet's steps, as a multiple of those of the fleet with factor 1.
struct FleetFactor {
  int workers = 1;
  double factor = 1;
  double late = 1;                   // share of its exchanges that computation does not hide
  std::vector<double> by_loss = {};  // and how many times more still to each of the fit's losses

  friend bool operator==(const FleetFactor&, const FleetFactor&) = default;
};

/// Steps to a loss, as curves of several fleets tell them: factor of the fleet times
/// by_loss, steps (loss - floor)^-power and (minibatch / b_w)^batch_power.
struct CurveFit {
  double steps = 0;
  double power = 1;
  double floor = 0;
  double minibatch = 0;
  double batch_power = 0;
  std::vector<FleetFactor> fleets = {};
  std::vector<double> losses = {};  // of by_loss, falling; as many as each fleet has, or none
  double loss_min = 0;              // lowest loss of the curves
  double residual = 0;              // relative error of the steps, standard deviation
  int samples = 0;                  // 0: not fitted

  friend bool operator==(const CurveFit&, const CurveFit&) = default;
};

/// How often a job exchanges, and what values travel as.
struct ExchangeScheme {
  int local_steps = 1;       // minibatches of a worker between two exchanges (train.local_steps)
  std::string push = "f32";  // as codec::ParseEncoding takes it (exchange.push)
  std::string pull = "f32";

  friend bool operator==(const ExchangeScheme&, const ExchangeScheme&) = default;
};

/// "8 local steps, push int8, pull bf16": what differs from `usual`; the local steps where nothing
/// does.
std::string SchemeText(const ExchangeScheme& scheme, const ExchangeScheme& usual);

/// What another exchange than the profile's costs.
struct ExchangePenalty {
  int local_steps = 1;
  std::string push = {};  // empty: the profile's
  std::string pull = {};
  std::string mode = {};  // "async", "ssp", "bsp"
  double samples = 1;     // to the same loss, as a multiple of those of the profile's exchange
  double measured = 0;    // samples of the runs that were compared

  friend bool operator==(const ExchangePenalty&, const ExchangePenalty&) = default;
};

/// How long one worker took to come, in seconds from its order, or from asking for its machine.
struct StartSample {
  std::string instance_type;
  std::string zone = {};      // empty: not known
  std::string launcher = {};  // as LauncherName
  double machine_s = 0;       // until its machine was known to run; 0: not known
  double join_s = 0;          // until it had joined
  double step_s = 0;          // until its first step counted; 0: none did, or it is not known

  friend bool operator==(const StartSample&, const StartSample&) = default;
};

struct JobProfile {
  std::string job;                   // its name
  std::string model_fingerprint;     // of the model's tensors: a profile is of one model only
  std::string training_fingerprint;  // of data, model, optimizer, train; empty: not known
  double parameter_bytes = 0;        // S
  double push_bytes = 0;             // on the wire, one exchange of one worker
  double pull_bytes = 0;
  double server_bytes = 0;             // of main memory, all servers together; 0: not known
  double server_bytes_per_worker = 0;  // and for each worker
  double request_bytes_per_s = 0;      // B_req: what one worker takes when alone
  double overlap = 0;                  // share of communication that computation hides, 0 to 1
  int local_steps = 1;                 // minibatches between two exchanges, of fleets and losses
  std::string push = "f32";            // encodings, likewise
  std::string pull = "f32";
  std::vector<WorkerProfile> workers;
  std::vector<FleetSample> fleets;
  std::vector<LossSample> losses;
  ContentionFit contention;
  QueueFit queue;
  LossFit loss;
  CurveFit curves;
  std::vector<ExchangePenalty> penalties;
  std::vector<StartSample> starts;  // the newest last

  /// The first of that type; null when there is none.
  const WorkerProfile* Find(std::string_view instance_type) const;
  /// The one of that type with that minibatch; null when there is none.
  const WorkerProfile* Find(std::string_view instance_type, int minibatch) const;

  /// How all of it was measured.
  ExchangeScheme Scheme() const { return {local_steps, push, pull}; }

  /// What a penalty is of, with what it leaves to the profile filled in.
  ExchangeScheme SchemeOf(const ExchangePenalty& penalty) const {
    return {
        penalty.local_steps,
        penalty.push.empty() ? push : penalty.push,
        penalty.pull.empty() ? pull : penalty.pull};
  }

  friend bool operator==(const JobProfile&, const JobProfile&) = default;
};

/// Errors as ParseCatalog's.
Result<JobProfile> ParseProfile(std::string_view text, const std::string& file);
std::string PrintProfile(const JobProfile& profile);

}  // namespace ps::proto
