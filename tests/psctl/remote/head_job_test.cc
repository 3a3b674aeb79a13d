#include "psctl/remote/head_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "provisioner/fleet/agent_process.h"
#include "ps/proto/job/job_trust.h"

namespace ps::psctl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

proto::JobConfig RentedJob() {
  proto::JobConfig config;
  config.name = "job";
  config.data.directory = "/data";
  config.model.name = "mlp";
  config.launch.launcher = proto::LauncherKind::kEc2;
  proto::RentConfig& rent = config.launch.rent;
  rent.region = "us-east-1";
  rent.zones = {"us-east-1a"};
  rent.types = {"g4dn.xlarge"};
  rent.image = "ami-1";
  rent.head.type = "m7i.large";
  rent.head.role = "spotps-head";
  config.run.listen = "0.0.0.0";
  config.run.advertise = "laptop.example";
  return config;
}

TEST(HeadJobTest, ItsHeadIsReachedAtItsOwnAddress) {
  const HeadJob job = HeadJobOf(RentedJob(), {"10.0.0.7", 0.36, "us-east-1a"});
  EXPECT_THAT(job.files, IsEmpty());
  const auto there = proto::ParseJobConfig(job.text, "job.json", {}, proto::DataPlace::kElsewhere);
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(there->run.listen, "0.0.0.0");
  EXPECT_EQ(there->run.advertise, "10.0.0.7");
  EXPECT_EQ(there->run.directory, "runs");
  EXPECT_TRUE(there->launch.rent.private_address);
  EXPECT_EQ(there->launch.rent.head.type, "") << "it rents none itself";
  EXPECT_FLOAT_EQ(there->launch.rent.head.usd_per_hour, 0.36F) << "and its budget is for it, too";
  EXPECT_EQ(there->traffic.server_zone, "us-east-1a") << "servers are on the head";
  EXPECT_EQ(there->launch.rent.types, RentedJob().launch.rent.types);
}

TEST(HeadJobTest, FilesOfThisMachineTravelAndWhatIsInABucketDoesNot) {
  proto::JobConfig config = RentedJob();
  config.launch.rent.setup = "/home/me/setup.sh";
  config.launch.ssh_config = "/home/me/ssh";
  config.model.from = "/home/me/model.safetensors";
  const HeadJob job = HeadJobOf(config, {"10.0.0.7", 0});
  EXPECT_THAT(
      job.files,
      ElementsAre(
          Pair("/home/me/setup.sh", "setup"),
          Pair("/home/me/ssh", "ssh_config"),
          Pair("/home/me/model.safetensors", "model_from.safetensors")));
  const auto there = proto::ParseJobConfig(job.text, "job.json", {}, proto::DataPlace::kElsewhere);
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(there->launch.rent.setup, "setup");
  EXPECT_EQ(there->launch.ssh_config, "ssh_config");
  EXPECT_EQ(there->model.from, "model_from.safetensors");
}

/// What a shell makes of the words after --set, as psctl there reads them.
std::vector<proto::ConfigOverride> SettingsIn(const std::string& words) {
  const std::string set = " --set ";
  const size_t begin = words.find(set);
  EXPECT_NE(begin, std::string::npos) << words;
  const Result<std::string> lines = provisioner::RunCommand(
      {"/bin/sh", "-c", "cd / && printf '%s\\n' " + words.substr(begin + set.size())},
      "",
      std::chrono::seconds(30));
  EXPECT_TRUE(lines.ok()) << lines.status();
  std::vector<proto::ConfigOverride> settings;
  std::istringstream stream(lines.ok() ? *lines : "");
  for (std::string line; std::getline(stream, line);) {
    const size_t at = line.find('=');
    settings.push_back({line.substr(0, at), line.substr(at + 1)});
  }
  return settings;
}

TEST(HeadJobTest, ARunThatGoesOnOnAnotherHeadHasNothingOfTheFirst) {
  proto::JobConfig job = RentedJob();
  job.launch.rent.setup = "/home/me/setup.sh";
  job.launch.ssh_config = "/home/me/ssh";
  const std::string saved = HeadJobOf(job, {"10.0.0.7", 0.36}).text;
  run::HeadFile file;
  file.from = "/home/me/runs/before/checkpoints";
  file.changes = {
      "launch.rent.subnet=it's $HOME", "train.epochs=7", "launch.rent.head.type=m7i.xlarge"};
  const std::string words = BeginWords(job, {"10.0.0.9", 0.5, "us-east-1b"}, file, "bin", false);
  EXPECT_TRUE(words.starts_with("bin/psctl resume checkpoints --set ")) << words;
  const auto there =
      proto::ParseJobConfig(saved, "job", SettingsIn(words), proto::DataPlace::kElsewhere);
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(there->run.advertise, "10.0.0.9");
  EXPECT_EQ(there->run.directory, "runs");
  EXPECT_EQ(there->traffic.server_zone, "us-east-1b");
  EXPECT_EQ(there->launch.rent.subnet, "it's $HOME");
  EXPECT_EQ(there->launch.rent.setup, "//setup") << "of the folder there";
  EXPECT_EQ(there->launch.ssh_config, "//ssh_config");
  EXPECT_EQ(there->train.epochs, 7U);
  EXPECT_EQ(there->launch.rent.head.type, "");
  EXPECT_FLOAT_EQ(there->launch.rent.head.usd_per_hour, 0.5F);
}

/// Whoever can write to the bucket can have written that job.
TEST(HeadJobTest, WhatTheJobOfACopyStartsIsAsItWasHereOrIsAskedAbout) {
  proto::JobConfig job = RentedJob();
  job.checkpoint.copy_to = "s3://bucket/job";
  proto::JobConfig other = job;
  other.launch.rent.image = "ami-666";
  other.checkpoint.copy_to = "s3://elsewhere/job";
  other.launch.rent.key_name = "theirs";
  run::HeadFile file;
  file.from = "s3://bucket/job";
  const std::string words = BeginWords(job, {"10.0.0.9", 0.5}, file, "bin", false);
  EXPECT_TRUE(words.starts_with(
      "bin/psctl checkpoint copy checkpoints 's3://bucket/job' && bin/psctl resume checkpoints "
      "--set "))
      << words;
  const std::vector<proto::ConfigOverride> settings = SettingsIn(words);
  const auto there = proto::ParseJobConfig(
      HeadJobOf(other, {"10.0.0.7", 0}).text, "job", settings, proto::DataPlace::kElsewhere);
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(there->launch.rent.image, "ami-1");
  EXPECT_EQ(there->checkpoint.copy_to, "s3://bucket/job");
  std::vector<std::string> asked;
  for (const proto::JobSetting& setting : proto::SettingsToTrust(*there)) {
    if (!proto::IsOverridden(setting.path, settings)) {
      asked.push_back(setting.path);
    }
  }
  EXPECT_THAT(asked, ElementsAre("launch.rent.key_name"));
  file.is_trusted = true;
  EXPECT_TRUE(
      BeginWords(job, {"10.0.0.9", 0.5}, file, "bin", false).find(" --trust-launch --set ") !=
      std::string::npos);
}

TEST(HeadJobTest, OneThatBeginsAnewHasItsPlan) {
  EXPECT_EQ(BeginWords(RentedJob(), {}, {}, "bin", false), "bin/psctl train job.json");
  EXPECT_EQ(
      BeginWords(RentedJob(), {}, {}, "bin", true), "bin/psctl train job.json --plan plan.json");
}

}  // namespace
}  // namespace ps::psctl
