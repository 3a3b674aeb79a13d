// Errors of job files: place, what, allowed, nearest.

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/proto/small_job.h"

namespace ps::proto {
namespace {

using testing::HasSubstr;
using testing::Not;
using tests::ErrorOf;
using tests::kSmall;
using tests::Replaced;

/// The small job with one line put in front of its fields, in line 2.
std::string WithLine(const std::string& line) {
  return "{\n" + line + ",\n" + std::string(kSmall.substr(2));
}

struct BadJob {
  std::string text;
  std::string error;
};

void ExpectErrors(const std::vector<BadJob>& jobs) {
  for (const BadJob& job : jobs) {
    EXPECT_EQ(ErrorOf(job.text), job.error) << job.text;
  }
}

TEST(JobConfigErrorTest, EncodingsAreNamedOrExplained) {
  const auto error = [](const std::string& fields) {
    return ErrorOf(WithLine("\"exchange\": {" + fields + "}"));
  };
  EXPECT_EQ(error(R"("push": "int8", "pull": "bf16", "error_feedback": false)"), "no error");
  EXPECT_EQ(error(R"("push": "topk:0.01")"), "no error");
  EXPECT_EQ(
      error(R"("push": "int9")"),
      "job.json:2:22: exchange.push: there is no encoding 'int9'; did you mean int8?; there are "
      "f32, bf16, int8, int4, topk:0.01");
  for (const char* share : {"0", "0.6", "x"}) {
    EXPECT_THAT(
        error(R"("push": "topk:)" + std::string(share) + "\""),
        HasSubstr("is no share for topk: the share of the values that are sent, above 0 and up to "
                  "0.5"));
  }
  EXPECT_THAT(error(R"("push": "topk")"), HasSubstr("topk needs a share, as in topk:0.01"));
  EXPECT_EQ(error(R"("pull": "int8")"), "no error");
  EXPECT_EQ(error(R"("pull": "int4")"), "no error");
  EXPECT_THAT(error(R"("pull": "topk:0.01")"), HasSubstr("one of f32, bf16, int8, int4"));
  EXPECT_THAT(error(R"("pull": "int")"), HasSubstr("did you mean \"int"));
  EXPECT_THAT(error(R"("pull": "fp32")"), HasSubstr("did you mean \"f32\"?"));
  EXPECT_THAT(error(R"("compression": "int8")"), HasSubstr("did you mean \"push\"?"));
}

TEST(JobConfigErrorTest, WhatJudgesEpochsIsWholeOrExplained) {
  const auto error = [](const std::string& fields) { return ErrorOf(WithLine(fields)); };
  EXPECT_EQ(
      error(R"("train": {"stop_early": {"after_epochs": 5, "min_delta": 0.001}})"), "no error");
  EXPECT_EQ(error(R"("checkpoint": {"best": {"metric": "loss", "keep": 2}})"), "no error");
  EXPECT_THAT(
      error(R"("train": {"stop_early": {"min_delta": 0.001}})"),
      HasSubstr("train.stop_early has no after_epochs"));
  EXPECT_THAT(
      error(R"("train": {"stop_early": {"after_epochs": 5, "metric": "none"}})"),
      HasSubstr("train.stop_early.metric is none"));
  EXPECT_THAT(
      error(R"("checkpoint": {"best": {"keep": 2}})"), HasSubstr("checkpoint.best has no metric"));
  EXPECT_THAT(
      error(R"("checkpoint": {"enabled": false, "best": {"metric": "loss"}})"),
      HasSubstr("checkpoint.enabled is false"));
  EXPECT_THAT(
      error(R"("checkpoint": {"best": {"metric": "loss"}}, "train": {"evaluate_every_epochs": 0})"),
      HasSubstr("train.evaluate_every_epochs is 0, so that checkpoint.best"));
  EXPECT_THAT(
      error(R"("train": {"stop_early": {"after_epochs": 5}, "evaluate_every_epochs": 0})"),
      HasSubstr("so that train.stop_early has nothing to judge epochs by"));
}

TEST(JobConfigErrorTest, RoundedGradientsAreNotEncodedOnceMore) {
  const auto error = [](const std::string& push) {
    return ErrorOf(
        WithLine(R"("train": {"gradient_dtype": "bf16"}, "exchange": {"push": ")" + push + "\"}"));
  };
  EXPECT_EQ(error("f32"), "no error");
  EXPECT_EQ(error("bf16"), "no error");
  EXPECT_EQ(
      error("int8"),
      "job.json:2:59: exchange.push is int8, which is made of f32, and train.gradient_dtype has "
      "devices round to bf16; allowed: train.gradient_dtype f32, or exchange.push bf16");
}

TEST(JobConfigErrorTest, UnknownFieldsNameTheNearest) {
  ExpectErrors({
      {WithLine(R"("train": {"epoch": 1})"),
       "job.json:2:11: unknown field \"epoch\" in train; allowed: epochs, seed, mode, "
       "staleness_max, minibatch, micro_batch, precision, lease_steps, local_steps, "
       "local_steps_by_speed, overlap, "
       "evaluate_every_epochs, stop_early, on_divergence, lr_policy, lr_ramp_steps, batch_policy, "
       "mode_policy, "
       "switch_at, "
       "switch_lr_factor, "
       "switch_momentum_factor, gradient_dtype; did "
       "you mean \"epochs\"?"},
      {WithLine(R"("trian": {})"),
       "job.json:2:1: unknown field \"trian\"; allowed: name, model, data, worker, optimizer, "
       "parameters, outer, "
       "train, exchange, "
       "servers, workers, faults, fleet, checkpoint, launch, budget, traffic, run, goal, "
       "provisioner; did "
       "you mean "
       "\"train\"?"},
      {Replaced("{}", R"({}, {"batch_size": 8})"),
       "job.json:5:20: unknown field \"batch_size\" in workers[1]; allowed: count, minibatch, "
       "slowdown, step_ms, cpu_share, link_mbit_per_s, type, threads, device, notices, "
       "usd_per_hour, zones; did you "
       "mean "
       "\"minibatch\"?"},
      {WithLine(R"("lr": 1)"),
       "job.json:2:1: unknown field \"lr\"; allowed: name, model, data, worker, optimizer, "
       "parameters, outer, "
       "train, "
       "exchange, "
       "servers, workers, faults, fleet, checkpoint, launch, budget, traffic, run, goal, "
       "provisioner; did "
       "you mean "
       "\"optimizer.lr\"?"},
  });
  EXPECT_THAT(ErrorOf(WithLine(R"("qwertyuiop": 1)")), Not(HasSubstr("did you mean")));
  const std::string itself = ErrorOf(WithLine(R"("servers": {"name": "a"})"));
  EXPECT_THAT(itself, HasSubstr("a field of this name is at the top level, not in servers"));
  EXPECT_THAT(itself, Not(HasSubstr("did you mean")));
}

