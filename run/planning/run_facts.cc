#include "run/planning/run_facts.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "provisioner/model/prediction_interval.h"
#include "provisioner/profile/local_steps.h"
#include "ps/base/text.h"
#include "ps/json/json_value.h"
#include "ps/proto/job/optimizer_rules.h"

namespace ps::run {
namespace {

constexpr double kStepsMin = 20;       // minibatches of a type, for its speed to count
constexpr double kWorthSaying = 0.05;  // a change of a step's time

std::vector<provisioner::TypeCount> FleetOf(const proto::JobConfig& config) {
  std::vector<provisioner::TypeCount> fleet;
  for (const proto::WorkerGroup& group : config.workers) {
    const auto same = std::ranges::find(fleet, group.type, &provisioner::TypeCount::instance_type);
    if (same != fleet.end()) {
      same->count += static_cast<int>(group.count);
    } else if (group.count > 0) {
      fleet.push_back({group.type, static_cast<int>(group.count), 0});
    }
  }
  return fleet;
}

/// Samples of a minibatch, where all workers make equally many.
double MeanMinibatch(const proto::JobConfig& config) {
  double samples = 0;
  double workers = 0;
  for (const proto::WorkerGroup& group : config.workers) {
    const uint32_t minibatch = group.minibatch > 0 ? group.minibatch : config.train.minibatch;
    samples += double{1} * group.count * minibatch;
    workers += group.count;
  }
  return workers > 0 ? samples / workers : config.train.minibatch;
}

Result<double> NumberIn(const JsonValue& root, const std::string& path, const std::string& field) {
  const JsonValue* const value = root.Find(field);
  double number = 0;
  if (value != nullptr && value->kind == JsonValue::Kind::kNumber) {
    const char* const end = value->text.data() + value->text.size();
    const auto [stopped, error] = std::from_chars(value->text.data(), end, number);
    if (error == std::errc() && stopped == end && std::isfinite(number) && number >= 0) {
      return number;
    }
  }
  return Status::InvalidArgument(fmt::format(
      "{} has no {}, so nothing can be planned for what is left", Printable(path), field));
}

/// 0 where an older program has not written it.
Result<double> NumberIfIn(
    const JsonValue& root, const std::string& path, const std::string& field) {
  return root.Find(field) == nullptr ? Result<double>(0.0) : NumberIn(root, path, field);
}

/// Ages of the workers of a type that take part, in seconds, the oldest first.
std::vector<double> AgesOfType(const proto::JobStatus& status, const std::string& type) {
  std::vector<double> out;
  for (const proto::WorkerRow& row : status.workers) {
    if (row.type == type && row.incarnation != Incarnation() && !row.is_gone() && row.age_s > 0) {
      out.push_back(row.age_s);
    }
  }
  std::ranges::sort(out, std::ranges::greater());
  return out;
}

/// `held` cut into machines that are about equally old, and those of no known age.
void AddByAge(
    const provisioner::TypeCount& held,
    std::vector<double> ages,
    std::vector<provisioner::TypeCount>* out) {
  const auto count = static_cast<size_t>(held.count);
  ages.resize(std::min(ages.size(), count));
  const size_t parts = std::min(ages.size(), kAgesPerType);
  for (size_t part = 0; part < parts; ++part) {
    const size_t begin = part * ages.size() / parts;
    const size_t end = (part + 1) * ages.size() / parts;
    double sum = 0;
    for (size_t i = begin; i < end; ++i) {
      sum += ages[i];
    }
    const double age_s = std::round(sum / static_cast<double>(end - begin));
    const bool is_same = !out->empty() && out->back().instance_type == held.instance_type &&
                         out->back().age_s == age_s;
    if (is_same) {
      out->back().count += static_cast<int>(end - begin);
    } else {
      out->push_back({held.instance_type, static_cast<int>(end - begin), held.minibatch, age_s});
    }
  }
  if (const size_t fresh = count - ages.size(); fresh > 0) {
    if (!out->empty() && out->back().instance_type == held.instance_type &&
        out->back().age_s == 0) {
      out->back().count += static_cast<int>(fresh);
    } else {
      out->push_back({held.instance_type, static_cast<int>(fresh), held.minibatch});
    }
  }
}

double LowestUsd(const proto::InstanceType& type) {
  const proto::SpotPrice* const spot = provisioner::LowestSpot(type);
  const double usd = spot == nullptr ? type.on_demand_usd_per_hour
                                     : std::min(spot->usd_per_hour, type.on_demand_usd_per_hour);
  return usd + type.disk_usd_per_hour;
}

}  // namespace

RunFacts FactsOf(const proto::JobStatus& status, const proto::JobConfig& config) {
  RunFacts facts;
  facts.loss = status.train_loss;
  facts.steps = provisioner::MinibatchesCounted(status, config.train.local_steps);
  facts.seconds = status.elapsed_s;
  facts.usd = status.usd_spent + status.traffic.usd;
  facts.scheme = provisioner::SchemeOf(status.steps.in_force);
  facts.samples_per_s = status.samples_per_s;
  facts.workers_listed = static_cast<int>(proto::WorkersOfRate(config, status.mode));
  for (const proto::FleetRow& row : status.fleet) {
    if (row.present > 0) {
      facts.held.push_back({row.type, static_cast<int>(row.present), 0});
    }
  }
  for (const provisioner::TypeCount& held : facts.held) {
    AddByAge(held, AgesOfType(status, held.instance_type), &facts.held_by_age);
  }
  facts.done_by = facts.held.empty() ? FleetOf(config) : facts.held;
  const uint32_t servers = status.servers.count > 0 ? status.servers.count : config.servers.count;
  facts.server_hosts = static_cast<int>(std::max<uint32_t>(servers, 1));
  return facts;
}

Result<RunFacts> FactsOfEnded(
    std::string_view summary, const std::string& path, const proto::JobConfig& config) {
  PS_ASSIGN(const JsonValue root, ParseJson(summary, path));
  if (root.kind != JsonValue::Kind::kObject) {
    return Status::InvalidArgument(fmt::format("{} is no summary of a run", Printable(path)));
  }
  RunFacts facts;
  PS_ASSIGN(facts.loss, NumberIn(root, path, "train_loss"));
  PS_ASSIGN(facts.steps, NumberIn(root, path, "steps_counted"));
  if (config.train.local_steps > 1) {
    PS_ASSIGN(const double samples, NumberIn(root, path, "samples_counted"));
    facts.steps = samples / MeanMinibatch(config);
  }
  PS_ASSIGN(facts.seconds, NumberIn(root, path, "elapsed_s"));
  PS_ASSIGN(const double machines_usd, NumberIfIn(root, path, "usd_spent"));
  PS_ASSIGN(const double traffic_usd, NumberIfIn(root, path, "traffic_usd"));
  facts.usd = machines_usd + traffic_usd;
  facts.scheme = provisioner::SchemeOf(config);
  facts.workers_listed = static_cast<int>(proto::WorkersOfRate(config, config.train.mode));
  facts.done_by = FleetOf(config);
  facts.server_hosts = static_cast<int>(std::max<uint32_t>(config.servers.count, 1));
  return facts;
}

std::vector<MeasuredStep> MeasuredSteps(
    const proto::JobStatus& status, const proto::JobConfig& config) {
  struct Sum {
    double compute_s = 0;
    double minibatches = 0;
  };

  std::map<std::pair<std::string, int>, Sum> sums;
  for (const proto::WorkerRow& row : status.workers) {
    // Where the minibatch changes, steps are of many sizes.
    if (row.is_gone() || row.type.empty() || row.stats.steps == 0 ||
        config.train.batch_policy != proto::BatchPolicy::kFixed) {
      continue;
    }
    Sum& sum = sums[{row.type, static_cast<int>(row.minibatch)}];
    sum.compute_s += row.stats.compute_s;
    sum.minibatches +=
        provisioner::MinibatchesOf(row.stats, row.minibatch, config.train.local_steps);
  }
  std::vector<MeasuredStep> measured;
  for (const auto& [key, sum] : sums) {
    if (sum.minibatches >= kStepsMin && sum.compute_s > 0) {
      measured.push_back(
          {key.first,
           key.second,
           sum.compute_s / sum.minibatches,
           static_cast<uint64_t>(std::llround(sum.minibatches))});
    }
  }
  return measured;
}

std::vector<std::string> UseMeasured(
    const std::vector<MeasuredStep>& measured, proto::JobProfile* profile) {
  std::vector<std::string> changes;
  for (const MeasuredStep& step : measured) {
    for (proto::WorkerProfile& worker : profile->workers) {
      if (worker.instance_type != step.instance_type || worker.minibatch != step.minibatch) {
        continue;
      }
      const double change = step.compute_s / worker.compute_s - 1;
      if (std::abs(change) > kWorthSaying) {
        changes.push_back(fmt::format(
            "a step of {}:{} takes {:.4g} s in this run, {:+.0f} % of the profile's {:.4g} s",
            Printable(step.instance_type),
            step.minibatch,
            step.compute_s,
            100 * change,
            worker.compute_s));
      }
      worker.compute_s = step.compute_s;
    }
  }
  return changes;
}

double ConfidenceOf(const proto::GoalConfig& goal) {
  return std::min<double>(goal.confidence, provisioner::kConfidenceMax);
}

std::string RunServers::Note() const {
  if (type == nullptr) {
    return "";
  }
  return is_head
             ? fmt::format(
                   "the run's servers count as one {} (launch.rent.head)", Printable(type->name))
             : fmt::format(
                   "the run's servers count as {}, the cheapest type of the catalog that may "
                   "hold parameters",
                   Printable(type->name));
}

RunServers ServersOf(const proto::Catalog& catalog, const proto::JobConfig& config) {
  const proto::InstanceType* const head = catalog.Find(config.launch.rent.head.type);
  if (head != nullptr && head->is_server_host) {
    return {head, true};
  }
  const auto usd_of = [](const proto::InstanceType& type) {
    return type.on_demand_usd_per_hour + type.disk_usd_per_hour;
  };
  // A run on its head knows of that what it costs.
  const double head_usd =
      config.launch.rent.head.type.empty() ? double{config.launch.rent.head.usd_per_hour} : 0;
  const auto cost_of = [&](const proto::InstanceType& type) {
    return head_usd > 0 ? std::abs(usd_of(type) - head_usd) : usd_of(type);
  };
  RunServers servers;
  servers.is_head = head_usd > 0;
  for (const proto::InstanceType& type : catalog.types) {
    const bool is_nearer = servers.type == nullptr || cost_of(type) < cost_of(*servers.type);
    servers.type = type.is_server_host && is_nearer ? &type : servers.type;
  }
  return servers;
}

double UsdPerHour(
    const proto::Catalog& catalog,
    const std::vector<provisioner::TypeCount>& workers,
    const RunServers& servers,
    int server_hosts) {
  double usd = 0;
  for (const provisioner::TypeCount& count : workers) {
    if (const proto::InstanceType* const type = catalog.Find(count.instance_type)) {
      usd += count.count * LowestUsd(*type);
    }
  }
  return servers.type == nullptr ? usd
                                 : usd + server_hosts * (servers.type->on_demand_usd_per_hour +
                                                         servers.type->disk_usd_per_hour);
}

std::string FleetText(const std::vector<provisioner::TypeCount>& workers) {
  std::string text;
  for (const provisioner::TypeCount& count : workers) {
    if (count.count > 0) {
      text += fmt::format(
          "{}{} {}", text.empty() ? "" : ", ", count.count, Printable(count.instance_type));
    }
  }
  return text.empty() ? "nobody" : text;
}

std::vector<std::string> FleetFlags(const std::vector<provisioner::TypeCount>& workers) {
  std::vector<std::string> flags;
  for (const provisioner::TypeCount& count : workers) {
    const std::string age = count.age_s > 0 ? fmt::format("@{:.0f}s", count.age_s) : "";
    flags.push_back(fmt::format("{}={}{}", count.instance_type, count.count, age));
  }
  return flags;
}

}  // namespace ps::run
