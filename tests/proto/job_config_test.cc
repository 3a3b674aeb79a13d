#include "ps/proto/job/job_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "ps/proto/job/job_fields.h"
#include "ps/proto/job/optimizer_rules.h"
#include "tests/proto/file_checks.h"
#include "tests/proto/small_job.h"

namespace ps::proto {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using tests::ErrorOf;
using tests::kSmall;
using tests::Replaced;

// Every field away from its default somewhere.
constexpr std::string_view kRich = R"({
  "$schema": "job.schema.json",
  "name": "rich.job-1",
  "model": {"layers": [
    {"kind": "conv2d", "out": 9, "kernel": 5, "stride": 2, "padding": 1, "bias": false,
     "groups": 3},
    {"kind": "batch_norm", "momentum": 0.2, "epsilon": 1e-4},
    {"kind": "residual", "layers": [{"kind": "relu"}], "shortcut": [{"kind": "gelu"}]},
    {"kind": "max_pool", "kernel": 2, "stride": 1},
    {"kind": "avg_pool", "kernel": 2},
    {"kind": "dropout", "rate": 0.25},
    {"kind": "global_avg_pool"}, {"kind": "flatten"},
    {"kind": "linear", "out": 10}
  ]},
  "data": {"format": "cifar10", "directory": ".", "train_samples": 1000, "test_samples": 100,
    "augment": {"crop": 4, "flip": true}},
  "optimizer": {"kind": "sgd", "lr": 0.05, "momentum": 0.9, "nesterov": true, "weight_decay": 5e-4,
    "clip_value": 3, "clip_norm": 2.5,
    "schedule": {"kind": "step", "warmup": 0.1, "step_factor": 0.2, "milestones": [0.5, 0.75]}},
  "train": {"epochs": 4, "seed": 18446744073709551615, "mode": "ssp", "staleness_max": 5,
    "minibatch": 32, "micro_batch": 8, "precision": "bf16", "lease_steps": 3,
    "overlap": false, "evaluate_every_epochs": 2, "on_divergence": "continue",
    "gradient_dtype": "bf16"},
  "exchange": {"push": "bf16", "pull": "bf16", "error_feedback": false},
  "servers": {"count": 2, "launch": false, "port": 5000, "shards_per_server": 3, "chunk_kib": 64,
    "frame_kib": 512, "queue_mib": 8, "link_mbit_per_s": 250, "max_detect_s": 15},
  "workers": [{"count": 2, "minibatch": 16, "slowdown": 1.5, "step_ms": 12.5,
    "link_mbit_per_s": 100, "type": "g4dn.xlarge", "threads": 2, "device": "cuda:1",
    "notices": "gcp"}, {}],
  "faults": [
    {"at": 0.25, "kind": "notice", "worker": 1, "grace_s": 2},
    {"at": 0.5, "kind": "add", "add": {"count": 2, "slowdown": 2}},
    {"at": 0.75, "kind": "kill", "worker": 4}],
  "fleet": {"max_detect_s": 1.5, "join_timeout_s": 30},
  "launch": {"prefix": "ip netns exec {name}", "server_listen": "0.0.0.0",
    "server_advertise": "10.0.0.{index}", "term_grace_s": 120},
  "run": {"directory": "out", "listen": "0.0.0.0", "advertise": "10.0.0.9", "port": 4000,
    "tls": "off", "metrics_every_s": 0.5, "page": "[::1]:8080", "seconds_max": 60,
    "stop_at_loss": 0.25}
})";

TEST(JobConfigTest, ConnectionsAreEncryptedWhenAnAddressIsNotThisMachinesOwn) {
  JobConfig config;
  EXPECT_FALSE(UsesTls(config));
  config.run.listen = "::1";
  EXPECT_FALSE(UsesTls(config));
  for (const std::string address : {"0.0.0.0", "10.0.0.1", "host.example", "::"}) {
    config = {};
    config.run.listen = address;
    EXPECT_TRUE(UsesTls(config)) << address;
    config = {};
    config.run.advertise = address;
    EXPECT_TRUE(UsesTls(config)) << address;
    config = {};
    config.launch.server_listen = address;
    EXPECT_TRUE(UsesTls(config)) << address;
    config = {};
    config.launch.server_advertise = address;
    EXPECT_TRUE(UsesTls(config)) << address;
    config.run.tls = TlsUse::kOff;
    EXPECT_FALSE(UsesTls(config)) << address;
  }
  config = {};
  config.run.tls = TlsUse::kOn;
  EXPECT_TRUE(UsesTls(config));
}

