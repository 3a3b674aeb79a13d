#pragma once

#include "ps/proto/files/catalog.h"
#include "ps/proto/files/file_values.h"
#include "ps/proto/files/plan.h"
#include "ps/proto/files/profile.h"

// Which C++ member a field of configs/catalog.fbs, profile.fbs and plan.fbs is. Types, defaults,
// ranges and comments come from the schemas. Private to the three files' readers.

namespace ps::proto {

/// Calls visit(name, member) for each field.
template <MaybeConst<LifetimePoint> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("hours", c.hours);
  visit("revoked", c.revoked);
}

template <MaybeConst<SpotPrice> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("zone", c.zone);
  visit("usd_per_hour", c.usd_per_hour);
  visit("as_of", c.as_of);
  visit("is_estimate", c.is_estimate);
  visit("lifetimes", c.lifetimes);
  visit("lifetimes_from", c.lifetimes_from);
}

template <MaybeConst<InstanceType> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("name", c.name);
  visit("device", c.device);
  visit("devices", c.devices);
  visit("device_memory_gib", c.device_memory_gib);
  visit("vcpus", c.vcpus);
  visit("memory_gib", c.memory_gib);
  visit("network_gbit_per_s", c.network_gbit_per_s);
  visit("network_burst_gbit_per_s", c.network_burst_gbit_per_s);
  visit("pcie_gbyte_per_s", c.pcie_gbyte_per_s);
  visit("on_demand_usd_per_hour", c.on_demand_usd_per_hour);
  visit("spot", c.spot);
  visit("quota", c.quota);
  visit("quota_is_guess", c.quota_is_guess);
  visit("quota_family", c.quota_family);
  visit("is_server_host", c.is_server_host);
  visit("start_up_s", c.start_up_s);
  visit("billing_min_s", c.billing_min_s);
  visit("disk_usd_per_hour", c.disk_usd_per_hour);
}

template <MaybeConst<TrafficPrices> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("zone_usd_per_gb", c.zone_usd_per_gb);
  visit("egress_usd_per_gb", c.egress_usd_per_gb);
  visit("as_of", c.as_of);
  visit("source", c.source);
}

template <MaybeConst<VcpuQuota> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("family", c.family);
  visit("spot_vcpus", c.spot_vcpus);
  visit("on_demand_vcpus", c.on_demand_vcpus);
}

template <MaybeConst<Catalog> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("provider", c.provider);
  visit("region", c.region);
  visit("as_of", c.as_of);
  visit("source", c.source);
  visit("traffic", c.traffic);
  visit("vcpu_quotas", c.vcpu_quotas);
  visit("server_gbit_per_vcpu", c.server_gbit_per_vcpu);
  visit("types", c.types);
}

template <MaybeConst<WorkerProfile> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("instance_type", c.instance_type);
  visit("minibatch", c.minibatch);
  visit("compute_s", c.compute_s);
  visit("compute_stddev_s", c.compute_stddev_s);
  visit("steps_measured", c.steps_measured);
  visit("minibatch_max", c.minibatch_max);
  visit("excludes_pcie", c.excludes_pcie);
  visit("host_bytes", c.host_bytes);
  visit("device_bytes", c.device_bytes);
}

template <MaybeConst<FleetSample> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("workers", c.workers);
  visit("server_hosts", c.server_hosts);
  visit("server_bytes_per_s", c.server_bytes_per_s);
  visit("steps_per_s", c.steps_per_s);
  visit("samples_per_s", c.samples_per_s);
  visit("seconds", c.seconds);
}

template <MaybeConst<LossSample> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("steps", c.steps);
  visit("loss", c.loss);
  visit("batch_mean", c.batch_mean);
  visit("heterogeneity", c.heterogeneity);
  visit("workers", c.workers);
  visit("late", c.late);
}

template <MaybeConst<ContentionFit> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("a1", c.a1);
  visit("b1", c.b1);
  visit("residual", c.residual);
  visit("samples", c.samples);
}