TEST(JobConfigErrorTest, AWorkerComputesOnDevicesThatCanBeAndOnEachOnce) {
  const std::string only =
      "; allowed: cpu, auto, cuda, cuda:0, or several devices for one worker as in cuda:0,1, with "
      "numbers from 0 to 1023 in at most 64 bytes";
  const auto error_of = [](const std::string& device) {
    return ErrorOf(Replaced("{}", fmt::format(R"({{"device": "{}"}})", device)));
  };
  const std::string sixteen = "cuda:0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15";
  for (const std::string& device :
       {std::string("cpu"),
        std::string("auto"),
        std::string("cuda"),
        std::string("cuda:1023"),
        std::string("cuda:1,0"),
        sixteen}) {
    EXPECT_EQ(error_of(device), "no error") << device;
  }
  for (const char* device :
       {"gpu",
        "CPU",
        "cuda:",
        "cuda:x",
        "cuda:-1",
        "cuda:1024",
        "cuda:1 ",
        "cuda:0,",
        "cuda:,0",
        "cuda:0,,1",
        "cuda:0,1024",
        "cuda:0;1",
        "cpu,cuda"}) {
    EXPECT_THAT(
        error_of(device), HasSubstr(fmt::format("workers[0].device is \"{}\"{}", device, only)));
  }
  EXPECT_THAT(error_of("cuda:" + std::string(80, '1')), HasSubstr(only));
  ExpectErrors({
      {Replaced("{}", R"({"device": "cuda:0,1,0"})"),
       "job.json:5:26: workers[0].device is \"cuda:0,1,0\", which names device 0 twice; allowed: "
       "each number once"},
      {Replaced("{}", fmt::format(R"({{"device": "{},16"}})", sixteen)),
       fmt::format(
           "job.json:5:26: workers[0].device is \"{},16\", which are 17 devices; allowed: at most "
           "16 for one worker",
           sixteen)},
      {WithLine(R"("faults": [{"kind": "add", "add": {"device": "tpu"}}])"),
       "job.json:2:46: faults[0].add.device is \"tpu\"" + only},
  });
}

TEST(JobConfigErrorTest, ALauncherHasItsOwnFieldsAndRoomForEveryWorker) {
  const auto error_of = [](const char* launch) {
    return ErrorOf(Replaced("{}", R"({"count": 3})"), {{"launch", launch}});
  };
  const std::vector<std::pair<const char*, const char*>> faults = {
      {R"({"launcher": "rsh"})",
       "allowed: one of local, ssh, slurm, kubernetes, ec2, gce; did you mean \"ssh\"?"},
      {R"({"hosts": [{"host": "a"}]})",
       "launch.hosts is for the launcher ssh; allowed: leave it out, or \"launcher\": \"ssh\" in "
       "launch"},
      {R"({"launcher": "ssh", "sbatch": "-p spot"})", "launch.sbatch is for the launcher slurm"},
      {R"({"launcher": "slurm", "ssh_config": "f"})", "launch.ssh_config is for the launcher ssh"},
      {R"({"launcher": "slurm", "prefix": "nice"})", "launch.prefix is for the launcher local"},
      {R"({"launcher": "ssh"})",
       "launch.hosts has 0 slots for 3 workers; add hosts, for example {\"host\": \"10.0.0.3\", "
       "\"slots\": 3}"},
      {R"({"launcher": "ssh", "hosts": [{"host": "localhost", "slots": 2}]})",
       "launch.hosts has 2 slots for 3 workers"},
      {R"({"launcher": "ssh", "hosts": [{"host": "::1", "slots": 2}, {"host": "::1"}]})",
       "launch.hosts[1].host is \"::1\" again; allowed: each host once, with its slots"},
      {R"({"launcher": "ssh", "hosts": [{"host": "-oProxyCommand=x"}]})", "launch.hosts[0].host"},
      {R"({"launcher": "ssh", "hosts": [{"host": "me@localhost"}, {"host": "me@far"}]})",
       "launch.hosts[1].host is \"me@far\", which can't reach run.listen \"127.0.0.1\"; set "
       "run.listen to an address of this machine that others reach, for example 0.0.0.0"}};
  for (const auto& [launch, error] : faults) {
    EXPECT_THAT(error_of(launch), HasSubstr(error)) << launch;
  }
  for (const char* launch :
       {R"({"launcher": "slurm", "sbatch": "--partition=spot"})",
        R"({"launcher": "ssh", "hosts": [{"host": "me@localhost", "slots": 3}]})"}) {
    EXPECT_EQ(error_of(launch), "no error");
  }
}

