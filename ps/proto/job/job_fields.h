#pragma once

#include "ps/proto/files/file_values.h"
#include "ps/proto/job/job_config.h"

// Which C++ member a field of configs/job.fbs is. Types, defaults, ranges and comments come from
// the schema; reading checks that no field of a table is left out here. Private to ps/proto.

namespace ps::proto {

/// Calls visit(name, member) for each field.
template <MaybeConst<ModelConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("name", c.name);
  visit("layers", c.layers);
  visit("from", c.from);
  visit("take", c.take);
  visit("depth", c.depth);
  visit("heads", c.heads);
  visit("width", c.width);
  visit("dropout", c.dropout);
}

template <MaybeConst<ParameterGroup> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("match", c.match);
  visit("lr_factor", c.lr_factor);
  visit("weight_decay", c.weight_decay);
  visit("frozen", c.frozen);
}

template <MaybeConst<AugmentConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("crop", c.crop);
  visit("flip", c.flip);
}

template <MaybeConst<PictureConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("height", c.height);
  visit("width", c.width);
  visit("channels", c.channels);
}

template <MaybeConst<DataConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("format", c.format);
  visit("directory", c.directory);
  visit("train_samples", c.train_samples);
  visit("test_samples", c.test_samples);
  visit("validation_share", c.validation_share);
  visit("validation", c.validation);
  visit("pad", c.pad);
  visit("context", c.context);
  visit("tokenizer", c.tokenizer);
  visit("vocabulary", c.vocabulary);
  visit("mask", c.mask);
  visit("test_share", c.test_share);
  visit("picture", c.picture);
  visit("header", c.header);
  visit("label", c.label);
  visit("labels", c.labels);
  visit("augment", c.augment);
  visit("cache", c.cache);
}

template <MaybeConst<StopEarlyConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("after_epochs", c.after_epochs);
  visit("min_delta", c.min_delta);
  visit("metric", c.metric);
}

template <MaybeConst<TrainConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("epochs", c.epochs);
  visit("seed", c.seed);
  visit("mode", c.mode);
  visit("staleness_max", c.staleness_max);
  visit("minibatch", c.minibatch);
  visit("micro_batch", c.micro_batch);
  visit("precision", c.precision);
  visit("lease_steps", c.lease_steps);
  visit("local_steps", c.local_steps);
  visit("local_steps_by_speed", c.local_steps_by_speed);
  visit("overlap", c.overlap);
  visit("evaluate_every_epochs", c.evaluate_every_epochs);
  visit("stop_early", c.stop_early);
  visit("on_divergence", c.on_divergence);
  visit("lr_policy", c.lr_policy);
  visit("lr_ramp_steps", c.lr_ramp_steps);
  visit("batch_policy", c.batch_policy);
  visit("mode_policy", c.mode_policy);
  visit("switch_at", c.switch_at);
  visit("switch_lr_factor", c.switch_lr_factor);
  visit("switch_momentum_factor", c.switch_momentum_factor);
  visit("gradient_dtype", c.gradient_dtype);
}

template <MaybeConst<ExchangeConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("push", c.push);
  visit("pull", c.pull);
  visit("error_feedback", c.error_feedback);
}

template <MaybeConst<KubernetesConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("image", c.image);
  visit("image_pull_secret", c.image_pull_secret);
  visit("programs", c.programs);
  visit("kubeconfig", c.kubeconfig);
  visit("context", c.context);
  visit("namespace", c.name_space);
  visit("selector", c.selector);
  visit("tolerations", c.tolerations);
  visit("service_account", c.service_account);
  visit("priority_class", c.priority_class);
  visit("cpus", c.cpus);
  visit("memory", c.memory);
  visit("gpus", c.gpus);
  visit("gpu_resource", c.gpu_resource);
  visit("volumes", c.volumes);
  visit("wait_s", c.wait_s);
  visit("run_max_h", c.run_max_h);
}

template <MaybeConst<ServerConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("count", c.count);
  visit("launch", c.launch);
  visit("launcher", c.launcher);
  visit("hosts", c.hosts);
  visit("sbatch", c.sbatch);
  visit("kubernetes", c.kubernetes);
  visit("port", c.port);
  visit("shards_per_server", c.shards_per_server);
  visit("chunk_kib", c.chunk_kib);
  visit("frame_kib", c.frame_kib);
  visit("queue_mib", c.queue_mib);
  visit("held_mib", c.held_mib);
  visit("link_mbit_per_s", c.link_mbit_per_s);
  visit("max_detect_s", c.max_detect_s);
  visit("usd_per_hour", c.usd_per_hour);
  visit("notices", c.notices);
  visit("term_grace_s", c.term_grace_s);
}

template <MaybeConst<WorkerGroup> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("count", c.count);
  visit("minibatch", c.minibatch);
  visit("slowdown", c.slowdown);
  visit("step_ms", c.step_ms);
  visit("cpu_share", c.cpu_share);
  visit("link_mbit_per_s", c.link_mbit_per_s);
  visit("type", c.type);
  visit("threads", c.threads);
  visit("device", c.device);
  visit("notices", c.notices);
  visit("usd_per_hour", c.usd_per_hour);
  visit("zones", c.zones);
}

template <MaybeConst<WorkerConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("program", c.program);
  visit("directory", c.directory);
}