template <MaybeConst<QueueFit> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("wait_share", c.wait_share);
  visit("overhead_s", c.overhead_s);
  visit("residual", c.residual);
  visit("samples", c.samples);
}

template <MaybeConst<LossFit> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("c1", c.c1);
  visit("c2", c.c2);
  visit("c3", c.c3);
  visit("c4", c.c4);
  visit("c5", c.c5);
  visit("has_heterogeneity", c.has_heterogeneity);
  visit("residual", c.residual);
  visit("samples", c.samples);
}

template <MaybeConst<FleetFactor> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("workers", c.workers);
  visit("factor", c.factor);
  visit("late", c.late);
  visit("by_loss", c.by_loss);
}

template <MaybeConst<CurveFit> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("steps", c.steps);
  visit("power", c.power);
  visit("floor", c.floor);
  visit("minibatch", c.minibatch);
  visit("batch_power", c.batch_power);
  visit("fleets", c.fleets);
  visit("losses", c.losses);
  visit("loss_min", c.loss_min);
  visit("residual", c.residual);
  visit("samples", c.samples);
}

template <MaybeConst<ExchangePenalty> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("local_steps", c.local_steps);
  visit("push", c.push);
  visit("pull", c.pull);
  visit("mode", c.mode);
  visit("samples", c.samples);
  visit("measured", c.measured);
}

template <MaybeConst<StartSample> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("instance_type", c.instance_type);
  visit("zone", c.zone);
  visit("launcher", c.launcher);
  visit("machine_s", c.machine_s);
  visit("join_s", c.join_s);
  visit("step_s", c.step_s);
}

template <MaybeConst<JobProfile> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("job", c.job);
  visit("model_fingerprint", c.model_fingerprint);
  visit("training_fingerprint", c.training_fingerprint);
  visit("parameter_bytes", c.parameter_bytes);
  visit("push_bytes", c.push_bytes);
  visit("pull_bytes", c.pull_bytes);
  visit("server_bytes", c.server_bytes);
  visit("server_bytes_per_worker", c.server_bytes_per_worker);
  visit("request_bytes_per_s", c.request_bytes_per_s);
  visit("overlap", c.overlap);
  visit("local_steps", c.local_steps);
  visit("push", c.push);
  visit("pull", c.pull);
  visit("workers", c.workers);
  visit("fleets", c.fleets);
  visit("losses", c.losses);
  visit("contention", c.contention);
  visit("queue", c.queue);
  visit("loss", c.loss);
  visit("curves", c.curves);
  visit("penalties", c.penalties);
  visit("starts", c.starts);
}

template <MaybeConst<PlanWorkers> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("instance_type", c.instance_type);
  visit("market", c.market);
  visit("count", c.count);
  visit("minibatch", c.minibatch);
  visit("compute_s", c.compute_s);
  visit("link_bytes_per_s", c.link_bytes_per_s);
  visit("usd_per_hour", c.usd_per_hour);
  visit("held", c.held);
  visit("zone", c.zone);
}

template <MaybeConst<PlanServers> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("instance_type", c.instance_type);
  visit("count", c.count);
  visit("link_bytes_per_s", c.link_bytes_per_s);
  visit("usd_per_hour", c.usd_per_hour);
  visit("zone", c.zone);
}

template <MaybeConst<PlanTraffic> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("bytes", c.bytes);
  visit("bytes_across_zones", c.bytes_across_zones);
  visit("usd", c.usd);
  visit("zone_usd_per_gb", c.zone_usd_per_gb);
  visit("egress_usd_per_gb", c.egress_usd_per_gb);
}

template <MaybeConst<Estimate> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("value", c.value);
  visit("low", c.low);
  visit("high", c.high);
}