TEST(JobConfigErrorTest, ServersElsewhereHaveTheirOwnFieldsAndRoomForEach) {
  const auto error_of = [](const char* servers, const char* launch = "{}") {
    return ErrorOf(Replaced("{}", "{}"), {{"servers", servers}, {"launch", launch}});
  };
  const std::vector<std::pair<const char*, const char*>> faults = {
      {R"({"hosts": [{"host": "a"}]})",
       "servers.hosts is for the launcher ssh; allowed: leave it out, or \"launcher\": \"ssh\" in "
       "servers"},
      {R"({"launcher": "ssh", "sbatch": "-p x"})", "servers.sbatch is for the launcher slurm"},
      {R"({"launcher": "ssh"})", "servers.hosts has 0 slots for 1 servers; add hosts"},
      {R"({"launcher": "ssh", "count": 2, "hosts": [{"host": "localhost"}]})",
       "servers.hosts has 1 slots for 2 servers"},
      {R"({"launcher": "ssh", "hosts": [{"host": "localhost"}, {"host": "localhost"}]})",
       "servers.hosts[1].host is \"localhost\" again"},
      {R"({"launcher": "ssh", "hosts": [{"host": "far"}]})",
       "servers.hosts[0].host is \"far\", which can't reach run.listen \"127.0.0.1\""},
      {R"({"launcher": "ssh", "hosts": [{"host": "localhost", "zone": "a"}]})",
       "servers.hosts[0].zone is for workers; allowed: leave it out"},
      {R"({"launcher": "slurm", "launch": false})",
       "servers.launcher says how psctl starts servers, and servers.launch is false"}};
  for (const auto& [servers, error] : faults) {
    EXPECT_THAT(error_of(servers), HasSubstr(error)) << servers;
  }
  EXPECT_THAT(
      error_of("{}", R"({"ssh_config": "f"})"),
      HasSubstr("launch.ssh_config is for the launcher ssh; allowed: leave it out, or "
                "\"launcher\": \"ssh\" in launch or servers"));
  EXPECT_EQ(
      error_of(
          R"({"launcher": "ssh", "hosts": [{"host": "localhost"}]})", R"({"ssh_config": "f"})"),
      "no error");
  EXPECT_EQ(error_of(R"({"launcher": "slurm", "sbatch": "--partition=ondemand"})"), "no error");
}

TEST(JobConfigErrorTest, PodsNeedAnImageAndAnAddressThatTheyReach) {
  const auto error_of = [](const std::string& kubernetes, const char* listen = "0.0.0.0") {
    return ErrorOf(
        Replaced("{}", "{}"),
        {{"launch", R"({"launcher": "kubernetes", "kubernetes": )" + kubernetes + "}"},
         {"run.listen", listen}});
  };
  const std::vector<std::pair<const char*, const char*>> faults = {
      {"{}", "launch.launcher is kubernetes, and launch.kubernetes.image is absent; allowed: an"},
      {R"({"image": "a b"})", "launch.kubernetes.image is \"a b\"; allowed: "},
      {R"({"image": "i", "namespace": "A"})", "launch.kubernetes.namespace is \"A\"; allowed: "},
      {R"({"image": "i", "memory": "4 GB"})", "launch.kubernetes.memory is \"4 GB\"; allowed: "},
      {R"({"image": "i", "selector": "spot"})", "launch.kubernetes.selector is \"spot\"; allowed"},
      {R"({"image": "i", "volumes": ["data"]})",
       "launch.kubernetes.volumes[0] is \"data\"; allowed: the name of a PersistentVolumeClaim"},
      {R"({"image": "i", "volumes": ["a:/d", "b:/d"]})",
       "launch.kubernetes.volumes[1] is mounted where another one is"},
      {R"({"image": "i", "tolerations": ["spot:Sometimes"]})",
       "launch.kubernetes.tolerations[0] is \"spot:Sometimes\"; allowed: a taint as key, "},
      {R"({"image": "i", "wait_s": 60})",
       "launch.kubernetes.wait_s is 60, and after fleet.join_timeout_s, 60 s, nobody waits"}};
  for (const auto& [kubernetes, error] : faults) {
    EXPECT_THAT(error_of(kubernetes), HasSubstr(error)) << kubernetes;
  }
  EXPECT_THAT(
      error_of(R"({"image": "i"})", "127.0.0.1"),
      HasSubstr("launch.launcher is kubernetes, and no Pod reaches run.listen \"127.0.0.1\""));
  EXPECT_EQ(
      error_of(R"({"image": "r.example:5000/a/spotps@sha256:00", "selector": "a.b/c=d,e=",
                   "tolerations": ["spot", "a=b", "a=b:NoSchedule"], "volumes": ["c:/data"]})"),
      "no error");
  EXPECT_THAT(
      ErrorOf(Replaced("{}", "{}"), {{"launch", R"({"kubernetes": {"image": "i"}})"}}),
      HasSubstr("launch.kubernetes is for the launcher kubernetes; allowed: leave it out, or "));
  EXPECT_THAT(
      ErrorOf(
          Replaced("{}", "{}"),
          {{"servers", R"({"launcher": "kubernetes"})"}, {"run.listen", "0.0.0.0"}}),
      HasSubstr("servers.launcher is kubernetes, and servers.kubernetes.image is absent"));
}

TEST(JobConfigErrorTest, AShareOfTheProcessorsIsOfPsctlsMachine) {
  EXPECT_EQ(ErrorOf(Replaced("{}", R"({"cpu_share": 0.5})")), "no error");
  EXPECT_THAT(
      ErrorOf(Replaced("{}", R"({"cpu_share": 0.5})"), {{"launch", R"({"launcher": "slurm"})"}}),
      HasSubstr("workers[0].cpu_share is for the launcher local; allowed: leave it out"));
  EXPECT_THAT(ErrorOf(Replaced("{}", R"({"cpu_share": -1})")), HasSubstr("cpu_share"));
}