template <MaybeConst<FaultConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("at", c.at);
  visit("kind", c.kind);
  visit("worker", c.worker);
  visit("grace_s", c.grace_s);
  visit("add", c.add);
}

template <MaybeConst<FleetConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("max_detect_s", c.max_detect_s);
  visit("join_timeout_s", c.join_timeout_s);
  visit("orphan_grace_s", c.orphan_grace_s);
  visit("replace", c.replace);
  visit("prewarm", c.prewarm);
  visit("starts_per_s", c.starts_per_s);
  visit("park_servers_after_s", c.park_servers_after_s);
}

template <MaybeConst<BestConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("metric", c.metric);
  visit("keep", c.keep);
}

template <MaybeConst<CheckpointConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("enabled", c.enabled);
  visit("every_s", c.every_s);
  visit("path", c.path);
  visit("copy_to", c.copy_to);
  visit("keep", c.keep);
  visit("best", c.best);
  visit("codec", c.codec);
  visit("slots", c.slots);
  visit("write_mib_per_s", c.write_mib_per_s);
  visit("recovery", c.recovery);
}

template <MaybeConst<HostConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("host", c.host);
  visit("slots", c.slots);
  visit("zone", c.zone);
}

template <MaybeConst<ZoneConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("name", c.name);
  visit("sbatch", c.sbatch);
}

template <MaybeConst<RentHeadConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("type", c.type);
  visit("image", c.image);
  visit("role", c.role);
  visit("disk_gib", c.disk_gib);
  visit("keep_h", c.keep_h);
  visit("usd_per_hour", c.usd_per_hour);
}

template <MaybeConst<RentConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("region", c.region);
  visit("zones", c.zones);
  visit("types", c.types);
  visit("spot", c.spot);
  visit("image", c.image);
  visit("subnet", c.subnet);
  visit("security_group", c.security_group);
  visit("key_name", c.key_name);
  visit("user", c.user);
  visit("role", c.role);
  visit("disk_gib", c.disk_gib);
  visit("setup", c.setup);
  visit("private_address", c.private_address);
  visit("boot_s", c.boot_s);
  visit("idle_s", c.idle_s);
  visit("watch_min", c.watch_min);
  visit("run_max_h", c.run_max_h);
  visit("usd_per_hour", c.usd_per_hour);
  visit("leave_above", c.leave_above);
  visit("project", c.project);
  visit("endpoint", c.endpoint);
  visit("head", c.head);
}

template <MaybeConst<BudgetConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("usd", c.usd);
  visit("usd_per_hour", c.usd_per_hour);
}

template <MaybeConst<TrafficConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("server_zone", c.server_zone);
  visit("zone_usd_per_gb", c.zone_usd_per_gb);
  visit("egress_usd_per_gb", c.egress_usd_per_gb);
}

template <MaybeConst<LaunchConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("launcher", c.launcher);
  visit("rent", c.rent);
  visit("hosts", c.hosts);
  visit("ssh_config", c.ssh_config);
  visit("sbatch", c.sbatch);
  visit("zones", c.zones);
  visit("prefix", c.prefix);
  visit("server_listen", c.server_listen);
  visit("server_advertise", c.server_advertise);
  visit("term_grace_s", c.term_grace_s);
  visit("kubernetes", c.kubernetes);
}

template <MaybeConst<RunConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("directory", c.directory);
  visit("listen", c.listen);
  visit("advertise", c.advertise);
  visit("port", c.port);
  visit("tls", c.tls);
  visit("metrics_every_s", c.metrics_every_s);
  visit("page", c.page);
  visit("tensorboard", c.tensorboard);
  visit("seconds_max", c.seconds_max);
  visit("stop_at_loss", c.stop_at_loss);
}

template <MaybeConst<GoalConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("loss", c.loss);
  visit("within_s", c.within_s);
  visit("budget_usd", c.budget_usd);
  visit("confidence", c.confidence);
  visit("takeover_s", c.takeover_s);
  visit("change_every_s", c.change_every_s);
  visit("profile", c.profile);
  visit("catalog", c.catalog);
}

template <MaybeConst<ProvisionerConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("policy", c.policy);
  visit("type", c.type);
  visit("on_demand_type", c.on_demand_type);
  visit("workers_max", c.workers_max);
  visit("interval_s", c.interval_s);
  visit("start_s", c.start_s);
  visit("within_s", c.within_s);
  visit("hand_s", c.hand_s);
}

template <MaybeConst<JobConfig> C, typename V>
void VisitFields(C& c, V&& visit) {
  visit("name", c.name);
  visit("model", c.model);
  visit("data", c.data);
  visit("worker", c.worker);
  visit("optimizer", c.optimizer);
  visit("parameters", c.parameters);
  visit("outer", c.outer);
  visit("train", c.train);
  visit("exchange", c.exchange);
  visit("servers", c.servers);
  visit("workers", c.workers);
  visit("faults", c.faults);
  visit("fleet", c.fleet);
  visit("checkpoint", c.checkpoint);
  visit("launch", c.launch);
  visit("budget", c.budget);
  visit("traffic", c.traffic);
  visit("run", c.run);
  visit("goal", c.goal);
  visit("provisioner", c.provisioner);
}

}  // namespace ps::proto
