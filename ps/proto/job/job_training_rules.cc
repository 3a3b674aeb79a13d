#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "ps/proto/exchange.h"
#include "ps/proto/job/job_rules.h"
#include "ps/proto/job/optimizer_rules.h"
#include "ps/proto/job/task.h"
#include "ps/proto/limits.h"

namespace ps::proto {
namespace {

Status Layers(
    const JobInFile& job, const std::vector<LayerConfig>& layers, const std::string& path) {
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerConfig& layer = layers[i];
    const std::string at = fmt::format("{}[{}]", path, i);
    const bool is_pool = layer.kind == LayerKind::kMaxPool || layer.kind == LayerKind::kAvgPool;
    if (is_pool && layer.padding * 2 > layer.kernel) {
      return job.Error(
          at + ".padding",
          fmt::format(
              "{}.padding is more than half the kernel; allowed: up to {}", at, layer.kernel / 2));
    }
    if (layer.kind == LayerKind::kResidual && layer.layers.empty()) {
      return job.Error(at, at + ".layers is missing; allowed: the layers of the body");
    }
    PS_TRY(Layers(job, layer.layers, at + ".layers"));
    PS_TRY(Layers(job, layer.shortcut, at + ".shortcut"));
  }
  return Status::Ok();
}

std::string_view NameOf(LayerKind kind) {
  return config::kLayerKindNames[static_cast<size_t>(kind)];
}

/// The loss, and the data that it can learn from.
Status Losses(const JobInFile& job) {
  const ModelConfig& model = job.config.model;
  const DatasetFormat format = job.config.data.format;
  const bool has_numbers = format == DatasetFormat::kCsv || format == DatasetFormat::kTsv ||
                           format == DatasetFormat::kNpy;
  const LayerKind loss = LossOf(model);
  const size_t last = model.layers.size() - 1;
  if (TaskOf(model) != Task::kClasses && !has_numbers && job.config.worker.program.empty()) {
    return job.Error(
        fmt::format("model.layers[{}].kind", last),
        fmt::format(
            "model.layers[{}].kind is {}, which learns numbers, and data of format {} have "
            "classes; allowed: softmax_cross_entropy, or data.format csv, tsv or npy",
            last,
            NameOf(loss),
            config::kDatasetFormatNames[static_cast<size_t>(format)]));
  }
  if (!model.layers.empty() && !model.layers.back().class_weights.empty() &&
      std::ranges::all_of(model.layers.back().class_weights, [](float w) { return w == 0; })) {
    const std::string at = fmt::format("model.layers[{}].class_weights", last);
    return job.Error(at, at + " are all 0, so nothing is learnt; allowed: some above 0");
  }
  return Status::Ok();
}

/// What gpt and bert ask for beyond each field's range.
Status Transformer(const JobInFile& job) {
  const ModelConfig& model = job.config.model;
  if (model.name != "gpt" && model.name != "bert") {
    return Status::Ok();
  }
  const uint32_t width = model.width == 0 ? kModelWidth : model.width;
  const uint32_t heads = model.heads == 0 ? kModelHeads : model.heads;
  if (width % heads != 0) {
    return job.Error(
        "model.heads",
        fmt::format(
            "model.heads is {}, which does not divide model.width {}; allowed: a divisor",
            heads,
            width));
  }
  const bool is_text = job.config.data.format == DatasetFormat::kText;
  const bool is_hidden = job.config.data.mask > 0;
  if (is_text && is_hidden && model.name == "gpt") {
    return job.Error(
        "data.mask", "data.mask hides tokens, which model gpt cannot learn; allowed: 0");
  }
  if (is_text && !is_hidden && model.name == "bert") {
    return job.Error(
        "data.mask",
        "data.mask is 0, and model bert learns the tokens that are hidden; allowed: above 0 to "
        "0.9, for example 0.15");
  }
  return Status::Ok();
}

/// What belongs to our own workers' arithmetic has no meaning where a program computes.
Status Script(const JobInFile& job) {
  const JobConfig& config = job.config;
  const auto mine = [&job](const char* path, const char* instead) {
    return job.Error(
        path,
        fmt::format(
            "{} is for workers of our own, and worker.program is given; {}", path, instead));
  };
  ModelConfig no_model;
  no_model.from = config.model.from;  // its values, or psctl's file of what it has described
  if (config.model != no_model) {
    return mine("model", "allowed: one of the two");
  }
  DataConfig counts;
  counts.train_samples = config.data.train_samples;
  counts.test_samples = config.data.test_samples;
  if (config.data != counts) {
    return mine(
        "data",
        "allowed in data with a program: train_samples and test_samples, its data are its own");
  }
  if (!config.parameters.empty()) {
    return mine("parameters", "frozen tensors and groups are the program's own");
  }
  if (config.optimizer.clip_norm > 0) {
    return mine("optimizer.clip_norm", "clip in the program, before its step");
  }
  if (config.train.micro_batch > 0) {
    return mine("train.micro_batch", "accumulate in the program");
  }
  if (config.train.precision != Precision::kF32) {
    return mine("train.precision", "multiply as you like in the program");
  }
  if (config.train.gradient_dtype != GradientDtype::kF32) {
    return mine("train.gradient_dtype", "allowed: \"exchange\": {\"push\": \"bf16\"}");
  }
  return Status::Ok();
}

Status Model(const JobInFile& job) {
  if (!job.config.worker.program.empty()) {
    return Script(job);
  }
  const ModelConfig& model = job.config.model;
  if (!model.name.empty() && !model.layers.empty()) {
    return job.Error("model.layers", "model has both a name and layers; allowed: one of the two");
  }
  if (model.name.empty() && model.layers.empty()) {
    return job.Error(
        "model",
        "model has neither a name nor layers; allowed: one of the two, "
        "for example \"name\": \"mlp\"");
  }
  PS_TRY(Transformer(job));
  PS_TRY(Losses(job));
  PS_TRY(CheckData(job));
  return Layers(job, model.layers, "model.layers");
}

Status Optimizer(const JobInFile& job) {
  const OptimizerConfig& optimizer = job.config.optimizer;
  if (optimizer.kind == OptimizerKind::kHeloco) {
    return job.Error(
        "optimizer.kind",
        "optimizer.kind is heloco, which takes what several local steps have changed; allowed: "
        "outer.kind heloco with train.local_steps above 1, or another kind here");
  }
  if (optimizer.nesterov && optimizer.momentum == 0) {
    return job.Error(
        "optimizer.nesterov",
        "optimizer.nesterov needs momentum; allowed: optimizer.momentum above 0, or no nesterov");
  }
  const ScheduleConfig& schedule = optimizer.schedule;
  const std::string path = "optimizer.schedule.milestones";
  if (schedule.kind == ScheduleKind::kStep && schedule.milestones.empty()) {
    return job.Error(path, path + " is missing; allowed: at least one number above 0 below 1");
  }
  const auto descent =
      std::ranges::adjacent_find(schedule.milestones, std::ranges::greater_equal());
  if (descent != schedule.milestones.end()) {
    const auto index = descent - schedule.milestones.begin() + 1;
    return job.Error(
        fmt::format("{}[{}]", path, index),
        path + " do not ascend; allowed: each larger than the one before");
  }
  return Status::Ok();
}

Status Train(const JobInFile& job) {
  const TrainConfig& train = job.config.train;
  if (train.mode == Mode::kSsp && train.staleness_max == 0) {
    return job.Error(
        "train.staleness_max",
        "train.staleness_max is 0 in mode ssp; allowed: 1 or more, or \"mode\": \"bsp\"");
  }
  const bool is_switching = train.mode_policy != ModePolicy::kFixed;
  if (is_switching && train.mode != Mode::kBsp) {
    return job.Error(
        "train.mode_policy",
        "train.mode_policy sync_switch begins in bsp, and so do sync_switch_greedy and "
        "sync_switch_elastic; allowed: \"mode\": \"bsp\", or mode_policy fixed");
  }
  const JsonValue* overlap = job.root.At("train.overlap");
  if (overlap == nullptr || !train.overlap) {
    return Status::Ok();
  }
  if (train.mode != Mode::kAsync && !is_switching) {
    return job.Error(
        "train.overlap",
        "train.overlap is true in a mode that bounds how old the parameters of a step may be; "
        "allowed: false, or mode async");
  }
  if (job.config.optimizer.clip_norm > 0) {
    return job.Error(
        "train.overlap",
        "train.overlap is true with optimizer.clip_norm, which needs the whole gradient first; "
        "allowed: false, or no clip_norm");
  }
  if (train.local_steps > 1) {
    return job.Error(
        "train.overlap",
        "train.overlap is true with train.local_steps, whose change is known when the last of them "
        "is done; allowed: false, or local_steps 1");
  }
  return Status::Ok();
}

Status StepSamples(const JobInFile& job) {
  const TrainConfig& train = job.config.train;
  uint64_t minibatch = train.minibatch;
  for (const WorkerGroup& group : job.config.workers) {
    minibatch = std::max<uint64_t>(minibatch, group.minibatch);
  }
  if (minibatch * train.local_steps <= kStepSamplesMax) {
    return Status::Ok();
  }
  return job.Error(
      "train.local_steps",
      fmt::format(
          "train.local_steps is {} with minibatches of {}, more than {} samples a step; allowed: "
          "up "
          "to {}",
          train.local_steps,
          minibatch,
          kStepSamplesMax,
          kStepSamplesMax / minibatch));
}

/// What belongs to local steps is an error without them: whoever asks for it thinks that it counts.
Status Outer(const JobInFile& job) {
  const TrainConfig& train = job.config.train;
  const OuterConfig& outer = job.config.outer;
  if (train.local_steps == 1) {
    if (job.root.At("outer") != nullptr && !(outer == OuterConfig{})) {
      return job.Error(
          "outer",
          "outer is the servers' rule with local steps, and train.local_steps is 1; allowed: "
          "train.local_steps above 1, or no outer");
    }
    if (train.local_steps_by_speed) {
      return job.Error(
          "train.local_steps_by_speed",
          "train.local_steps_by_speed is true and train.local_steps is 1; allowed: "
          "train.local_steps above 1, or false");
    }
    return Status::Ok();
  }
  const OuterKind kind = OuterKindOf(job.config);
  if (outer.every > 0 && kind != OuterKind::kDelayedNesterov) {
    return job.Error(
        "outer.every",
        fmt::format(
            "outer.every is of delayed_nesterov, and outer.kind is {}{}; allowed: "
            "\"kind\": \"delayed_nesterov\", or no every",
            config::kOuterKindNames[static_cast<size_t>(outer.kind)],
            outer.kind == OuterKind::kAuto ? ", which in mode bsp is nesterov" : ""));
  }
  if (outer.momentum == 0 && kind != OuterKind::kSgd) {
    return job.Error(
        "outer.momentum",
        fmt::format(
            "outer.momentum is 0 with {}; allowed: above 0, or \"kind\": \"sgd\"",
            config::kOuterKindNames[static_cast<size_t>(kind)]));
  }
  PS_TRY(StepSamples(job));
  if (train.local_steps_by_speed && train.batch_policy == BatchPolicy::kBySpeed) {
    return job.Error(
        "train.local_steps_by_speed",
        "train.local_steps_by_speed and train.batch_policy by_speed both make steps equally long; "
        "allowed: one of the two");
  }
  return Status::Ok();
}

/// What judges epochs needs evaluations to judge them by.
Status Epochs(const JobInFile& job) {
  const StopEarlyConfig& early = job.config.train.stop_early;
  const BestConfig& best = job.config.checkpoint.best;
  const bool is_early = early.after_epochs > 0;
  if (!is_early && !(early == StopEarlyConfig{})) {
    return job.Error(
        "train.stop_early",
        "train.stop_early has no after_epochs, so training never ends early; allowed: after_epochs "
        "above 0, for example 5, or no stop_early");
  }
  if (is_early && early.metric == EpochMetric::kNone) {
    return job.Error(
        "train.stop_early.metric",
        "train.stop_early.metric is none, by which no epoch is better; allowed: accuracy, loss");
  }
  if (!best.is_on() && !(best == BestConfig{})) {
    return job.Error(
        "checkpoint.best",
        "checkpoint.best has no metric, so no epoch is the best; allowed: metric accuracy or loss, "
        "or no best");
  }
  if (best.is_on() && !job.config.checkpoint.enabled) {
    return job.Error(
        "checkpoint.best",
        "checkpoint.best keeps checkpoints, and checkpoint.enabled is false; allowed: "
        "checkpoint.enabled true, or no best");
  }
  if ((is_early || best.is_on()) && job.config.train.evaluate_every_epochs == 0) {
    return job.Error(
        "train.evaluate_every_epochs",
        fmt::format(
            "train.evaluate_every_epochs is 0, so that {} has nothing to judge epochs by; allowed: "
            "1 or more",
            is_early ? "train.stop_early" : "checkpoint.best"));
  }
  return Status::Ok();
}

Status Exchange(const JobInFile& job) {
  const std::string path = "exchange.push";
  const bool is_rounded = job.config.train.gradient_dtype == GradientDtype::kBf16;
  if (job.config.exchange.push == kAutoWord) {
    return !is_rounded ? Status::Ok()
                       : job.Error(
                             path,
                             path +
                                 " is auto, which chooses among encodings of f32, and "
                                 "train.gradient_dtype has devices round to bf16; allowed: "
                                 "train.gradient_dtype f32, or " +
                                 path + " bf16");
  }
  const Result<Encoding> push = ps::codec::ParseEncoding(job.config.exchange.push);
  if (!push.ok()) {
    return job.Error(path, fmt::format("{}: {}", path, push.status().message()));
  }
  if (is_rounded && push->is_lossy() && push->kind != ps::codec::EncodingKind::kBf16) {
    return job.Error(
        path,
        fmt::format(
            "{} is {}, which is made of f32, and train.gradient_dtype has devices round to bf16; "
            "allowed: train.gradient_dtype f32, or {} bf16",
            path,
            push->ToText(),
            path));
  }
  return Status::Ok();
}

}  // namespace

Status CheckTraining(const JobInFile& job) {
  PS_TRY(Model(job));
  PS_TRY(Optimizer(job));
  PS_TRY(Outer(job));
  PS_TRY(Train(job));
  PS_TRY(Epochs(job));
  return Exchange(job);
}

}  // namespace ps::proto