TEST(JobConfigErrorTest, CopiesNeedCheckpoints) {
  ExpectErrors({
      {WithLine(R"("checkpoint": {"enabled": false, "copy_to": "s3://bucket/runs"})"),
       "job.json:2:45: checkpoint.copy_to has nothing to copy, because checkpoint.enabled is "
       "false"},
  });
}

TEST(JobConfigErrorTest, OneServerCannotGoBackAloneInBsp) {
  ExpectErrors({
      {WithLine(R"("train": {"mode": "bsp"}, "checkpoint": {"recovery": "partial"})"),
       "job.json:2:54: checkpoint.recovery is partial in mode bsp, whose rounds are of all "
       "servers; allowed: auto, consistent"},
  });
}

TEST(JobConfigErrorTest, WrongTypesSayWhatTheyAreAndWhatFits) {
  ExpectErrors({
      {WithLine(R"("train": {"epochs": "3"})"),
       "job.json:2:21: train.epochs is a text; allowed: a whole number from 1 to 100000"},
      {WithLine(R"("train": {"epochs": 1.5})"),
       "job.json:2:21: train.epochs is 1.5; allowed: a whole number from 1 to 100000"},
      {WithLine(R"("train": [])"), "job.json:2:10: train is a list; allowed: an object in braces"},
      {WithLine(R"("train": {"overlap": 1})"),
       "job.json:2:22: train.overlap is a number; allowed: true or false"},
      {WithLine(R"("train": {"seed": null})"),
       "job.json:2:19: train.seed is null; allowed: a whole number from 0"},
      {WithLine(R"("optimizer": {"lr": true})"),
       "job.json:2:21: optimizer.lr is true or false; allowed: a number above 0 up to 1000"},
      {Replaced("[{}]", "{}"),
       "job.json:5:14: workers is an object; allowed: a list of objects, in brackets"},
      {Replaced("[{}]", "[3]"),
       "job.json:5:15: workers[0] is a number; allowed: an object in braces"},
      {Replaced("\"small\"", "7"),
       "job.json:2:11: name is a number; allowed: a text that matches "
       "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$, in double quotes"},
      {"[]", "job.json:1:1: the document is a list; allowed: an object in braces"},
  });
}

TEST(JobConfigErrorTest, UnknownEnumValuesNameTheNearest) {
  ExpectErrors({
      {WithLine(R"("train": {"mode": "asnyc"})"),
       "job.json:2:19: train.mode is \"asnyc\"; allowed: one of async, ssp, bsp; did you mean "
       "\"async\"?"},
      {WithLine(R"("train": {"mode": 0})"),
       "job.json:2:19: train.mode is a number; allowed: one of async, ssp, bsp"},
      {Replaced("\"mlp\"", "\"resnet2\""),
       "job.json:3:21: model.name is \"resnet2\"; allowed: one of mlp, cnn, resnet20, "
       "resnet32, resnet56, resnet110, resnet50, vgg16, vgg19, gpt, bert; did you mean "
       "\"resnet20\"?"},
      {WithLine(R"("optimizer": {"kind": "SGD"})"),
       "job.json:2:23: optimizer.kind is \"SGD\"; allowed: one of sgd, adam, adamw, adagrad, "
       "rmsprop, delayed_nesterov, heloco"},
  });
}

TEST(JobConfigErrorTest, NumbersOutOfRangeNameTheRange) {
  ExpectErrors({
      {WithLine(R"("train": {"epochs": 0})"),
       "job.json:2:21: train.epochs is 0; allowed: a whole number from 1 to 100000"},
      {WithLine(R"("train": {"epochs": -1})"),
       "job.json:2:21: train.epochs is -1; allowed: a whole number from 1 to 100000"},
      {WithLine(R"("train": {"seed": 18446744073709551616})"),
       "job.json:2:19: train.seed is 18446744073709551616; allowed: a whole number from 0"},
      {WithLine(R"("optimizer": {"lr": 0})"),
       "job.json:2:21: optimizer.lr is 0; allowed: a number above 0 up to 1000"},
      {WithLine(R"("optimizer": {"lr": 1e-60})"),
       "job.json:2:21: optimizer.lr is 1e-60; allowed: a number above 0 up to 1000"},
      {WithLine(R"("optimizer": {"momentum": 1})"),
       "job.json:2:27: optimizer.momentum is 1; allowed: a number from 0 below 1"},
      {WithLine(R"("optimizer": {"lr": 1e999})"),
       "job.json:2:21: optimizer.lr is 1e999; allowed: a number above 0 up to 1000"},
      {WithLine(R"("run": {"port": 65536})"),
       "job.json:2:17: run.port is 65536; allowed: a whole number from 0 to 65535"},
      {Replaced("\"small\"", "\"a/b\""),
       "job.json:2:11: name is \"a/b\"; allowed: a text that matches "
       "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"},
      {Replaced("\".\"", "\"\""), "job.json:4:25: data.directory has 0 bytes; allowed: 1 to 4096"},
  });
}

TEST(JobConfigErrorTest, MissingRequiredFieldsAreNamed) {
  ExpectErrors({
      {"{}",
       "job.json:1:1: name is missing; allowed: a text that matches "
       "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"},
      {Replaced(R"({"directory": "."})", "{}"),
       "job.json:4:11: data.directory is missing; allowed: a text"},
      {Replaced(R"("workers": [{}])", R"("train": {})"),
       "job.json:1:1: workers is missing; allowed: a list of objects"},
  });
}

TEST(JobConfigErrorTest, WhatIsOfOurOwnWorkersIsRefusedBesideAProgram) {
  const auto with = [](const std::string& more) {
    return R"({"name": "a", "worker": {"program": ["x"]}, "workers": [{}])" + more + "}";
  };
  ExpectErrors({
      {with(R"(, "model": {"name": "mlp"})"),
       "job.json:1:71: model is for workers of our own, and worker.program is given; allowed: one "
       "of the two"},
      {with(R"(, "data": {"directory": "."})"),
       "job.json:1:70: data is for workers of our own, and worker.program is given; allowed in "
       "data "
       "with a program: train_samples and test_samples, its data are its own"},
      {with(R"(, "optimizer": {"clip_norm": 1})"),
       "job.json:1:89: optimizer.clip_norm is for workers of our own, and worker.program is given; "
       "clip in the program, before its step"},
      {with(R"(, "train": {"micro_batch": 8})"),
       "job.json:1:87: train.micro_batch is for workers of our own, and worker.program is given; "
       "accumulate in the program"},
      {with(R"(, "train": {"precision": "bf16"})"),
       "job.json:1:85: train.precision is for workers of our own, and worker.program is given; "
       "multiply as you like in the program"},
      {with(R"(, "train": {"gradient_dtype": "bf16"})"),
       "job.json:1:90: train.gradient_dtype is for workers of our own, and worker.program is "
       "given; "
       "allowed: \"exchange\": {\"push\": \"bf16\"}"},
      {R"({"name": "a", "worker": {"program": []}, "workers": [{}]})",
       "job.json:1:1: model is missing; allowed: an object"},
      {R"({"name": "a", "worker": {"program": [""]}, "workers": [{}]})",
       "job.json:1:38: worker.program[0] has 0 bytes; allowed: 1 to 4096"},
  });
}

TEST(JobConfigErrorTest, ImpossibleCombinationsAreExplained) {
  ExpectErrors({
      {WithLine(R"("optimizer": {"nesterov": true})"),
       "job.json:2:27: optimizer.nesterov needs momentum; allowed: optimizer.momentum above 0, or "
       "no nesterov"},
      {WithLine(R"("train": {"overlap": true, "mode": "bsp"})"),
       "job.json:2:22: train.overlap is true in a mode that bounds how old the parameters "
       "of a step may be; allowed: false, or mode async"},
      {WithLine(R"("train": {"mode_policy": "sync_switch"})"),
       "job.json:2:26: train.mode_policy sync_switch begins in bsp, and so do "
       "sync_switch_greedy and sync_switch_elastic; "
       "allowed: \"mode\": \"bsp\", or mode_policy fixed"},
      {WithLine(R"("train": {"overlap": true}, "optimizer": {"clip_norm": 1})"),
       "job.json:2:22: train.overlap is true with optimizer.clip_norm, which needs the whole "
       "gradient first; allowed: false, or no clip_norm"},
      {WithLine(R"("goal": {"within_s": 60})"),
       "job.json:2:22: goal.within_s limits the way to goal.loss, which is 0; allowed: both, or 0"},
      {WithLine(R"("train": {"mode": "ssp", "staleness_max": 0})"),
       "job.json:2:43: train.staleness_max is 0 in mode ssp; allowed: 1 or more, or \"mode\": "
       "\"bsp\""},
      {WithLine(R"("optimizer": {"kind": "adamw", "momentum": 0.9})"),
       "job.json:2:32: optimizer.momentum has no meaning for kind \"adamw\"; allowed for: sgd, "
       "rmsprop, delayed_nesterov"},
      {WithLine(R"("train": {"local_steps": 8, "overlap": true})"),
       "job.json:2:40: train.overlap is true with train.local_steps, whose change is known when "
       "the last of them is done; allowed: false, or local_steps 1"},
      {WithLine(R"("outer": {"lr": 0.5})"),
       "job.json:2:10: outer is the servers' rule with local steps, and train.local_steps is 1; "
       "allowed: train.local_steps above 1, or no outer"},
      {WithLine(R"("train": {"local_steps_by_speed": true})"),
       "job.json:2:35: train.local_steps_by_speed is true and train.local_steps is 1; allowed: "
       "train.local_steps above 1, or false"},
      {WithLine(R"("train": {"local_steps": 8, "mode": "bsp"}, "outer": {"every": 3})"),
       "job.json:2:64: outer.every is of delayed_nesterov, and outer.kind is auto, which in mode "
       "bsp is nesterov; allowed: \"kind\": \"delayed_nesterov\", or no every"},
      {WithLine(R"("train": {"local_steps": 8}, "outer": {"kind": "heloco", "every": 3})"),
       "job.json:2:67: outer.every is of delayed_nesterov, and outer.kind is heloco; allowed: "
       "\"kind\": \"delayed_nesterov\", or no every"},
      {WithLine(R"("train": {"local_steps": 8}, "outer": {"kind": "heloco", "momentum": 0})"),
       "job.json:2:70: outer.momentum is 0 with heloco; allowed: above 0, or \"kind\": \"sgd\""},
      {WithLine(R"("outer": {"kind": "heloco"})"),
       "job.json:2:10: outer is the servers' rule with local steps, and train.local_steps is 1; "
       "allowed: train.local_steps above 1, or no outer"},
      {WithLine(R"("train": {"local_steps": 8}, "optimizer": {"kind": "heloco"})"),
       "job.json:2:52: optimizer.kind is heloco, which takes what several local steps have "
       "changed; allowed: outer.kind heloco with train.local_steps above 1, or another kind here"},
      {WithLine(R"("train": {"local_steps": 8}, "outer": {"momentum": 0})"),
       "job.json:2:52: outer.momentum is 0 with delayed_nesterov; allowed: above 0, or \"kind\": "
       "\"sgd\""},
      {WithLine(R"("train": {"local_steps": 10000, "minibatch": 4096})"),
       "job.json:2:26: train.local_steps is 10000 with minibatches of 4096, more than 16777216 "
       "samples a step; allowed: up to 4096"},
      {WithLine(R"("train": {"local_steps": 8, "local_steps_by_speed": true,)"
                R"( "batch_policy": "by_speed"})"),
       "job.json:2:53: train.local_steps_by_speed and train.batch_policy by_speed both make steps "
       "equally long; allowed: one of the two"},
      {Replaced(R"({"name": "mlp"})", R"({"layers": [{"kind": "mse"}]})"),
       "job.json:3:33: model.layers[0].kind is mse, which learns numbers, and data of format idx "
       "have classes; allowed: softmax_cross_entropy, or data.format csv, tsv or npy"},
      {Replaced(
           R"({"directory": "."})", R"({"directory": ".", "format": "csv", "labels": ["a", "b"]})"),
       "job.json:4:57: data.labels is for numbers and labels of which a sample has several; "
       "allowed: data.label for classes, or a loss at the end of model.layers: mse, mae, huber or "
       "bce"},
      {Replaced(R"({"directory": "."})", R"({"directory": ".", "validation": "val"})"),
       "job.json:4:44: data.validation is \"val\", and data of format idx have no such part; "
       "allowed: data.validation_share, which keeps a share of the training samples for it"},
      {Replaced(
           R"({"directory": "."})",
           R"({"directory": ".", "format": "csv", "validation": "val", "validation_share": 0.1})"),
       "job.json:4:61: data.validation stands beside data.validation_share; allowed: one of them, "
       "a part of its own or a share of the training samples"},
      {Replaced(
           R"({"directory": "."})", R"({"directory": ".", "format": "csv", "validation": "te"})"),
       "job.json:4:61: data.validation is \"te\"; allowed: a name that neither begins with test "
       "nor is how it begins, as val or dev"},
      {Replaced(
           R"({"directory": "."})",
           R"({"directory": ".", "format": "npy", "validation": "train-b"})"),
       "job.json:4:61: data.validation is \"train-b\"; allowed: a name that neither begins with "
       "train nor is how it begins, as val or dev"},
      {Replaced(
           R"({"directory": "."})",
           R"({"directory": ".", "format": "pictures", "validation": "../val"})"),
       "job.json:4:66: data.validation is \"../val\"; allowed: the name of a part beside train and "
       "test, as val or dev, of up to 64 letters, digits, '_', '-' and '.', not a point first"},
      {Replaced(
           R"({"name": "mlp"})",
           R"({"layers": [{"kind": "softmax_cross_entropy", "class_weights": [0, 0]}]})"),
       "job.json:3:75: model.layers[0].class_weights are all 0, so nothing is learnt; allowed: "
       "some "
       "above 0"},
      {WithLine(R"("optimizer": {"schedule": {"kind": "step"}})"),
       "job.json:2:27: optimizer.schedule.milestones is missing; allowed: at least one number "
       "above 0 below 1"},
      {WithLine(R"("optimizer": {"schedule": {"kind": "step", "milestones": [0.5, 0.5]}})"),
       "job.json:2:64: optimizer.schedule.milestones do not ascend; allowed: each larger than the "
       "one before"},
      {WithLine(R"("optimizer": {"schedule": {"milestones": [0.5]}})"),
       "job.json:2:28: optimizer.schedule.milestones has no meaning for kind \"constant\"; allowed "
       "for: step"},
      {WithLine(R"("faults": [{"kind": "kill", "worker": 1}])"),
       "job.json:2:39: faults[0].worker is 1, a seat that nobody has then; allowed: 0 to 0"},
      {WithLine(R"("faults": [{"kind": "kill", "add": {}}])"),
       "job.json:2:29: faults[0].add has no meaning for kind \"kill\"; allowed for: add"},
      {Replaced("[{}]", R"([], "faults": [{"worker": 0}])"),
       "job.json:5:40: faults[0].worker is 0, a seat that nobody has then; allowed: no fault, "
       "since "
       "psctl starts no workers then"},
      {WithLine(R"("faults": [{"kind": "add", "add": {"count": 0}}])"),
       "job.json:2:45: faults[0].add.count is 0; allowed: 1 or more"},
      {WithLine(R"("servers": {"count": 2, "shards_per_server": 2, "port": 65533})"),
       "job.json:2:57: servers.port gives the last of 4 shards port 65536; allowed: 1 to 65532 "
       "with "
       "these shards, or 0 for any free ports"},
      {WithLine(R"("servers": {"count": 3, "port": 5000}, "run": {"port": 5002})"),
       "job.json:2:33: servers.port gives shard 2 the coordinator's port 5002; allowed: shards at "
       "other ports than run.port"},
      {WithLine(R"("servers": {"queue_mib": 1, "frame_kib": 2048})"),
       "job.json:2:26: servers.queue_mib holds less than two frames; allowed: 4 or more with these "
       "frames"},
      {WithLine(R"("servers": {"max_detect_s": 2})"),
       "job.json:2:29: servers.max_detect_s is less than fleet.max_detect_s, after which a worker "
       "is lost; allowed: 0, or 3 or more"},
  });
}

TEST(JobConfigErrorTest, WhoDecidesTheNumberOfWorkersIsOneAndCan) {
  ExpectErrors({
      {WithLine(R"("provisioner": {"policy": "oracle"})"),
       "job.json:2:27: provisioner.policy oracle knows when each machine goes, which nobody knows "
       "of a run; allowed: any other one, and oracle in psctl simulate"},
      {WithLine(R"("provisioner": {"policy": "hold"}, "goal": {"loss": 1})"),
       "job.json:2:27: provisioner.policy and goal.loss would both decide how many workers there "
       "are; allowed: one of the two"},
      {WithLine(R"("provisioner": {"policy": "hold"}, "fleet": {"replace": false})"),
       "job.json:2:27: provisioner.policy decides how many workers are started, and fleet.replace "
       "is false; allowed: true"},
      {Replaced("[{}]", R"([], "provisioner": {"policy": "reactive"})"),
       "job.json:5:44: provisioner.policy decides how many workers are started, and the job has "
       "no group of workers; allowed: one or more"},
      {WithLine(R"("provisioner": {"policy": "hold", "type": "fast"})"),
       "job.json:2:43: provisioner.type \"fast\" is the type of no group of workers"},
      {WithLine(R"("provisioner": {"policy": "deadline"})"),
       "job.json:2:27: provisioner.policy deadline needs provisioner.within_s; allowed: above 0"},
      {WithLine(
           R"("provisioner": {"policy": "deadline", "within_s": 60, "on_demand_type": "local"})"),
       "job.json:2:73: provisioner.on_demand_type \"local\" is not the type of another group of "
       "workers than \"local\"; allowed: that of machines that stay, its count may be 0"},
      {Replaced(
           "[{}]",
           R"([{}, {"type": "stays"}], )"
           R"("provisioner": {"policy": "deadline", "within_s": 60, "on_demand_type": "stays"})"),
       "job.json:5:111: provisioner.on_demand_type \"stays\" has no usd_per_hour; allowed: above "
       "0"},
  });
  EXPECT_EQ(
      ErrorOf(WithLine(R"("provisioner": {"policy": "parcae", "workers_max": 8})")), "no error");
}

TEST(JobConfigErrorTest, ImpossibleModelsAreExplained) {
  const auto model = [](const std::string& json) { return Replaced(R"({"name": "mlp"})", json); };
  ExpectErrors({
      {model("{}"),
       "job.json:3:12: model has neither a name nor layers; allowed: one of the two, for example "
       "\"name\": \"mlp\""},
      {model(R"({"name": "mlp", "layers": [{"kind": "relu"}]})"),
       "job.json:3:38: model has both a name and layers; allowed: one of the two"},
      {model(R"({"layers": [{"kind": "linear"}]})"),
       "job.json:3:24: model.layers[0].out is missing; allowed: a whole number from 1"},
      {model(R"({"layers": [{"kind": "conv2d", "out": 0}]})"),
       "job.json:3:50: model.layers[0].out is missing; allowed: a whole number from 1"},
      {model(R"({"layers": [{"kind": "group_norm"}]})"),
       "job.json:3:24: model.layers[0].groups is missing; allowed: a whole number from 1"},
      {model(R"({"layers": [{"kind": "conv2d", "out": 4, "groups": -2}]})"),
       "job.json:3:63: model.layers[0].groups is -2; allowed: a whole number from 0 to 1048576"},
      {model(R"({"layers": [{"kind": "linear", "out": 4, "groups": 2}]})"),
       "job.json:3:53: model.layers[0].groups has no meaning for kind \"linear\"; allowed for: "
       "conv2d, group_norm"},
      {model(R"({"layers": [{"kind": "relu", "out": 3}]})"),
       "job.json:3:41: model.layers[0].out has no meaning for kind \"relu\"; allowed for: linear, "
       "conv2d, embedding"},
      {model(R"({"layers": [{"kind": "max_pool", "padding": 2}]})"),
       "job.json:3:56: model.layers[0].padding is more than half the kernel; allowed: up to 1"},
      {model(R"({"layers": [{"kind": "residual"}]})"),
       "job.json:3:24: model.layers[0].layers is missing; allowed: the layers of the body"},
      {model(R"({"layers": [{"kind": "residual", "layers": [{"kind": "linear"}]}]})"),
       "job.json:3:56: model.layers[0].layers[0].out is missing; allowed: a whole number from 1"},
  });
}

TEST(JobConfigErrorTest, ModelsOfSequencesAreExplained) {
  const auto job = [](const std::string& model, const std::string& data) {
    return R"({
"name": "small", "model": )" +
           model + R"(,
"data": )" +
           data + R"(,
"workers": [{}]})";
  };
  const std::string text = R"({"format": "text", "directory": "."})";
  ExpectErrors({
      {job(R"({"name": "gpt", "heads": 3})", text),
       "job.json:2:52: model.heads is 3, which does not divide model.width 128; allowed: a "
       "divisor"},
      {job(R"({"name": "gpt"})", R"({"format": "text", "directory": ".", "mask": 0.2})"),
       "job.json:3:54: data.mask hides tokens, which model gpt cannot learn; allowed: 0"},
      {job(R"({"name": "bert"})", text),
       "job.json:3:9: data.mask is 0, and model bert learns the tokens that are hidden; allowed: "
       "above 0 to 0.9, for example 0.15"},
      {job(R"({"layers": [{"kind": "attention"}]})", text),
       "job.json:2:39: model.layers[0].heads is missing; allowed: a whole number from 1"},
      {job(R"({"name": "mlp", "depth": 3})", text),
       "job.json:2:43: model.depth has no meaning for name \"mlp\"; allowed for: gpt, bert"},
      {job(R"({"name": "mlp"})", R"({"directory": ".", "context": 64})"),
       "job.json:3:28: data.context has no meaning for format \"idx\"; allowed for: text"},
      {job(R"({"name": "gpt"})",
           R"({"format": "text", "directory": ".", "augment": {"flip": true}})"),
       "job.json:3:46: data.augment has no meaning for format \"text\"; allowed for: idx, cifar10, "
       "cifar100, npy, pictures"},
      {job(R"({"name": "mlp"})", R"({"directory": ".", "picture": {"height": 8}})"),
       "job.json:3:28: data.picture has no meaning for format \"idx\"; allowed for: pictures"},
      {job(R"({"name": "mlp"})",
           R"({"format": "pictures", "directory": ".", "picture": {"channels": 2}})"),
       "job.json:3:74: data.picture.channels is 2; allowed: 1 (grey), 3 (red, green and blue)"},
      {job(R"({"name": "mlp"})",
           R"({"format": "pictures", "directory": ".", "picture": {"height": 5000}})"),
       "job.json:3:72: data.picture.height is 5000; allowed: a whole number from 0 to 4096"},
  });
}

