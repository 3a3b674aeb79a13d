// Which fields of a job are asked about when others could have written it.

#include "ps/proto/job/job_trust.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <vector>

#include "ps/proto/job/job_fields.h"

namespace ps::proto {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

/// Puts a text wherever one may be, and an item into each list.
template <typename T>
void Fill(T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    value = "x";
  } else if constexpr (std::is_same_v<T, LauncherKind>) {
    value = LauncherKind::kSsh;
  } else if constexpr (IsVector<T>::value) {
    value.resize(1);
    if constexpr (!std::is_same_v<typename T::value_type, LayerConfig>) {
      Fill(value[0]);
    }
  } else if constexpr (TableValue<T>) {
    VisitFields(value, [](const char*, auto& member) { Fill(member); });
  }
}

TEST(JobTrustTest, EveryTextThatStartsSomethingOrNamesAPlaceIsAskedAbout) {
  JobConfig config;
  Fill(config);
  std::vector<std::string> paths;
  for (const JobSetting& setting : SettingsToTrust(config)) {
    paths.push_back(setting.path);
  }
  EXPECT_THAT(
      paths,
      UnorderedElementsAre(
          "data.cache",
          "worker.program[0]",
          "worker.directory",
          "servers.launcher",
          "servers.hosts[0].host",
          "servers.sbatch",
          "servers.kubernetes.image",
          "servers.kubernetes.image_pull_secret",
          "servers.kubernetes.kubeconfig",
          "servers.kubernetes.context",
          "servers.kubernetes.selector",
          "servers.kubernetes.tolerations[0]",
          "servers.kubernetes.service_account",
          "servers.kubernetes.priority_class",
          "servers.kubernetes.volumes[0]",
          "checkpoint.copy_to",
          "launch.launcher",
          "launch.rent.image",
          "launch.rent.subnet",
          "launch.rent.security_group",
          "launch.rent.key_name",
          "launch.rent.role",
          "launch.rent.setup",
          "launch.rent.project",
          "launch.rent.endpoint",
          "launch.rent.head.image",
          "launch.rent.head.role",
          "launch.hosts[0].host",
          "launch.ssh_config",
          "launch.sbatch",
          "launch.zones[0].sbatch",
          "launch.prefix",
          "launch.kubernetes.image",
          "launch.kubernetes.image_pull_secret",
          "launch.kubernetes.kubeconfig",
          "launch.kubernetes.context",
          "launch.kubernetes.selector",
          "launch.kubernetes.tolerations[0]",
          "launch.kubernetes.service_account",
          "launch.kubernetes.priority_class",
          "launch.kubernetes.volumes[0]"));
}

TEST(JobTrustTest, AnOrdinaryJobHasNothingToAskAbout) {
  EXPECT_THAT(SettingsToTrust(JobConfig()), IsEmpty());
}

TEST(JobTrustTest, DataInAnObjectStoreIsAskedAboutAndInAFolderIsNot) {
  JobConfig config;
  config.data.directory = "/srv/data";
  EXPECT_THAT(SettingsToTrust(config), IsEmpty());
  config.data.directory = "s3://bucket/data?endpoint=http://somewhere";
  EXPECT_THAT(
      SettingsToTrust(config), ElementsAre(JobSetting{"data.directory", config.data.directory}));
  config.data.tokenizer = "s3://bucket/gpt2";
  EXPECT_EQ(SettingsToTrust(config).size(), 2U);
}

TEST(JobTrustTest, ValuesAreWhole) {
  JobConfig config;
  config.launch.prefix = std::string(200, 'a') + "; reboot";
  EXPECT_THAT(
      SettingsToTrust(config), ElementsAre(JobSetting{"launch.prefix", config.launch.prefix}));
}

TEST(JobTrustTest, AnOverrideIsOfTheFieldOrOfWhatItIsIn) {
  EXPECT_TRUE(IsOverridden("launch.prefix", {{"launch.prefix", ""}}));
  EXPECT_TRUE(IsOverridden("launch.hosts[0].host", {{"launch.hosts", "[]"}}));
  EXPECT_TRUE(IsOverridden("launch.hosts[0].host", {{"launch", "{}"}}));
  EXPECT_TRUE(IsOverridden("launch.hosts[0].host", {{"x", ""}, {"launch.hosts[0]", "{}"}}));
  EXPECT_FALSE(IsOverridden("launch.prefix", {{"launch.pre", ""}}));
  EXPECT_FALSE(IsOverridden("launch.prefix", {{"", ""}}));
  EXPECT_FALSE(IsOverridden("launch.hosts[1].host", {{"launch.hosts[0].host", "a"}}));
}

}  // namespace
}  // namespace ps::proto