template <MaybeConst<PlanAlternative> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("kind", c.kind);
  visit("workers", c.workers);
  visit("servers", c.servers);
  visit("samples_per_s", c.samples_per_s);
  visit("seconds", c.seconds);
  visit("usd", c.usd);
  visit("local_steps", c.local_steps);
}

template <MaybeConst<PlanGain> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("change", c.change);
  visit("samples_per_s", c.samples_per_s);
  visit("seconds", c.seconds);
  visit("usd", c.usd);
}

template <MaybeConst<PlanQuota> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("instance_type", c.instance_type);
  visit("usd", c.usd);
}

template <MaybeConst<PlanCapacityPoint> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("instance_type", c.instance_type);
  visit("zone", c.zone);
  visit("at_s", c.at_s);
  visit("working", c.working);
}

template <MaybeConst<PlanCapacity> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("change", c.change);
  visit("workers", c.workers);
  visit("spare", c.spare);
  visit("zone", c.zone);
  visit("spares", c.spares);
  visit("taken", c.taken);
  visit("taken_of", c.taken_of);
  visit("in_goal", c.in_goal);
  visit("reached", c.reached);
  visit("seconds", c.seconds);
  visit("revoked", c.revoked);
  visit("usd", c.usd);
  visit("points", c.points);
}

template <MaybeConst<PlanTraces> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("windows", c.windows);
  visit("window_s", c.window_s);
  visit("is_chosen_by", c.is_chosen_by);
  visit("is_kept", c.is_kept);
  visit("fleets_seen", c.fleets_seen);
  visit("fleets_followed", c.fleets_followed);
}

template <MaybeConst<PlanRevocations> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("revoked", c.revoked);
  visit("seconds", c.seconds);
  visit("usd", c.usd);
  visit("revoked_unreplaced", c.revoked_unreplaced);
  visit("seconds_unreplaced", c.seconds_unreplaced);
  visit("usd_unreplaced", c.usd_unreplaced);
  visit("lost_unreplaced", c.lost_unreplaced);
  visit("start_up_s", c.start_up_s);
  visit("revoked_a_day", c.revoked_a_day);
  visit("samples_per_s", c.samples_per_s);
  visit("usd_per_hour", c.usd_per_hour);
  visit("lifetimes_from", c.lifetimes_from);
  visit("unknown", c.unknown);
}

template <MaybeConst<Plan> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("job", c.job);
  visit("model_fingerprint", c.model_fingerprint);
  visit("training_fingerprint", c.training_fingerprint);
  visit("strategy", c.strategy);
  visit("objective", c.objective);
  visit("speed_model", c.speed_model);
  visit("certainty", c.certainty);
  visit("loss_target", c.loss_target);
  visit("seconds_max", c.seconds_max);
  visit("usd_max", c.usd_max);
  visit("usd_per_hour_max", c.usd_per_hour_max);
  visit("confidence", c.confidence);
  visit("takeover_s", c.takeover_s);
  visit("loss_now", c.loss_now);
  visit("steps_done", c.steps_done);
  visit("pace", c.pace);
  visit("local_steps", c.local_steps);
  visit("push", c.push);
  visit("pull", c.pull);
  visit("workers", c.workers);
  visit("servers", c.servers);
  visit("samples_per_s", c.samples_per_s);
  visit("steps", c.steps);
  visit("seconds", c.seconds);
  visit("usd", c.usd);
  visit("traffic", c.traffic);
  visit("bottleneck", c.bottleneck);
  visit("server_busy", c.server_busy);
  visit("computing", c.computing);
  visit("push_bytes_per_sample", c.push_bytes_per_sample);
  visit("pull_bytes_per_sample", c.pull_bytes_per_sample);
  visit("alternatives", c.alternatives);
  visit("gains", c.gains);
  visit("quotas", c.quotas);
  visit("revocations", c.revocations);
  visit("capacity", c.capacity);
  visit("traces", c.traces);
  visit("if_prices_double", c.if_prices_double);
  visit("notes", c.notes);
}

}  // namespace ps::proto
