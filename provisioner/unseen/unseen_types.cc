#include "provisioner/unseen/unseen_types.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "provisioner/model/prediction_interval.h"
#include "provisioner/unseen/measured_jobs.h"
#include "provisioner/unseen/transfer_law.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

constexpr int kUnitsMax = 1024;  // devices or vCPUs of a machine
// spotDNN (Fig. 2b): up to 25.6 % from two to eight devices in a host, so for each doubling.
constexpr double kReachOfDoubling = 0.15;

/// A type that was measured.
struct Source {
  const proto::WorkerProfile* worker = nullptr;
  MachineFigures machine;
};

std::optional<MachineFigures> MachineOf(const proto::InstanceType& type) {
  const auto figures = FiguresOf(type.device, type.vcpus);
  if (!figures) {
    return std::nullopt;
  }
  return MachineFigures{type.device, *figures, figures->is_processor ? 1 : type.devices};
}

Result<std::vector<Source>> SourcesOf(
    const proto::Catalog& catalog,
    const UnseenRequest& request,
    const std::vector<proto::WorkerProfile>& workers) {
  std::vector<Source> sources;
  std::string unknown;
  for (const proto::WorkerProfile& worker : workers) {
    const auto is_same = [&](const Source& source) {
      return source.worker->instance_type == worker.instance_type;
    };
    if (!(worker.compute_s > 0 && worker.minibatch > 0) || std::ranges::any_of(sources, is_same)) {
      continue;
    }
    std::optional<MachineFigures> machine;
    if (const auto said = request.measured_on.find(worker.instance_type);
        said != request.measured_on.end()) {
      machine = said->second;
    } else if (const proto::InstanceType* const type = catalog.Find(worker.instance_type)) {
      machine = MachineOf(*type);
    }
    if (machine) {
      sources.push_back({&worker, *std::move(machine)});
    } else {
      unknown = worker.instance_type;
    }
  }
  if (sources.empty()) {
    return Status::InvalidArgument(fmt::format(
        "other types can't be reckoned from {}, since nobody says what machine that is: name its "
        "device, as in --measured-on {}=V100, or {}=cpux16 for 16 vCPUs",
        unknown.empty() ? "a profile without step times" : Printable(unknown),
        unknown.empty() ? "local" : Printable(unknown),
        unknown.empty() ? "local" : Printable(unknown)));
  }
  return sources;
}

/// Seconds of one device for its part of a minibatch, by the sample.
double SecondsOfSample(const Source& source) {
  return source.worker->compute_s / source.worker->minibatch * source.machine.devices;
}

/// Adds what the sources tell of devices, if they are several.
void AddOwn(
    const std::string& model, const std::vector<Source>& sources, std::vector<MeasuredJob>* jobs) {
  MeasuredJob own;
  own.model = model;
  for (const Source& source : sources) {
    own.times.push_back({source.machine.figures, SecondsOfSample(source)});
  }
  if (own.times.size() > 1) {
    jobs->push_back(std::move(own));
  }
}

Result<TransferLaw> LearnWith(
    const proto::Catalog& catalog,
    const UnseenRequest& request,
    const std::vector<Source>& sources) {
  std::vector<MeasuredJob> jobs = PublishedJobs();
  AddOwn("the profile", sources, &jobs);
  for (const proto::JobProfile& other : request.others) {
    const Result<std::vector<Source>> known = SourcesOf(catalog, request, other.workers);
    if (!known.ok() || known->size() < 2) {
      return Status::InvalidArgument(fmt::format(
          "the profile of {} has no two types whose devices are known, so nothing can be learned "
          "from it of how devices differ",
          Printable(other.job)));
    }
    AddOwn(other.job, *known, &jobs);
  }
  return TransferLaw::Learn(jobs);
}

/// The largest minibatch whose worth to the loss can be told.
int LargestMinibatch(const proto::JobProfile& profile) {
  if (profile.curves.samples > 0) {
    return std::numeric_limits<int>::max();
  }
  int largest = 1;
  for (const proto::WorkerProfile& worker : profile.workers) {
    largest = std::max({largest, worker.minibatch, worker.minibatch_max});
  }
  return largest;
}

double Doublings(int from, int to) {
  return std::abs(std::log2(static_cast<double>(to) / from));
}