TEST(JobConfigTest, DefaultsOfTheSchemaAreTheStructsDefaults) {
  const auto parsed = ParseJobConfig(kSmall, "job.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  JobConfig expected;
  expected.name = "small";
  expected.model.name = "mlp";
  expected.data.directory = ".";
  expected.workers.resize(1);
  EXPECT_EQ(*parsed, expected);
  // Defaults inside lists.
  const auto listed = ParseJobConfig(
      Replaced(R"({"name": "mlp"})", R"({"layers": [{"out": 1}]})"),
      "job.json",
      {{"faults", "[{}]"}});
  ASSERT_TRUE(listed.ok()) << listed.status();
  LayerConfig layer;
  layer.out = 1;
  EXPECT_EQ(listed->model.layers, std::vector<LayerConfig>{layer});
  EXPECT_EQ(listed->faults, std::vector<FaultConfig>(1));
}

TEST(JobConfigTest, EveryMemberIsAField) {
  tests::ExpectAllMembersVisited<
      LayerConfig,
      ModelConfig,
      DataConfig,
      ScheduleConfig,
      OptimizerConfig,
      TrainConfig,
      ServerConfig,
      WorkerGroup,
      FaultConfig,
      FleetConfig,
      HostConfig,
      LaunchConfig,
      RunConfig,
      JobConfig>();
}

TEST(JobConfigTest, FieldsArriveWhereTheyBelong) {
  const auto parsed = ParseJobConfig(kRich, "job.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const JobConfig& config = *parsed;
  EXPECT_EQ(config.name, "rich.job-1");
  ASSERT_EQ(config.model.layers.size(), 9U);
  EXPECT_EQ(config.model.layers[0].kind, LayerKind::kConv2d);
  EXPECT_EQ(config.model.layers[0].padding, 1);
  EXPECT_FALSE(config.model.layers[0].bias);
  EXPECT_EQ(config.model.layers[0].groups, 3);
  EXPECT_EQ(config.model.layers[1].epsilon, 1e-4F);
  EXPECT_EQ(config.model.layers[2].shortcut.at(0).kind, LayerKind::kGelu);
  EXPECT_EQ(config.model.layers[3].stride, 1);
  EXPECT_EQ(config.data.format, DatasetFormat::kCifar10);
  EXPECT_EQ(config.optimizer.momentum, 0.9F);
  EXPECT_EQ(config.optimizer.schedule.milestones, (std::vector<float>{0.5F, 0.75F}));
  EXPECT_EQ(config.train.seed, UINT64_MAX);
  EXPECT_EQ(config.train.mode, Mode::kSsp);
  EXPECT_EQ(config.train.precision, Precision::kBf16);
  EXPECT_EQ(config.train.on_divergence, Divergence::kContinue);
  EXPECT_EQ(config.train.gradient_dtype, GradientDtype::kBf16);
  EXPECT_EQ(config.exchange, (ExchangeConfig{"bf16", "bf16", false}));
  EXPECT_EQ(config.servers.max_detect_s, 15.0F);
  EXPECT_EQ(config.faults.at(1).kind, FaultKind::kAdd);
  EXPECT_EQ(config.faults.at(1).add.slowdown, 2);
  EXPECT_EQ(config.workers.at(0).step_ms, 12.5F);
  EXPECT_EQ(config.workers.at(0).notices, NoticeService::kGcp);
  EXPECT_EQ(config.launch.prefix, "ip netns exec {name}");
  EXPECT_EQ(config.launch.server_advertise, "10.0.0.{index}");
  EXPECT_EQ(config.launch.term_grace_s, 120U);
  EXPECT_EQ(config.run.advertise, "10.0.0.9");
  EXPECT_EQ(config.run.port, 4000U);
  EXPECT_EQ(config.run.page, "[::1]:8080");
}

TEST(JobConfigTest, AllServersAndWorkersMayComeFromElsewhere) {
  const auto parsed = ParseJobConfig(
      kSmall, "job.json", {{"workers", "[]"}, {"servers.launch", "false"}, {"servers.port", "1"}});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->workers.empty());
  EXPECT_FALSE(parsed->servers.launch);
  EXPECT_EQ(ParseJobConfig(PrintJobConfig(*parsed), "printed").value(), *parsed);
  EXPECT_TRUE(ParseJobConfig(kSmall, "job.json", {{"workers[0].count", "0"}}).ok());
}

TEST(JobConfigTest, EnumNamesAreTheEnumerators) {
  const auto with = [](const std::string& key, const std::string& value) {
    return ParseJobConfig(kSmall, "job.json", {{key, value}}).value();
  };
  for (size_t i = 0; i < kNoticeServiceNames.size(); ++i) {
    EXPECT_EQ(
        with("workers[0].notices", std::string(kNoticeServiceNames[i])).workers[0].notices,
        static_cast<NoticeService>(i));
  }
  EXPECT_EQ(with("train.mode", "async").train.mode, Mode::kAsync);
  EXPECT_EQ(with("train.mode", "bsp").train.mode, Mode::kBsp);
  EXPECT_EQ(with("optimizer.kind", "sgd").optimizer.kind, OptimizerKind::kSgd);
  EXPECT_EQ(with("optimizer.kind", "adam").optimizer.kind, OptimizerKind::kAdam);
  EXPECT_EQ(with("optimizer.kind", "adamw").optimizer.kind, OptimizerKind::kAdamw);
  EXPECT_EQ(with("optimizer.kind", "adagrad").optimizer.kind, OptimizerKind::kAdagrad);
  EXPECT_EQ(with("optimizer.kind", "rmsprop").optimizer.kind, OptimizerKind::kRmsprop);
  EXPECT_EQ(with("optimizer.kind", "rmsprop").optimizer.alpha, 0.99F);
  const auto schedule = [&](const std::string& kind) {
    return with("optimizer.schedule.kind", kind).optimizer.schedule.kind;
  };
  EXPECT_EQ(schedule("constant"), ScheduleKind::kConstant);
  EXPECT_EQ(schedule("cosine"), ScheduleKind::kCosine);
  EXPECT_EQ(schedule("linear"), ScheduleKind::kLinear);
  const std::vector<std::pair<std::string, LayerKind>> layers = {
      {"batch_norm", LayerKind::kBatchNorm},
      {"max_pool", LayerKind::kMaxPool},
      {"avg_pool", LayerKind::kAvgPool},
      {"global_avg_pool", LayerKind::kGlobalAvgPool},
      {"relu", LayerKind::kRelu},
      {"gelu", LayerKind::kGelu},
      {"dropout", LayerKind::kDropout},
      {"flatten", LayerKind::kFlatten},
      {"layer_norm", LayerKind::kLayerNorm},
      {"feed_forward", LayerKind::kFeedForward},
      {"tanh", LayerKind::kTanh},
      {"sigmoid", LayerKind::kSigmoid},
      {"softmax_cross_entropy", LayerKind::kSoftmaxCrossEntropy}};
  for (const auto& [name, kind] : layers) {
    EXPECT_EQ(
        with("model", R"({"layers": [{"kind": ")" + name + R"("}]})").model.layers.at(0).kind,
        kind);
  }
}

TEST(JobConfigTest, PrintedConfigsReadBackEqual) {
  for (const std::string_view text : {kSmall, kRich}) {
    const JobConfig config = ParseJobConfig(text, "job.json").value();
    const std::string printed = PrintJobConfig(config);
    const auto back = ParseJobConfig(printed, "printed.json");
    ASSERT_TRUE(back.ok()) << back.status() << "\n" << printed;
    EXPECT_EQ(*back, config) << printed;
    EXPECT_EQ(PrintJobConfig(*back), printed);
  }
}

TEST(JobConfigTest, APrintedConfigIsReadWhereTheDatasetIsNot) {
  JobConfig config = ParseJobConfig(kSmall, "job.json").value();
  config.data.directory = "/not/on/this/machine";
  const std::string text = PrintJobConfig(config);
  EXPECT_FALSE(ParseJobConfig(text, "job.json").ok());
  const Result<JobConfig> back = ParsePrintedJobConfig(text);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, config);
  config.train.mode = Mode::kSsp;
  config.train.staleness_max = 0;
  EXPECT_FALSE(ParsePrintedJobConfig(PrintJobConfig(config)).ok()) << "the rules hold as ever";
}