TEST(JobConfigErrorTest, SigtermLeavesAnHourAtMostAndIsSaidOfServersThatPsctlStarts) {
  const auto job = [](const std::string& more) { return Replaced("[{}]", "[{}], " + more); };
  EXPECT_EQ(ErrorOf(job(R"("launch": {"term_grace_s": 3600})")), "no error");
  EXPECT_EQ(ErrorOf(job(R"("servers": {"term_grace_s": 0})")), "no error");
  EXPECT_THAT(
      ErrorOf(job(R"("launch": {"term_grace_s": 3601})")),
      HasSubstr("launch.term_grace_s is 3601; allowed: a whole number from 0 to 3600"));
  EXPECT_THAT(
      ErrorOf(job(R"("servers": {"term_grace_s": 30, "launch": false, "port": 1})")),
      HasSubstr("servers.term_grace_s is for servers that psctl starts, and servers.launch is "
                "false; allowed: leave it out, and start them with ps_server --term-grace-s 30"));
}

TEST(JobConfigErrorTest, ZonesAreNamedOnceAndGroupsNameThoseThatThereAre) {
  const auto job = [](const std::string& zones, const std::string& launch) {
    return Replaced("[{}]", R"([{"zones": )" + zones + R"(}], "launch": )" + launch);
  };
  const std::string slurm =
      R"({"launcher": "slurm", "zones": [{"name": "a", "sbatch": "-p x"}, {"name": "b"}]})";
  EXPECT_EQ(ErrorOf(job(R"(["b", "a"])", slurm)), "no error");
  EXPECT_THAT(
      ErrorOf(job(R"(["a", "c"])", slurm)),
      HasSubstr("workers[0].zones[1] is \"c\"; allowed: a, b"));
  EXPECT_THAT(
      ErrorOf(job(R"(["a"])", "{}")),
      HasSubstr("workers[0].zones[0] is \"a\"; allowed: the names that launch.zones (slurm), "));
  EXPECT_THAT(
      ErrorOf(job("[]", R"({"launcher": "slurm", "zones": [{"name": "a"}, {"name": "a"}]})")),
      HasSubstr("launch.zones[1].name is \"a\" again; allowed: each once"));
  EXPECT_THAT(
      ErrorOf(job("[]", R"({"zones": [{"name": "a"}]})")),
      HasSubstr("launch.zones is for the launcher slurm"));
  EXPECT_THAT(
      ErrorOf(job("[]", R"({"launcher": "slurm", "zones": [{"name": "a b"}]})")),
      HasSubstr("launch.zones[0].name"));
  EXPECT_EQ(
      ErrorOf(
          job(R"(["x"])", R"({"launcher": "ssh", "hosts": [{"host": "127.0.0.1", "zone": "x"}]})")),
      "no error");
}

