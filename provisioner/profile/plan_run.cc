#include "provisioner/profile/plan_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "provisioner/profile/fingerprint.h"
#include "provisioner/profile/local_steps.h"
#include "ps/base/text.h"
#include "ps/proto/job/traffic_price.h"

namespace ps::provisioner {
namespace {

/// A predicted time without what comes before the first step.
proto::Estimate Trained(const proto::Estimate& seconds, double before_s) {
  const auto less = [&](double all_s) { return std::max(all_s - before_s, 0.0); };
  return {less(seconds.value), less(seconds.low), less(seconds.high)};
}

/// Whether the launcher can place workers in the zone.
bool KnowsZone(const proto::LaunchConfig& launch, const std::string& zone) {
  return std::ranges::find(launch.zones, zone, &proto::ZoneConfig::name) != launch.zones.end() ||
         std::ranges::find(launch.hosts, zone, &proto::HostConfig::zone) != launch.hosts.end();
}

/// Machines and links of this machine that are as fast as those of the plan, in its zones where the
/// job has zones of such names.
void EmulatePlan(const proto::Plan& plan, proto::JobConfig* config) {
  config->workers.clear();
  for (const proto::PlanWorkers& planned : plan.workers) {
    if (planned.count <= 0) {
      continue;
    }
    proto::WorkerGroup group;
    group.count = static_cast<uint32_t>(planned.count);
    group.minibatch = static_cast<uint32_t>(std::max(planned.minibatch, 0));
    group.step_ms = static_cast<float>(1000 * planned.compute_s);
    group.link_mbit_per_s = MbitPerS(planned.link_bytes_per_s);
    group.type = planned.instance_type;
    if (!planned.zone.empty() && KnowsZone(config->launch, planned.zone)) {
      group.zones = {planned.zone};
    }
    config->workers.push_back(std::move(group));
  }
  config->servers.link_mbit_per_s = MbitPerS(plan.servers.link_bytes_per_s);
}

void AddOnce(const std::string& text, std::vector<std::string>* list) {
  if (!text.empty() && std::ranges::find(*list, text) == list->end()) {
    list->push_back(text);
  }
}

/// Whether a plan's zone is the region of the job's machines: providers' catalogs have prices of a
/// region, which hold in each of its zones.
bool IsRegion(const std::string& zone, const proto::RentConfig& rent) {
  return zone == rent.region || std::ranges::any_of(rent.zones, [&](const std::string& known) {
           return known.size() > zone.size() && known.starts_with(zone);
         });
}

/// Whether a plan's zone may be one of the job's machines. Compute Engine is told of zones alone.
bool IsInTheirRegion(const std::string& zone, const proto::RentConfig& rent) {
  if (!rent.region.empty() || rent.zones.empty()) {
    return zone.starts_with(rent.region);
  }
  return std::ranges::any_of(rent.zones, [&](const std::string& known) {
    return zone.starts_with(known.substr(0, known.rfind('-')));
  });
}

/// The machines themselves: types and zones of the plan, and all else of a worker as the job has it
/// for that type, or for its first group. Servers stay where the job has them.
Status RentPlan(const proto::Plan& plan, proto::JobConfig* config) {
  proto::RentConfig* const rent = &config->launch.rent;
  const proto::RentConfig before = *rent;
  std::vector<proto::WorkerGroup> groups;
  for (const proto::PlanWorkers& planned : plan.workers) {
    if (planned.count <= 0) {
      continue;
    }
    if ((planned.market == proto::Market::kSpot) != rent->spot) {
      return Status::InvalidArgument(fmt::format(
          "the plan has {} machines of {}, and launch.rent.spot is {}; a run rents all of one "
          "kind: "
          "plan for one market, or change launch.rent.spot",
          rent->spot ? "on-demand" : "spot",
          Printable(planned.instance_type),
          rent->spot));
    }
    const auto same =
        std::ranges::find(config->workers, planned.instance_type, &proto::WorkerGroup::type);
    proto::WorkerGroup group = same != config->workers.end() ? *same
                               : config->workers.empty()     ? proto::WorkerGroup()
                                                             : config->workers.front();
    group.count = static_cast<uint32_t>(planned.count);
    group.minibatch = static_cast<uint32_t>(std::max(planned.minibatch, 0));
    group.type = planned.instance_type;
    AddOnce(planned.instance_type, &rent->types);
    if (!planned.zone.empty() && !IsRegion(planned.zone, before)) {
      if (!IsInTheirRegion(planned.zone, before)) {
        return Status::InvalidArgument(fmt::format(
            "the plan has machines in {}, which is in no region of launch.rent ({}); plan with a "
            "catalog of that region, or change launch.rent",
            Printable(planned.zone),
            before.region.empty() ? Join(before.zones) : before.region));
      }
      group.zones = {planned.zone};
      AddOnce(planned.zone, &rent->zones);
    }
    groups.push_back(std::move(group));
  }
  config->workers = std::move(groups);
  return Status::Ok();
}

/// The prices of the list that was planned by, unless the job has its own, and the plan's place of
/// the servers, unless the job says it. Where nobody does, traffic is not counted.
void PriceTraffic(
    const proto::PlanTraffic& planned, const std::string& zone, proto::JobConfig* config) {
  proto::TrafficConfig* const traffic = &config->traffic;
  if (traffic->server_zone.empty() && config->launch.rent.head.type.empty()) {
    traffic->server_zone = zone;
  }
  const bool is_known = !traffic->server_zone.empty() || !config->launch.rent.head.type.empty();
  if (is_known && !proto::HasPrices(*traffic)) {
    traffic->zone_usd_per_gb = static_cast<float>(planned.zone_usd_per_gb);
    traffic->egress_usd_per_gb = static_cast<float>(planned.egress_usd_per_gb);
  }
}

}  // namespace

float MbitPerS(double bytes_per_s) {
  return static_cast<float>(bytes_per_s * 8 / 1e6);
}

Result<proto::JobConfig> ApplyPlan(
    proto::JobConfig config, const proto::Plan& plan, const std::string& model_fingerprint) {
  if (!plan.model_fingerprint.empty() && plan.model_fingerprint != model_fingerprint) {
    return Status::InvalidArgument(fmt::format(
        "the plan is for another model: its model_fingerprint is {}, this job's is {}; plan again "
        "with `psctl plan`",
        Printable(plan.model_fingerprint),
        model_fingerprint));
  }
  if (plan.loss_now > 0) {
    return Status::InvalidArgument(fmt::format(
        "the plan is of what is left of a run at loss {:g}: psctl scale gives that run its fleet; "
        "for a new run plan without --from-loss and --run",
        plan.loss_now));
  }
  if (plan.job != config.name) {
    return Status::InvalidArgument(fmt::format(
        "the plan is for another job: '{}', this one is '{}'; plan again with `psctl plan`, or say "
        "that they are the same with --set name={}",
        Printable(plan.job),
        Printable(config.name),
        Printable(plan.job)));
  }
  if (!TrainsLike(config, plan.training_fingerprint)) {
    return Status::InvalidArgument(fmt::format(
        "the plan is for a job that trains otherwise (data, model, optimizer or train differ), so "
        "its steps do not hold: its training_fingerprint is {}, this job's is {}; run the job as "
        "it was profiled, or profile it again with `psctl profile` and plan again",
        Printable(plan.training_fingerprint),
        TrainingFingerprint(config)));
  }
  if (proto::IsRented(config.launch.launcher)) {
    PS_TRY(RentPlan(plan, &config));
    PriceTraffic(plan.traffic, plan.servers.zone, &config);
  } else {
    EmulatePlan(plan, &config);
  }
  if (config.workers.empty()) {
    return Status::InvalidArgument("the plan has no workers, so there is nothing to run");
  }
  proto::ExchangeScheme scheme = SchemeOf(config);
  scheme.local_steps = plan.local_steps;
  scheme.push = plan.push.empty() ? scheme.push : plan.push;
  scheme.pull = plan.pull.empty() ? scheme.pull : plan.pull;
  PS_ASSIGN(config, WithScheme(std::move(config), scheme));
  config.servers.launch = true;
  config.servers.count = static_cast<uint32_t>(std::max(plan.servers.count, 1));
  if (plan.loss_target > 0) {
    config.run.stop_at_loss = static_cast<float>(plan.loss_target);
  }
  config.faults.clear();  // they name seats of another fleet
  return config;
}

std::string PlanNote(const proto::JobConfig& config, const proto::Plan& plan) {
  const std::string& head = config.launch.rent.head.type;
  const std::string& planned = plan.servers.instance_type;
  const bool is_other = !head.empty() && !planned.empty() && head != planned;
  if (!proto::IsRented(config.launch.launcher) || (plan.servers.count <= 1 && !is_other)) {
    return "";
  }
  return fmt::format(
      "the plan has its servers on {} of {}, and this run has them all on {}, whose network they "
      "share: it may be slower than planned{}",
      Plural(static_cast<size_t>(std::max(plan.servers.count, 1)), "machine"),
      planned.empty() ? "a type that it does not name" : Printable(planned),
      head.empty() ? "the machine of psctl" : "one " + head + " (launch.rent.head)",
      plan.servers.count > 1 ? "; plan with one server host to compare" : "");
}

PlanOutcome CompareWithPlan(
    const proto::Plan& plan,
    const proto::JobProfile& measured,
    const LossReached& reached,
    double last_loss) {
  PlanOutcome outcome;
  outcome.samples_per_s = plan.samples_per_s;
  outcome.seconds = Trained(plan.seconds, plan.takeover_s);
  outcome.measured_seconds = reached.seconds;
  outcome.steps = plan.steps;
  outcome.measured_steps = reached.steps;
  outcome.loss_target = plan.loss_target;
  outcome.measured_loss = last_loss;
  if (!measured.fleets.empty()) {
    outcome.measured_samples_per_s = measured.fleets.back().samples_per_s;
  }
  return outcome;
}

}  // namespace ps::provisioner