/// What a process of the job reads has every field, also those that its kinds have no use for.
TEST(JobConfigTest, AJobOfEveryFormatIsReadAsItIsPrinted) {
  for (const std::string format : {"idx", "cifar10", "cifar100", "text", "npy", "csv", "tsv"}) {
    const std::string model = format == "text" ? "gpt" : format == "idx" ? "vgg16" : "mlp";
    const std::string text = R"({"name": "a", "workers": [{}], "model": {"name": ")" + model +
                             R"("}, "data": {"directory": ".", "format": ")" + format + R"("}})";
    const Result<JobConfig> config = ParseJobConfig(text, "job.json");
    ASSERT_TRUE(config.ok()) << config.status();
    const Result<JobConfig> back = ParsePrintedJobConfig(PrintJobConfig(*config));
    ASSERT_TRUE(back.ok()) << format << ": " << back.status();
    EXPECT_EQ(*back, *config);
  }
}

TEST(JobConfigTest, AJobOfAProgramHasNoModelAndNoFolderOfData) {
  const std::string text = R"({"name": "a", "workers": [{}], "data": {"train_samples": 10},
      "worker": {"program": ["python3", "train.py"], "directory": "/x"}})";
  const Result<JobConfig> config = ParseJobConfig(text, "job.json");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->worker.program, (std::vector<std::string>{"python3", "train.py"}));
  EXPECT_EQ(config->worker.directory, "/x");
  EXPECT_EQ(config->data.train_samples, 10U);
  const Result<JobConfig> back = ParsePrintedJobConfig(PrintJobConfig(*config));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, *config);
}

