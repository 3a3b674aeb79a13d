#include "run/report/job_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/base/text.h"

namespace ps::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

proto::JobConfig JobStartedByHand() {
  proto::JobConfig config;
  config.servers.count = 2;
  config.servers.launch = false;
  config.servers.shards_per_server = 3;
  config.servers.port = 5000;
  return config;
}

TEST(JobViewTest, NothingIsToBeStartedWherePsctlStartsAll) {
  proto::JobConfig config;
  config.workers.resize(1);
  EXPECT_EQ(RenderHandStart(config, {"10.0.0.1:4711", "/run/token", "10.0.0.1"}), "");
}

TEST(JobViewTest, EveryCommandThatIsToBeTypedElsewhereIsSaid) {
  EXPECT_EQ(
      RenderHandStart(JobStartedByHand(), {"10.0.0.1:4711", "/run/token", "10.0.0.1"}),
      "start these within 1m 00s (fleet.join_timeout_s), on machines that have a copy of "
      "/run/token:\n"
      "  ps_server --coordinator 10.0.0.1:4711 --token-file token --id 0 --shards 3 --port 5000\n"
      "  ps_server --coordinator 10.0.0.1:4711 --token-file token --id 1 --shards 3 --port 5003\n"
      "  ps_worker --coordinator 10.0.0.1:4711 --token-file token   (as many as there are to be, "
      "now or later)\n");
  proto::JobConfig workers_here = JobStartedByHand();
  workers_here.workers.resize(1);
  EXPECT_THAT(
      RenderHandStart(workers_here, {"10.0.0.1:4711", "/run/token", ""}),
      AllOf(HasSubstr("ps_server"), Not(HasSubstr("ps_worker"))));
  proto::JobConfig servers_here;
  EXPECT_THAT(
      RenderHandStart(servers_here, {"10.0.0.1:4711", "/run/token", ""}),
      AllOf(Not(HasSubstr("ps_server")), HasSubstr("ps_worker")));
}

TEST(JobViewTest, WorkersByHandOfAProgramAreToldWhichOne) {
  proto::JobConfig config = JobStartedByHand();
  config.worker = {{"python3", "it's.py"}, "/home/me"};
  EXPECT_THAT(
      RenderHandStart(config, {"10.0.0.1:4711", "/run/token", ""}),
      HasSubstr(
          R"(--token-file token --program '["python3","it'\''s.py"]' --directory '/home/me')"));
}

TEST(JobViewTest, ADiskThatIsTooSmallForTheRunIsTold) {
  proto::JobConfig config;
  config.optimizer.kind = proto::OptimizerKind::kAdam;
  config.checkpoint.keep = 3;
  JobParts parts;
  parts.model.tensors.resize(1);
  parts.model.tensors[0].shape = {1 << 18};  // 1 MiB
  constexpr uint64_t kModel = 1 << 20;
  constexpr uint64_t kNeed = kModel + uint64_t{4} * 3 * kModel;
  EXPECT_EQ(RenderDiskWarning(config, parts, "/disk", kNeed), "");
  EXPECT_EQ(
      RenderDiskWarning(config, parts, "/disk", kNeed - 1),
      "the disk may become full: /disk has " + FormatBytes(kNeed - 1) +
          " free, and the run may come to need " + FormatBytes(kNeed) + ": a model of " +
          FormatBytes(kModel) + " and 4 checkpoints of " + FormatBytes(3 * kModel) +
          " with the optimizer's state (checkpoint.keep and the one that is being written); make "
          "room, lower checkpoint.keep or set checkpoint.path");
  config.checkpoint.best = {proto::EpochMetric::kLoss, 2};
  EXPECT_THAT(
      RenderDiskWarning(config, parts, "/disk", kNeed), HasSubstr(" and 7 checkpoints of "));
  config.checkpoint.enabled = false;
  EXPECT_EQ(RenderDiskWarning(config, parts, "/disk", kModel), "");
  EXPECT_THAT(RenderDiskWarning(config, parts, "/disk", 1), HasSubstr("a model of"));
}

TEST(JobViewTest, LoopbackIsNoPlaceForOtherMachines) {
  EXPECT_THAT(
      RenderHandStart(JobStartedByHand(), {"127.0.0.1:4711", "/run/token", "10.0.0.5"}),
      HasSubstr("other machines do not reach 127.0.0.1: for them set run.listen to 10.0.0.5, or"));
  EXPECT_THAT(
      RenderHandStart(JobStartedByHand(), {"[::1]:4711", "/run/token", ""}),
      HasSubstr("reach ::1: for them set run.listen to an address of this machine, or"));
}

/// The values of the rows that are called so.
std::string RowsOf(const proto::JobConfig& config, const JobParts& parts, const std::string& name) {
  std::string text;
  for (const auto& [key, value] : DescribeJob(config, parts)) {
    text += key == name ? value + "\n" : "";
  }
  return text;
}

