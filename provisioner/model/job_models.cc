#include "provisioner/model/job_models.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "provisioner/model/curve_model.h"
#include "provisioner/model/listed_rate_loss.h"
#include "provisioner/model/local_steps_loss.h"
#include "provisioner/model/profile_fit.h"
#include "provisioner/model/queue_model.h"
#include "provisioner/model/spotdnn_model.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

constexpr double kBytesPerGbit = 1e9 / 8;
constexpr double kBytesPerGbyte = 1e9;

// The relative error of a model when no fleet was measured: that of the queue on published clusters
// to which it was not fitted, rounded up.
constexpr double kResidualUnmeasured = 0.1;

Result<WorkerClass> WorkerOf(
    const proto::JobProfile& profile,
    const proto::InstanceType& type,
    const proto::WorkerProfile& measured) {
  if (measured.compute_s <= 0 || measured.minibatch <= 0) {
    return Status::InvalidArgument(fmt::format(
        "the profile for {} has no step time: run `psctl profile` there again", type.name));
  }
  WorkerClass worker;
  worker.name = type.name;
  worker.compute_s = measured.compute_s;
  worker.samples = measured.minibatch;
  worker.devices = type.devices;
  if (measured.excludes_pcie) {
    worker.pcie_bytes_per_s = type.pcie_gbyte_per_s * kBytesPerGbyte;
  }
  worker.link_bytes_per_s = type.network_gbit_per_s * kBytesPerGbit;
  if (const double request = RequestBytesPerS(profile); request > 0) {
    worker.link_bytes_per_s = std::min(worker.link_bytes_per_s, request);
  }
  return worker;
}

/// Appends a class, and its memory, for each minibatch of a type that the profile has figures of.
Status AddClasses(
    const proto::Catalog& catalog,
    const proto::JobProfile& profile,
    const std::string& name,
    double deviation,
    std::vector<WorkerClass>* classes,
    std::vector<WorkerNeed>* needs) {
  const proto::InstanceType* type = catalog.Find(name);
  if (type == nullptr) {
    return Status::NotFound(fmt::format("no type {} in the catalog of {}", name, catalog.provider));
  }
  if (profile.Find(name) == nullptr) {
    return Status::NotFound(
        fmt::format("no profile for {}: run `psctl profile` there or leave it out", name));
  }
  for (const proto::WorkerProfile& measured : profile.workers) {
    if (measured.instance_type == name) {
      PS_ASSIGN(WorkerClass worker, WorkerOf(profile, *type, measured));
      worker.deviation = deviation;
      classes->push_back(std::move(worker));
      needs->push_back(WorkerNeedOf(profile, measured, type->device != "cpu"));
    }
  }
  return Status::Ok();
}

std::vector<std::string> TypesOf(
    const proto::Catalog& catalog,
    const proto::JobProfile& profile,
    const JobModelOptions& options,
    std::vector<std::string>* not_profiled) {
  const auto is_left_out = [&](const std::string& name) {
    return std::ranges::find(options.left_out, name) != options.left_out.end();
  };
  std::vector<std::string> types;
  if (!options.instance_types.empty()) {
    std::ranges::remove_copy_if(options.instance_types, std::back_inserter(types), is_left_out);
    return types;
  }
  for (const proto::InstanceType& type : catalog.types) {
    if (is_left_out(type.name)) {
      continue;
    }
    if (profile.Find(type.name) != nullptr) {
      types.push_back(type.name);
    } else if (!type.is_server_host) {
      not_profiled->push_back(type.name);
    }
  }
  return types;
}

/// The smallest batch that spotDNN's equation can be taken to know: of the curves, and of each
/// type's usual minibatch, the largest.
double LeastBatch(const std::vector<WorkerClass>& classes, const proto::JobProfile& profile) {
  std::map<std::string, double> usual;
  for (const WorkerClass& worker : classes) {
    usual[worker.name] = std::max(usual[worker.name], worker.samples);
  }
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [type, samples] : usual) {
    least = std::min(least, samples);
  }
  for (const proto::LossSample& sample : profile.losses) {
    least = sample.batch_mean > 0 ? std::min(least, sample.batch_mean) : least;
  }
  return least;
}

SpotDnnVariant VariantOf(const JobModelOptions& options) {
  return options.speed_model == "spotdnn-prototype" ? SpotDnnVariant::kPrototype
                                                    : SpotDnnVariant::kPaper;
}

bool IsSpotDnn(const JobModelOptions& options) {
  return options.speed_model == "spotdnn" || VariantOf(options) == SpotDnnVariant::kPrototype;
}