TEST(JobConfigTest, NothingOverlapsInAJobOfAProgramUnlessItIsAskedFor) {
  const std::string text =
      R"({"name": "a", "workers": [{"count": 4}], "data": {"train_samples": 10},
      "optimizer": {"momentum": 0.9}, "worker": {"program": ["python3", "train.py"]}})";
  const JobConfig config = ParseJobConfig(text, "job.json").value();
  EXPECT_FALSE(config.train.overlap);
  EXPECT_EQ(LrPolicyOf(config), LrPolicy::kLive);
  EXPECT_EQ(ParsePrintedJobConfig(PrintJobConfig(config)).value(), config);
  // As the run of an earlier program has it.
  const JobConfig asked =
      ParseJobConfig(text, "job.json", {{"train.overlap", "true"}, {"train.lr_policy", "fixed"}})
          .value();
  EXPECT_TRUE(asked.train.overlap);
  EXPECT_EQ(LrPolicyOf(asked), LrPolicy::kFixed);
  EXPECT_EQ(ParsePrintedJobConfig(PrintJobConfig(asked)).value(), asked);
}

TEST(JobConfigTest, EveryKindOfOptimizerAndModePrintsAndReadsBack) {
  for (const std::string optimizer : {"sgd", "adam", "adamw", "adagrad", "delayed_nesterov"}) {
    for (const std::string mode : {"async", "ssp", "bsp"}) {
      const JobConfig config =
          ParseJobConfig(kSmall, "job.json", {{"optimizer.kind", optimizer}, {"train.mode", mode}})
              .value();
      EXPECT_EQ(config.train.overlap, mode == "async");
      EXPECT_EQ(ParseJobConfig(PrintJobConfig(config), "printed.json").value(), config);
    }
  }
}