TEST(JobViewTest, WhatMakesARoundAnotherThanOneBigMinibatchIsNoted) {
  proto::JobConfig config;
  config.workers.resize(1);
  config.workers[0].count = 2;
  config.train.mode = proto::Mode::kBsp;
  JobParts parts;
  parts.data.train_count = 128;
  EXPECT_EQ(RowsOf(config, parts, "note"), "");
  config.optimizer.clip_norm = 1;
  EXPECT_THAT(RowsOf(config, parts, "note"), HasSubstr("each worker clips its own gradient"));
  config.workers[0].count = 1;
  EXPECT_EQ(RowsOf(config, parts, "note"), "") << "one worker's minibatch is the round's";
  config.workers[0].count = 2;
  config.optimizer.clip_norm = 0;
  worker::Layer norm;
  norm.kind = proto::LayerKind::kBatchNorm;
  parts.model.layers = {norm};
  EXPECT_THAT(RowsOf(config, parts, "note"), HasSubstr("normalises over its own minibatch"));
  config.train.mode = proto::Mode::kAsync;
  EXPECT_EQ(RowsOf(config, parts, "note"), "");
  parts.data.train_count = 129;
  EXPECT_THAT(RowsOf(config, parts, "note"), HasSubstr("with data.train_samples=128 there is"));
}

TEST(JobViewTest, ALastLayerThatCutsOffWhatTheLossTakesIsNoted) {
  proto::JobConfig config;
  proto::LayerConfig loss;
  loss.kind = proto::LayerKind::kBce;
  config.model.layers = {loss};
  JobParts parts;
  worker::Layer last;
  last.kind = proto::LayerKind::kSigmoid;
  parts.model.layers = {last};
  EXPECT_THAT(
      RowsOf(config, parts, "note"),
      HasSubstr("the last layer is sigmoid, and the loss has its own sigmoid"));
  config.model.layers.clear();
  EXPECT_THAT(RowsOf(config, parts, "note"), HasSubstr("the loss has its own softmax"));
  parts.model.layers[0].kind = proto::LayerKind::kLinear;
  EXPECT_EQ(RowsOf(config, parts, "note"), "");
  loss.kind = proto::LayerKind::kMse;
  config.model.layers = {loss};
  parts.model.layers[0].kind = proto::LayerKind::kSigmoid;
  EXPECT_EQ(RowsOf(config, parts, "note"), "") << "numbers from 0 to 1 may be what is learnt";
}

TEST(JobViewTest, AttentionThatSeesWhatIsToBeLearntIsNoted) {
  proto::JobConfig config;
  config.data.format = proto::DatasetFormat::kText;
  JobParts parts;
  worker::Layer attention;
  attention.kind = proto::LayerKind::kAttention;
  parts.model.layers = {attention};
  EXPECT_THAT(RowsOf(config, parts, "note"), HasSubstr("set \"causal\": true"));
  config.data.mask = 0.15F;
  EXPECT_EQ(RowsOf(config, parts, "note"), "");
  config.data.mask = 0;
  parts.model.layers[0].config.causal = true;
  EXPECT_EQ(RowsOf(config, parts, "note"), "");
}

TEST(JobViewTest, AGoalWhoseWorkersWaitForEachOtherIsPlannedTooFastAndSaysSo) {
  proto::JobConfig config;
  config.workers.resize(1);
  config.workers[0].count = 2;
  config.goal.loss = 0.5F;
  JobParts parts;
  parts.data.train_count = 128;
  EXPECT_EQ(RowsOf(config, parts, "note"), "");
  for (const proto::Mode mode : {proto::Mode::kBsp, proto::Mode::kSsp}) {
    config.train.mode = mode;
    EXPECT_THAT(
        RowsOf(config, parts, "note"),
        HasSubstr("goal is planned with the speed of workers that do not wait for each other"))
        << proto::ModeName(mode);
  }
  config.goal.loss = 0;
  EXPECT_THAT(RowsOf(config, parts, "note"), Not(HasSubstr("goal")));
}

TEST(JobViewTest, APartForValidationThatNobodyUsesIsNoted) {
  JobParts parts;
  EXPECT_EQ(RowsOf({}, parts, "note"), "");
  parts.data.unused_validation = {"val", "val/"};
  EXPECT_EQ(
      RowsOf({}, parts, "note"),
      "val/ in data.directory is not used; with data.validation=val epochs are measured on it, and "
      "the test samples once, at the end\n");
  parts.data.unused_validation = {"dev", "dev.txt", true};
  EXPECT_THAT(
      RowsOf({}, parts, "note"),
      HasSubstr("dev.txt in data.directory is one more text to train and test on; with "
                "data.validation=dev"));
}