/// Its contention is fitted to how often workers exchange, and its program exchanges every step.
Status CheckSpotDnnSteps(
    const JobTraffic& traffic, const proto::JobProfile& profile, const JobModelOptions& options) {
  if (VariantOf(options) == SpotDnnVariant::kPrototype && traffic.local_steps > 1) {
    return Status::InvalidArgument(fmt::format(
        "the model \"spotdnn-prototype\" knows no local steps, and these are {}: use the model "
        "\"queue\"",
        traffic.local_steps));
  }
  if (traffic.local_steps != profile.local_steps) {
    return Status::InvalidArgument(fmt::format(
        "the model \"spotdnn\" has its contention from fleets with {} local steps and can't tell "
        "that of {}: use the model \"queue\"",
        profile.local_steps,
        traffic.local_steps));
  }
  return Status::Ok();
}

Result<std::unique_ptr<SpeedModel>> SpeedOf(
    const std::vector<WorkerClass>& classes,
    const JobTraffic& traffic,
    const proto::JobProfile& profile,
    const JobModelOptions& options) {
  std::unique_ptr<SpeedModel> model;
  if (options.speed_model == "queue") {
    proto::QueueFit fit = profile.queue;
    if (fit.samples == 0) {
      fit.residual = kResidualUnmeasured;
    }
    model = std::make_unique<QueueSpeedModel>(classes, traffic, fit);
  } else if (IsSpotDnn(options)) {
    PS_TRY(CheckSpotDnnSteps(traffic, profile, options));
    if (profile.contention.samples == 0) {
      return Status::InvalidArgument(fmt::format(
          "the profile of {} has no fitted contention, which the model \"{}\" needs: measure "
          "fleets of several sizes, or use the model \"queue\"",
          profile.job,
          options.speed_model));
    }
    std::vector<WorkerClass> workers = classes;
    if (VariantOf(options) == SpotDnnVariant::kPrototype) {
      for (WorkerClass& worker : workers) {
        const double iteration_s = IterationSeconds(worker, traffic);
        worker.compute_s = PrototypeComputeSeconds(iteration_s, worker, traffic);
        worker.iteration_s = iteration_s;
      }
    }
    model = std::make_unique<SpotDnnSpeedModel>(
        std::move(workers),
        traffic,
        profile.contention,
        SpotDnnOptions{VariantOf(options), options.contention_margin});
  } else if (options.speed_model == "ideal") {
    const IdealSpeedModel ideal(classes, TrafficOf(profile), 0);  // as the fleets were measured
    const FleetErrors errors = CheckFleets(ideal, profile.fleets);
    model = std::make_unique<IdealSpeedModel>(
        classes, traffic, errors.fleets == 0 ? kResidualUnmeasured : errors.residual);
  } else {
    return Status::InvalidArgument(fmt::format(
        "no speed model \"{}\": use queue, spotdnn, spotdnn-prototype or ideal",
        options.speed_model));
  }
  return model;
}

/// Why no class is left: the profile is of other machines, or its types are left out.
Status NoTypeStatus(const proto::Catalog& catalog, const proto::JobProfile& profile) {
  const auto is_in_catalog = [&](const proto::WorkerProfile& worker) {
    return catalog.Find(worker.instance_type) != nullptr;
  };
  if (profile.workers.empty() || std::ranges::any_of(profile.workers, is_in_catalog)) {
    return Status::InvalidArgument(fmt::format(
        "no type of the catalog has a profile of {}: run `psctl profile` on one", profile.job));
  }
  const std::string& type = profile.workers.front().instance_type;
  const bool is_here = type.starts_with("local");
  return Status::InvalidArgument(fmt::format(
      "no type of the catalog has a profile of {}, which was measured on {}: {}; or let others be "
      "reckoned: --unseen --measured-on {}=DEVICE, as in V100 or cpux16; or measure there: psctl "
      "profile --type NAME",
      profile.job,
      Printable(type),
      is_here ? "to plan for this machine, --catalog configs/catalog/this_machine.json"
              : "give the catalog that has it with --catalog",
      Printable(type)));
}

}  // namespace