TEST(JobConfigTest, AJobThatSwitchesToAsyncComputesWithOverlapThen) {
  const JobConfig config =
      ParseJobConfig(
          kSmall, "job.json", {{"train.mode", "bsp"}, {"train.mode_policy", "sync_switch"}})
          .value();
  EXPECT_TRUE(config.train.overlap);
  EXPECT_EQ(config.train.switch_at, kSyncSwitchKnee);
  EXPECT_EQ(ParseJobConfig(PrintJobConfig(config), "printed.json").value(), config);
}

TEST(JobConfigTest, ResolvedConfigsBuiltByHandReadBack) {
  JobConfig config = ParseJobConfig(kSmall, "job.json").value();
  config.train.mode = Mode::kBsp;  // overlap stays true in the struct
  EXPECT_FALSE(ParseJobConfig(PrintJobConfig(config), "p.json").value().train.overlap);
}

TEST(JobConfigTest, CommentsAreAllowedEverywhere) {
  const std::string text =
      "// head\n/* a\n b */ " + Replaced("\"mlp\"", "/* x */ \"mlp\" // y \" {\n") + " // end";
  EXPECT_EQ(ErrorOf(text), "no error");
}

TEST(JobConfigTest, ClipNormTurnsOverlapOff) {
  const auto config = ParseJobConfig(kSmall, "job.json", {{"optimizer.clip_norm", "1"}});
  EXPECT_FALSE(config.value().train.overlap);
}

TEST(JobConfigTest, LocalStepsTurnOverlapOffAndPrintWithTheirRule) {
  for (const OuterKind kind : {OuterKind::kDelayedNesterov, OuterKind::kHeloco}) {
    const std::string name(config::kOuterKindNames[static_cast<size_t>(kind)]);
    const JobConfig config =
        ParseJobConfig(kSmall, "job.json", {{"train.local_steps", "50"}, {"outer.kind", name}})
            .value();
    EXPECT_FALSE(config.train.overlap);
    EXPECT_EQ(config.outer.kind, kind);
    EXPECT_EQ(ParseJobConfig(PrintJobConfig(config), "printed.json").value(), config);
  }
}

TEST(JobConfigTest, EscapesMeanTheirCharacters) {
  const auto config = ParseJobConfig(
      Replaced("\".\"", R"("\u002e")"), "job.json", {{"run.directory", R"("\ud83d\ude00\n\\")"}});
  EXPECT_EQ(config.value().data.directory, ".");
  EXPECT_EQ(config.value().run.directory, "\xf0\x9f\x98\x80\n\\");
}

// ---- Overrides.

TEST(JobConfigOverrideTest, ReachIntoObjectsAndLists) {
  const auto config = ParseJobConfig(
      kRich,
      "job.json",
      {{"train.epochs", "9"},
       {"workers[0].count", "7"},
       {"workers[2].minibatch", "5"},
       {"faults", "[]"},
       {"run.directory", "/a/b=c"},
       {"name", "123"},
       {"train.mode", "async"},
       {"optimizer.schedule.milestones[1]", "0.9"},
       {"data.directory", "\".\""}});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->train.epochs, 9U);
  EXPECT_EQ(config->workers.at(0).count, 7U);
  EXPECT_EQ(config->workers.at(0).minibatch, 16U);
  EXPECT_EQ(config->workers.at(2).minibatch, 5U);
  EXPECT_TRUE(config->faults.empty());
  EXPECT_EQ(config->run.directory, "/a/b=c");
  EXPECT_EQ(config->name, "123");
  EXPECT_EQ(config->optimizer.schedule.milestones.at(1), 0.9F);
}

TEST(JobConfigOverrideTest, LaterOnesWin) {
  const auto config =
      ParseJobConfig(kSmall, "job.json", {{"train.epochs", "2"}, {"train.epochs", "3"}});
  EXPECT_EQ(config.value().train.epochs, 3U);
}

