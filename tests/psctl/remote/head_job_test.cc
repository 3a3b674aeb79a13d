#include "psctl/remote/head_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ps::psctl