JobTraffic TrafficOf(const proto::JobProfile& profile, const ExchangeChange& change) {
  const Exchange exchange = ExchangeOf(profile, change);
  const double push_bytes = exchange.push_bytes;
  const double pull_bytes = exchange.pull_bytes;
  JobTraffic traffic;
  traffic.push_bytes = push_bytes;
  traffic.pull_bytes = pull_bytes;
  (push_bytes < pull_bytes ? traffic.push_bytes : traffic.pull_bytes) *= 1 - exchange.overlap;
  const double counted_bytes = traffic.push_bytes + traffic.pull_bytes;
  traffic.round_trip = counted_bytes > 0 ? (push_bytes + pull_bytes) / counted_bytes : 1;
  // Gradients leave a device as they leave the worker: in half the bytes when they are bf16. Those
  // of local steps leave it with every minibatch, in f32.
  const double out_bytes = exchange.local_steps > 1 ? profile.parameter_bytes : push_bytes;
  traffic.pcie_bytes = (profile.parameter_bytes + std::min(out_bytes, profile.parameter_bytes)) *
                       exchange.local_steps;
  traffic.local_steps = exchange.local_steps;
  traffic.overlap = exchange.overlap;
  return traffic;
}

double RequestBytesPerS(const proto::JobProfile& profile) {
  constexpr double kHeldBack = 0.8;  // of what the servers' links carry
  for (const proto::FleetSample& fleet : profile.fleets) {
    const double servers = fleet.server_hosts * fleet.server_bytes_per_s;
    if (fleet.workers.size() == 1 && servers > 0 &&
        profile.request_bytes_per_s > kHeldBack * servers) {
      return 0;
    }
  }
  return profile.request_bytes_per_s;
}

ServerSide ServersOf(const proto::InstanceType& type, int hosts) {
  return {.hosts = hosts, .link_bytes_per_s = type.network_gbit_per_s * kBytesPerGbit};
}

Result<JobModels> BuildJobModels(
    const proto::Catalog& catalog,
    const proto::JobProfile& profile,
    const JobModelOptions& options) {
  if (profile.parameter_bytes <= 0) {
    return Status::InvalidArgument(
        fmt::format("the profile of {} has no parameter_bytes", profile.job));
  }
  JobModels models;
  std::vector<WorkerClass> classes;
  for (const std::string& name : TypesOf(catalog, profile, options, &models.not_profiled)) {
    const auto reckoned = options.deviations.find(name);
    const double deviation = reckoned == options.deviations.end() ? 0 : reckoned->second;
    PS_TRY(AddClasses(catalog, profile, name, deviation, &classes, &models.worker_needs));
  }
  if (classes.empty()) {
    return NoTypeStatus(catalog, profile);
  }
  if (classes.size() > QueueSpeedModel::kClassesMax) {
    return Status::InvalidArgument(fmt::format(
        "{} types and minibatches of workers; at most {} are planned with: name the "
        "ones to use",
        classes.size(),
        QueueSpeedModel::kClassesMax));
  }
  const Exchange exchange = ExchangeOf(profile, options.exchange);
  models.traffic = TrafficOf(profile, options.exchange);
  models.server_need = ServerNeedOf(profile, options.exchange.held_bytes_max);
  models.push_bytes = exchange.push_bytes;
  models.pull_bytes = exchange.pull_bytes;
  for (const proto::FleetSample& fleet : profile.fleets) {
    models.measured.workers =
        std::max(models.measured.workers, static_cast<int>(fleet.workers.size()));
    models.measured.server_hosts = std::max(models.measured.server_hosts, fleet.server_hosts);
  }
  PS_ASSIGN(models.speed, SpeedOf(classes, models.traffic, profile, options));
  // spotDNN's equation goes with its speeds, and stands in where no curves were fitted.
  const bool is_spotdnn = IsSpotDnn(options) || profile.curves.samples == 0;
  if (profile.curves.samples > 0 && !(is_spotdnn && profile.loss.samples > 0)) {
    models.loss = std::make_unique<CurveLossModel>(profile.curves, options.progress);
  } else if (profile.loss.samples > 0) {
    models.loss = std::make_unique<SpotDnnLossModel>(
        profile.loss, VariantOf(options), LeastBatch(classes, profile), options.progress);
  }
  const ExchangeChange& change = options.exchange;
  if (models.loss != nullptr && (exchange.is_longer || change.samples != 1 ||
                                 change.samples_deviation > 0 || change.samples_workers > 0)) {
    models.loss =
        std::make_unique<LocalStepsLossModel>(std::move(models.loss), change, exchange.is_longer);
  }
  if (models.loss != nullptr && options.workers_listed > 0) {
    models.loss =
        std::make_unique<ListedRateLossModel>(std::move(models.loss), options.workers_listed);
  }
  return models;
}

}  // namespace ps::provisioner
