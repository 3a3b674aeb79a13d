#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "provisioner/model/least_squares.h"
#include "provisioner/model/profile_fit.h"
#include "provisioner/model/queue_model.h"
#include "provisioner/model/spotdnn_model.h"
#include "ps/base/check.h"

namespace ps::provisioner {
namespace {

// From this relative error on a speed counts as an outlier.
constexpr double kWildTimeError = 0.03;

/// A sample in the form of a model's arguments.
struct FleetCase {
  std::vector<int> counts;
  ServerSide servers;
  double steps_per_s = 0;
  int workers = 0;
};

std::vector<FleetCase> CasesOf(
    const std::vector<WorkerClass>& classes, std::span<const proto::FleetSample> fleets) {
  std::vector<FleetCase> cases;
  for (const proto::FleetSample& fleet : fleets) {
    FleetCase one;
    one.counts.resize(classes.size());
    one.servers = {.hosts = fleet.server_hosts, .link_bytes_per_s = fleet.server_bytes_per_s};
    if (fleet.server_bytes_per_s <= 0) {
      one.servers.link_bytes_per_s = std::numeric_limits<double>::infinity();
    }
    one.steps_per_s = fleet.steps_per_s;
    for (const std::string& name : fleet.workers) {
      const auto found = std::ranges::find(classes, name, &WorkerClass::name);
      if (found == classes.end()) {
        break;
      }
      ++one.counts[static_cast<size_t>(found - classes.begin())];
      ++one.workers;
    }
    const bool is_known = one.workers == static_cast<int>(fleet.workers.size());
    if (is_known && one.workers > 0 && one.steps_per_s > 0) {
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

double LogError(const SpeedModel& model, const FleetCase& one) {
  return std::log(model.Predict(one.counts, one.servers).steps_per_s / one.steps_per_s);
}

FleetErrors CheckCases(const SpeedModel& model, std::span<const FleetCase> cases) {
  FleetErrors errors;
  double sum = 0;
  double squares = 0;
  for (const FleetCase& one : cases) {
    const double error = LogError(model, one);
    sum += error;
    squares += error * error;
    ++errors.fleets;
  }
  if (errors.fleets > 0) {
    errors.residual = std::sqrt(squares / errors.fleets);
    errors.bias = sum / errors.fleets;
  }
  return errors;
}

/// The residual of a fit of two coefficients. Two fleets with the expected error count in addition,
/// in place of those that the coefficients fit, so that few fleets give a large residual.
double StatedResidual(const SpeedModel& model, std::span<const FleetCase> cases) {
  constexpr double kExpected = 0.05;
  const double found = CheckCases(model, cases).residual;
  const double count = static_cast<double>(cases.size());
  return std::sqrt(found * found + 2 * kExpected * kExpected / count);
}

double SoftCost(const SpeedModel& model, std::span<const FleetCase> cases) {
  double cost = 0;
  for (const FleetCase& one : cases) {
    const double soft = SoftResidual(LogError(model, one), kWildTimeError);
    cost += soft * soft;
  }
  return cost;
}

}  // namespace

FleetErrors CheckFleets(const SpeedModel& model, std::span<const proto::FleetSample> fleets) {
  return CheckCases(model, CasesOf(model.classes(), fleets));
}

Result<proto::QueueFit> FitQueue(const FitJob& job, std::span<const proto::FleetSample> fleets) {
  const std::vector<FleetCase> cases = CasesOf(job.classes, fleets);
  const auto is_shared = [](const FleetCase& one) { return one.workers > 1; };
  if (cases.size() < 3 || std::ranges::none_of(cases, is_shared)) {
    return Status::InvalidArgument(fmt::format(
        "the queue needs 3 measured fleets of profiled workers, one of 2 workers or "
        "more; there are {}",
        cases.size()));
  }
  // Overhead between nothing and all of the fastest worker's measured step.
  double step_min_s = std::numeric_limits<double>::infinity();
  for (const FleetCase& one : cases) {
    step_min_s = std::min(step_min_s, one.workers / one.steps_per_s * job.traffic.local_steps);
  }
  // What hides behind computation can't be told from speeds. A lone worker's rate was measured
  // while it waited for its bytes: overhead is part of that time.
  double overhead_max_s = step_min_s;
  for (const WorkerClass& worker : job.classes) {
    if (worker.link_bytes_per_s > 0) {
      const double alone_s =
          (job.traffic.push_bytes + job.traffic.pull_bytes) / worker.link_bytes_per_s;
      overhead_max_s = std::min(overhead_max_s, alone_s);
    }
  }
  // Two workers tell nothing of how links are shared: whether they fall into step, one computing
  // while the other's bytes travel, says little of larger fleets
  // (docs/measurements/provisioner.md).
  const bool tells_sharing =
      std::ranges::any_of(cases, [](const FleetCase& one) { return one.workers > 2; });
  const auto share_of = [tells_sharing](double fitted) { return tells_sharing ? fitted : 1; };
  // Where nothing is known of how links are shared, they are shared in equal parts and cost
  // nothing: a pull too weak to matter where something is known.
  const double pull = 1e-3 * kWildTimeError * kWildTimeError * static_cast<double>(cases.size());
  const auto cost = [&](double fitted_share, double overhead) {
    const double wait_share = share_of(fitted_share);
    const QueueSpeedModel model(
        job.classes,
        job.traffic,
        {.wait_share = wait_share, .overhead_s = overhead * overhead_max_s});
    return SoftCost(model, cases) + pull * ((1 - wait_share) * (1 - wait_share) + overhead);
  };
  const GridMinimum best = MinimiseOnGrid(cost, {0.04, 1}, {0, 1});
  proto::QueueFit fit{
      .wait_share = share_of(best.first), .overhead_s = best.second * overhead_max_s};
  fit.samples = static_cast<int>(cases.size());
  fit.residual = StatedResidual(QueueSpeedModel(job.classes, job.traffic, fit), cases);
  return fit;
}

Result<proto::ContentionFit> FitContention(
    const FitJob& job, std::span<const proto::FleetSample> fleets) {
  const auto has_no_rate = [](const WorkerClass& worker) { return worker.link_bytes_per_s <= 0; };
  if (std::ranges::any_of(job.classes, has_no_rate)) {
    return Status::InvalidArgument(
        "contention needs the rate that one worker takes when servers don't hold it back "
        "(request_bytes_per_s)");
  }
  const std::vector<FleetCase> cases = CasesOf(job.classes, fleets);
  std::set<int> sizes;
  bool is_contended = false;
  for (const FleetCase& one : cases) {
    sizes.insert(one.workers);
    double request = 0;
    for (size_t k = 0; k < job.classes.size(); ++k) {
      request += one.counts[k] * job.classes[k].link_bytes_per_s;
    }
    is_contended |= request > one.servers.hosts * one.servers.link_bytes_per_s;
  }
  if (sizes.size() < 3) {
    return Status::InvalidArgument(fmt::format(
        "contention needs fleets of 3 sizes, say 2, 4 and 7 workers; there are {}", sizes.size()));
  }
  if (!is_contended) {
    return Status::InvalidArgument(
        "contention needs a fleet whose workers ask for more than the servers' network has; none "
        "of those measured does");
  }
  // By P at the smallest and the largest size, where its range is known.
  const double root_low = std::sqrt(static_cast<double>(*sizes.begin()));
  const double root_high = std::sqrt(static_cast<double>(*sizes.rbegin()));
  const auto fit_of = [&](double p_low, double p_high) {
    const double a1 = (p_high - p_low) / (root_high - root_low);
    return proto::ContentionFit{.a1 = a1, .b1 = p_low - a1 * root_low};
  };
  const auto cost = [&](double p_low, double p_high) {
    return SoftCost(SpotDnnSpeedModel(job.classes, job.traffic, fit_of(p_low, p_high), {}), cases);
  };
  const GridMinimum best = MinimiseOnGrid(cost, {-1, 1.5}, {-0.5, 2.5});
  proto::ContentionFit fit = fit_of(best.first, best.second);
  fit.samples = static_cast<int>(cases.size());
  fit.residual = StatedResidual(SpotDnnSpeedModel(job.classes, job.traffic, fit, {}), cases);
  return fit;
}

}  // namespace ps::provisioner