UnseenType Reckon(
    const TransferLaw& law,
    const std::vector<Source>& sources,
    const std::string& name,
    const MachineFigures& machine,
    int minibatch_max,
    double inside) {
  const auto reach_from = [&](const Source& source, double probability) {
    const double of_devices = kReachOfDoubling * Doublings(source.machine.devices, machine.devices);
    return std::hypot(
        law.LogReach(source.machine.figures, machine.figures, probability), of_devices);
  };
  const Source& source = *std::ranges::min_element(
      sources, {}, [&](const Source& one) { return reach_from(one, inside); });
  const double reach = reach_from(source, inside);
  UnseenType type;
  type.instance_type = name;
  type.from = source.worker->instance_type;
  type.from_device = source.machine.device;
  const int64_t of_devices =
      int64_t{source.worker->minibatch} * machine.devices / source.machine.devices;
  type.minibatch = static_cast<int>(std::clamp<int64_t>(of_devices, 1, minibatch_max));
  type.compute_s = SecondsOfSample(source) * type.minibatch / machine.devices *
                   std::exp(-law.LogSpeedup(source.machine.figures, machine.figures));
  type.low_s = type.compute_s * std::exp(-reach);
  type.high_s = type.compute_s * std::exp(reach);
  type.deviation = reach / ErrorQuantile((1 + inside) / 2);
  return type;
}

proto::WorkerProfile WorkerOf(
    const UnseenType& type, const proto::WorkerProfile& source, bool is_other_kind) {
  proto::WorkerProfile worker = source;
  worker.instance_type = type.instance_type;
  worker.minibatch = type.minibatch;
  worker.compute_s = type.compute_s;
  worker.compute_stddev_s = 0;
  worker.steps_measured = 0;
  worker.minibatch_max = 0;
  if (is_other_kind) {
    worker.host_bytes = 0;
    worker.device_bytes = 0;
  }
  return worker;
}

bool IsIn(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

Result<MachineFigures> ParseMachine(const std::string& text) {
  std::string device = text;
  int units = 1;
  if (const size_t x = text.rfind('x'); x != std::string::npos && x + 1 < text.size()) {
    const char* const end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data() + x + 1, end, units);
    if (error == std::errc() && last == end) {
      device = text.substr(0, x);
    } else {
      units = 1;
    }
  }
  const auto figures = FiguresOf(device, units);
  if (!figures || units < 1 || units > kUnitsMax) {
    return Status::InvalidArgument(fmt::format(
        "'{}' is no machine that is known; wanted is a device, as in V100, several, as in T4x4, or "
        "vCPUs, as in cpux16; devices: {}",
        Printable(text),
        Join(KnownDevices())));
  }
  return MachineFigures{device, *figures, figures->is_processor ? 1 : units};
}

Result<std::vector<UnseenType>> AddUnseenTypes(
    const proto::Catalog& catalog, const UnseenRequest& request, proto::JobProfile* profile) {
  const std::vector<proto::WorkerProfile> measured = profile->workers;
  PS_ASSIGN(const std::vector<Source> sources, SourcesOf(catalog, request, measured));
  PS_ASSIGN(const TransferLaw law, LearnWith(catalog, request, sources));
  const int minibatch_max = LargestMinibatch(*profile);
  std::vector<UnseenType> unseen;
  for (const proto::InstanceType& type : catalog.types) {
    const bool is_named = IsIn(request.types, type.name);
    const bool is_wanted = request.types.empty() ? type.device != "cpu" : is_named;
    if (!is_wanted || IsIn(request.left_out, type.name) || profile->Find(type.name) != nullptr) {
      continue;
    }
    const std::optional<MachineFigures> machine = MachineOf(type);
    if (!machine) {
      if (is_named) {
        return Status::NotFound(fmt::format(
            "{} can't be reckoned: nothing is known of the device {}; profile it there with psctl "
            "profile --type {}, or leave it out; devices: {}",
            type.name,
            Printable(type.device),
            type.name,
            Join(KnownDevices())));
      }
      continue;
    }
    UnseenType one = Reckon(law, sources, type.name, *machine, minibatch_max, request.inside);
    const auto source = std::ranges::find_if(
        sources, [&](const Source& some) { return some.worker->instance_type == one.from; });
    profile->workers.push_back(WorkerOf(
        one,
        *source->worker,
        source->machine.figures.is_processor != machine->figures.is_processor));
    unseen.push_back(std::move(one));
  }
  return unseen;
}

}  // namespace ps::provisioner
