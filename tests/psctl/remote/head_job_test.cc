#include "psctl/remote/head_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "provisioner/fleet/agent_process.h"

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
  const HeadJob job = HeadJobOf(RentedJob(), "10.0.0.7");
  EXPECT_THAT(job.files, IsEmpty());
  const auto there = proto::ParseJobConfig(job.text, "job.json", {}, proto::DataPlace::kElsewhere);
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(there->run.listen, "0.0.0.0");
  EXPECT_EQ(there->run.advertise, "10.0.0.7");
  EXPECT_EQ(there->run.directory, "runs");
  EXPECT_TRUE(there->launch.rent.private_address);
  EXPECT_EQ(there->launch.rent.head, proto::RentHeadConfig()) << "it rents none itself";
  EXPECT_EQ(there->launch.rent.types, RentedJob().launch.rent.types);
}

TEST(HeadJobTest, FilesOfThisMachineTravelAndWhatIsInABucketDoesNot) {
  proto::JobConfig config = RentedJob();
  config.launch.rent.setup = "/home/me/setup.sh";
  config.launch.ssh_config = "/home/me/ssh";
  config.model.from = "/home/me/model.safetensors";
  const HeadJob job = HeadJobOf(config, "10.0.0.7");
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

/// What a shell makes of the words, as psctl there reads them.
std::vector<proto::ConfigOverride> ReadBy(const std::string& words) {
  const Result<std::string> lines = provisioner::RunCommand(
      {"/bin/sh", "-c", "cd / && printf '%s\\n' " + words}, "", std::chrono::seconds(30));
  EXPECT_TRUE(lines.ok()) << lines.status();
  std::vector<proto::ConfigOverride> settings;
  std::istringstream stream(lines.ok() ? *lines : "");
  std::string line;
  std::getline(stream, line);
  EXPECT_EQ(line, "--set");
  while (std::getline(stream, line)) {
    const size_t at = line.find('=');
    settings.push_back({line.substr(0, at), line.substr(at + 1)});
  }
  return settings;
}

TEST(HeadJobTest, ARunThatGoesOnOnAnotherHeadHasNothingOfTheFirst) {
  proto::JobConfig before = RentedJob();
  before.launch.rent.setup = "/home/me/setup.sh";
  before.launch.ssh_config = "/home/me/ssh";
  const std::string saved = HeadJobOf(before, "10.0.0.7").text;
  const std::string words = SettingsOnHead(
      before,
      "10.0.0.9",
      {"run.directory=it's $HOME", "train.epochs=7", "launch.rent.head.type=m7i.xlarge"});
  const auto there =
      proto::ParseJobConfig(saved, "job", ReadBy(words), proto::DataPlace::kElsewhere);
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(there->run.advertise, "10.0.0.9");
  EXPECT_EQ(there->run.directory, "runs");
  EXPECT_EQ(there->launch.rent.setup, "//setup") << "of the folder there";
  EXPECT_EQ(there->launch.ssh_config, "//ssh_config");
  EXPECT_EQ(there->train.epochs, 7U);
  EXPECT_EQ(there->launch.rent.head, proto::RentHeadConfig());
}

}  // namespace
}  // namespace ps::psctl