TEST(JobViewTest, WhatBecomesOfMomentumWhereGradientsAreOldIsNoted) {
  proto::JobConfig config;
  config.workers.resize(1);
  config.workers[0].count = 2;
  config.train.mode = proto::Mode::kAsync;
  JobParts parts;
  parts.data.train_count = 10'000;
  config.train.overlap = false;
  config.optimizer.lr = 0.03F;
  EXPECT_EQ(RowsOf(config, parts, "note"), "");
  config.optimizer.momentum = 0.9F;
  EXPECT_THAT(
      RowsOf(config, parts, "note"),
      HasSubstr("take rate 0.09 and momentum 0.4 for rate 0.03 and momentum 0.9"));
  config.train.lr_policy = proto::LrPolicy::kFixed;
  EXPECT_THAT(RowsOf(config, parts, "note"), HasSubstr("train.lr_policy live or train.mode bsp"));
  config.train.lr_policy = proto::LrPolicy::kAuto;
  config.workers[0].count = 1;
  EXPECT_EQ(RowsOf(config, parts, "note"), "") << "its gradients are of today";
  config.workers[0].count = 2;
  config.train.mode = proto::Mode::kBsp;
  EXPECT_EQ(RowsOf(config, parts, "note"), "");
  config.train.mode = proto::Mode::kAsync;
  config.train.local_steps = 4;
  EXPECT_EQ(RowsOf(config, parts, "note"), "") << "the momentum is each worker's own";
}

TEST(JobViewTest, AnOuterMomentumOfEachPushIsNotedWhereNobodyWaits) {
  proto::JobConfig config;
  config.workers.resize(1);
  config.workers[0].count = 2;
  config.train.local_steps = 4;
  JobParts parts;
  parts.data.train_count = 10'000;
  EXPECT_EQ(RowsOf(config, parts, "note"), "");
  for (const auto kind : {proto::OuterKind::kNesterov, proto::OuterKind::kSgd}) {
    config.outer.kind = kind;
    EXPECT_THAT(RowsOf(config, parts, "note"), HasSubstr("delayed_nesterov, which auto is"));
  }
  config.outer.momentum = 0;
  EXPECT_EQ(RowsOf(config, parts, "note"), "");
  config.outer.momentum = 0.9F;
  config.train.mode = proto::Mode::kBsp;
  EXPECT_EQ(RowsOf(config, parts, "note"), "") << "rounds have their mean";
}

TEST(JobViewTest, TheOrderOfNamedClassesAndWhatIsNoDataAreSaid) {
  JobParts parts;
  EXPECT_EQ(RowsOf({}, parts, "classes") + RowsOf({}, parts, "no data"), "");
  parts.data.class_names = {"iris", "rose"};
  parts.data.left_out = {"README.txt"};
  EXPECT_EQ(RowsOf({}, parts, "classes"), "0 = iris, 1 = rose\n");
  EXPECT_THAT(
      RowsOf({}, parts, "no data"), HasSubstr("README.txt: left out, since files that are"));
  proto::JobConfig pictures;
  pictures.data.format = proto::DatasetFormat::kPictures;
  parts.data.left_out = {"train/iris/Thumbs.db", "4 more"};
  EXPECT_THAT(
      RowsOf(pictures, parts, "no data"),
      HasSubstr("train/iris/Thumbs.db, 4 more: left out, since they are no png, jpg or jpeg"));
}

TEST(JobViewTest, HowOftenAndAsWhatTheModelTravelsIsToldWhereItIsNotTheUsual) {
  proto::JobConfig config;
  config.workers.resize(2);
  config.train.minibatch = 8;
  JobParts parts;
  parts.data.train_count = 10000;
  parts.model.tensors.resize(1);
  parts.model.tensors[0].shape = {1 << 18};  // 1 MiB
  EXPECT_EQ(RowsOf(config, parts, "exchange"), "");
  config.exchange.push = "int8";
  EXPECT_EQ(
      RowsOf(config, parts, "exchange"),
      "for each minibatch, gradients as int8 with error feedback, parameters as f32: a sample 32.5 "
      "KiB and 128.0 KiB\n");
  config.train.local_steps = 50;
  EXPECT_EQ(
      RowsOf(config, parts, "exchange"),
      "once in 50 minibatches, gradients as int8 with error feedback, parameters as f32: a sample "
      "665 B and 2.6 KiB; outer delayed_nesterov, lr 0.3, momentum 0.9, every 2\n");
  EXPECT_EQ(RowsOf(config, parts, "note"), "");
  config.exchange.pull = "int8";
  EXPECT_THAT(
      RowsOf(config, parts, "exchange"),
      HasSubstr("parameters as differences in int8: a sample 665 B and 672 B"));
  EXPECT_EQ(
      RowsOf(config, parts, "note"),
      "with exchange.pull int8 each shard keeps a copy of its parameters, 1.0 MiB, for each "
      "worker\n");
  config.servers.held_mib = 1;
  EXPECT_EQ(
      RowsOf(config, parts, "note"),
      "with exchange.pull int8 each shard keeps a copy of its parameters, 1.0 MiB, for each "
      "worker; servers.held_mib has room for 1 of 2 workers, and the others pull bf16\n");
  config.exchange.pull = "f32";
  parts.data.train_count = 400;
  EXPECT_EQ(
      RowsOf(config, parts, "note"),
      "a step of train.local_steps has 400 samples, and an epoch 200 for each worker: some of them "
      "have nothing to do at its end; 25 local steps would fit\n");
}

}  // namespace
}  // namespace ps::run