TEST(JobConfigOverrideTest, ErrorsPointIntoTheCommandLine) {
  const auto error = [](const std::string& key, const std::string& value) {
    return ErrorOf(kSmall, {{"train.epochs", "1"}, {key, value}});
  };
  EXPECT_THAT(
      error("train.epoch", "1"),
      StartsWith("--set:2:7: unknown field \"epoch\" in train; allowed"));
  EXPECT_THAT(error("train.epoch", "1"), HasSubstr("did you mean \"epochs\"?"));
  EXPECT_EQ(
      error("train.epochs", "many"),
      "--set:2:14: train.epochs is a text; allowed: a whole number from 1 to 100000");
  EXPECT_EQ(
      error("train.epochs", "0"),
      "--set:2:14: train.epochs is 0; allowed: a whole number from 1 to 100000");
  EXPECT_EQ(error("workers.count", "2"), "--set:2:9: this is a list; write an index, as in [0]");
  EXPECT_EQ(
      error("workers[3].count", "2"),
      "--set:2:8: there is no entry 3; allowed: 0 to 1, the last one being new");
  EXPECT_EQ(error("train.epochs.x", "2"), "--set:2:14: this is a number, which has no fields");
  EXPECT_EQ(error("train[0]", "2"), "--set:2:6: this is an object, which has no entries");
  EXPECT_EQ(
      error("train..x", "2"),
      "--set:2:7: a name is missing in \"train..x\"; allowed: names and indices, as in "
      "workers[0].count");
  EXPECT_THAT(error("", "2"), StartsWith("--set:2:1: there is no name before \"=\""));
  EXPECT_THAT(error("workers[x]", "2"), StartsWith("--set:2:8: there is no index"));
  EXPECT_THAT(error("faults", "[{]"), StartsWith("--set:2:10: unexpected \"]\""));
}

// ---- Files.

TEST(JobConfigFileTest, MissingFilesAreNotFound) {
  const auto config = LoadJobConfig("/no/such/job.json");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("/no/such/job.json"));
}

TEST(JobConfigFileTest, DirectoriesAndEndlessFilesAreRefused) {
  EXPECT_EQ(LoadJobConfig("/").status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(LoadJobConfig("/dev/zero").status().message()), HasSubstr("allowed: 1 MiB"));
}

TEST(JobConfigFileTest, EveryModelThatHasANameHasAnExample) {
  std::set<std::string> shown;
  for (const auto& entry : std::filesystem::directory_iterator("configs")) {
    const auto config = LoadJobConfig(entry.path().string(), {{"data.directory", "."}});
    if (config.ok()) {
      shown.insert(config->model.name);
    }
  }
  // What is said of another name lists those that there are.
  const std::string error = ErrorOf(Replaced(R"("mlp")", R"("no")"));
  constexpr std::string_view kList = "allowed: one of ";
  const size_t begin = error.find(kList);
  ASSERT_NE(begin, std::string::npos) << error;
  std::istringstream names(error.substr(begin + kList.size()));
  int count = 0;
  for (std::string name; names >> name; ++count) {
    name.erase(std::min(name.find(','), name.size()));
    EXPECT_TRUE(shown.contains(name)) << name;
  }
  EXPECT_GE(count, 11) << error;
}

TEST(JobConfigFileTest, AFaultFoundLaterGetsThePlaceOfItsField) {
  const std::string path = "configs/fashion_mnist_mlp_bsp.json";
  const auto placed = [&](const std::string& what) {
    return std::string(
        AtItsField(Status::NotFound(what), path, {{"data.directory", "x"}}).message());
  };
  EXPECT_EQ(placed("data.directory has no files"), "--set:1:16: data.directory has no files");
  EXPECT_THAT(placed("model.layers[3].layers[0] (relu): no"), StartsWith(path + ":"));
  EXPECT_THAT(placed("model.layers[3] (relu): no"), HasSubstr(": model.layers[3] (relu): no"));
  for (const std::string other : {"/a/file: byte 3: bad", "data[/file: byte 3: bad", "", "no"}) {
    EXPECT_EQ(placed(other), other);
  }
}

}  // namespace
}  // namespace ps::proto