TEST(JobConfigErrorTest, MissingDatasetsSayHowToGetThem) {
  EXPECT_EQ(
      ErrorOf(Replaced("\".\"", "\"/no/such\"")),
      "job.json:4:25: data.directory \"/no/such\" is no directory on this machine; allowed: the "
      "folder with the dataset's files, or s3://BUCKET/PREFIX");
  EXPECT_EQ(ErrorOf(Replaced("\".\"", "\"s3://bucket/prefix\"")), "no error");
  EXPECT_THAT(
      ErrorOf(Replaced("\".\"", "\"/usr/share/datasets/fashion-mnist/x\"")),
      HasSubstr("sudo apt-get install dataset-fashion-mnist"));
}

TEST(JobConfigErrorTest, BrokenJsonIsPlaced) {
  ExpectErrors({
      {"", "job.json:1:1: the text ends too early; expected a value"},
      {"{\n  \"a\": }", "job.json:2:8: unexpected \"}\"; expected a value"},
      {"{\n  \"a\" 1}", "job.json:2:7: unexpected \"1\"; expected \":\" after the name"},
      {"{\"a\": 1,\n}", "job.json:1:8: nothing follows this comma; remove it"},
      {"{\"a\": 1 \"b\": 2}", "job.json:1:9: unexpected \"\"\"; expected \",\" or \"}\""},
      {"{a: 1}", "job.json:1:2: unexpected \"a\"; expected a name in double quotes"},
      {"{\"a\": yes}", "job.json:1:7: \"yes\" is no value; put texts in double quotes"},
      {"{\"a\": 1,\n \"a\": 2}", "job.json:2:2: \"a\" is given twice; first in line 1"},
      {"{\"a\": \"b\n\"}",
       "job.json:1:7: the text is never closed; expected a double quote in this line"},
      {"{} x", "job.json:1:4: there is more after the end of the document"},
      {"{ /* x", "job.json:1:3: the comment is never closed; expected \"*/\""},
      {"{\"a\": 01}", "job.json:1:7: a number may not begin with 0 and another digit"},
      {"{\"a\": 1.}", "job.json:1:9: unexpected \"}\"; expected a digit"},
      {"{\"a\": \"\\x\"}",
       "job.json:1:8: invalid escape in a text; allowed: \\\" \\\\ \\/ \\b \\f \\n \\r \\t and "
       "\\uXXXX, not NUL"},
      {"{\"\xc3\xa4\": \"\xff\"}", "job.json:1:8: invalid UTF-8 in a text"},
      // It turns the direction of what a terminal shows.
      {"{\"a\": \xe2\x80\xae}", "job.json:1:7: unexpected \"\\xe2\\x80\\xae\"; expected a value"},
  });
  EXPECT_THAT(ErrorOf(std::string(100, '[')), HasSubstr("1:66: nested too deeply"));
}

}  // namespace
}  // namespace ps::proto
