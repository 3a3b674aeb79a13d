#include "provisioner/unseen/unseen_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "provisioner/unseen/measured_jobs.h"

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;

proto::InstanceType Type(const char* name, const char* device, int devices) {
  proto::InstanceType type;
  type.name = name;
  type.device = device;
  type.devices = devices;
  type.vcpus = 8;
  return type;
}

proto::Catalog MixedCatalog() {
  proto::Catalog catalog;
  catalog.types = {
      Type("one.v100", "V100-SXM2-16GB", 1),
      Type("two.t4", "T4", 2),
      Type("one.k80", "K80", 1),
      Type("a.tpu", "TPUv9", 1),
      Type("a.cpu", "cpu", 1)};
  return catalog;
}

proto::JobProfile ProfileOn(const std::string& type) {
  proto::JobProfile profile;
  proto::WorkerProfile worker;
  worker.instance_type = type;
  worker.minibatch = 64;
  worker.compute_s = 0.4;
  worker.steps_measured = 100;
  worker.host_bytes = 1e9;
  profile.workers = {worker};
  profile.curves.samples = 1;
  return profile;
}

const UnseenType* Find(const std::vector<UnseenType>& types, const std::string& name) {
  const auto found = std::ranges::find(types, name, &UnseenType::instance_type);
  return found == types.end() ? nullptr : &*found;
}

TEST(UnseenTypesTest, EachDeviceGetsAPartOfTheMinibatchAndTakesAsLongAsTheLawSays) {
  proto::JobProfile profile = ProfileOn("one.v100");
  const auto types = AddUnseenTypes(MixedCatalog(), {}, &profile);
  ASSERT_TRUE(types.ok()) << types.status();
  ASSERT_EQ(types->size(), 2U) << "no processors, and no device that nobody knows";
  const UnseenType* const t4 = Find(*types, "two.t4");
  ASSERT_NE(t4, nullptr);
  EXPECT_EQ(t4->minibatch, 128) << "64 for each device";
  EXPECT_EQ(t4->from, "one.v100");
  EXPECT_GT(t4->compute_s, 0.4 * 1.5);
  EXPECT_LT(t4->compute_s, 0.4 * 4);
  EXPECT_LT(t4->low_s, t4->compute_s);
  EXPECT_NEAR(t4->low_s * t4->high_s, t4->compute_s * t4->compute_s, 1e-9);
  EXPECT_GT(t4->deviation, 0.2);
  const proto::WorkerProfile* const worker = profile.Find("two.t4");
  ASSERT_NE(worker, nullptr);
  EXPECT_EQ(worker->compute_s, t4->compute_s);
  EXPECT_EQ(worker->steps_measured, 0) << "nobody measured it";
  EXPECT_EQ(profile.Find("one.v100")->compute_s, 0.4);
}

/// spotDNN's equation has steps that fall with the batch, below nothing where it was not fitted.
TEST(UnseenTypesTest, WithoutCurvesNoMinibatchIsLargerThanWasMeasured) {
  proto::JobProfile profile = ProfileOn("one.v100");
  profile.curves.samples = 0;
  profile.workers.front().minibatch_max = 100;
  const auto types = AddUnseenTypes(MixedCatalog(), {}, &profile);
  ASSERT_TRUE(types.ok()) << types.status();
  EXPECT_EQ(Find(*types, "two.t4")->minibatch, 100);
}

TEST(UnseenTypesTest, OtherJobsOnSeveralTypesTeachTheLaw) {
  const auto width = [](int others) {
    UnseenRequest request;
    for (int i = 0; i < others; ++i) {
      // 30 times faster on a V100 than on a K80, which no published job is.
      proto::JobProfile other = ProfileOn("one.v100");
      other.job = "other " + std::to_string(i);
      other.workers.push_back(other.workers.front());
      other.workers.back().instance_type = "one.k80";
      other.workers.back().compute_s = 12;
      request.others.push_back(other);
    }
    proto::JobProfile profile = ProfileOn("one.v100");
    const auto types = AddUnseenTypes(MixedCatalog(), request, &profile);
    EXPECT_TRUE(types.ok()) << types.status();
    return types.ok() ? Find(*types, "one.k80")->high_s / Find(*types, "one.k80")->low_s : 0;
  };
  EXPECT_GT(width(40), width(0)) << "the published law is wrong of them";
  UnseenRequest request;
  request.others = {ProfileOn("one.v100")};
  request.others.front().job = "lonely";
  proto::JobProfile profile = ProfileOn("one.v100");
  EXPECT_THAT(
      std::string(AddUnseenTypes(MixedCatalog(), request, &profile).status().message()),
      HasSubstr("the profile of lonely has no two types"));
}

TEST(UnseenTypesTest, MoreConfidenceIsWider) {
  const auto width = [](double inside) {
    proto::JobProfile profile = ProfileOn("one.v100");
    const auto types = AddUnseenTypes(MixedCatalog(), {.inside = inside}, &profile);
    const UnseenType* const type = types.ok() ? Find(*types, "one.k80") : nullptr;
    return type == nullptr ? 0 : type->high_s / type->low_s;
  };
  EXPECT_GT(width(0.9), 1.2 * width(0.8));
}

TEST(UnseenTypesTest, OfSeveralMeasuredTypesTheNearestTells) {
  proto::JobProfile profile = ProfileOn("one.v100");
  profile.workers.push_back(profile.workers.front());
  profile.workers.back().instance_type = "one.k80";
  profile.workers.back().compute_s = 2.4;
  const auto types = AddUnseenTypes(MixedCatalog(), {}, &profile);
  ASSERT_TRUE(types.ok()) << types.status();
  EXPECT_EQ(Find(*types, "two.t4")->from, "one.k80");
}

TEST(UnseenTypesTest, AMachineOfNoCatalogIsNamedByItsDevice) {
  proto::JobProfile profile = ProfileOn("local");
  EXPECT_THAT(
      std::string(AddUnseenTypes(MixedCatalog(), {}, &profile).status().message()),
      HasSubstr("--measured-on local=V100"));
  UnseenRequest request;
  request.measured_on["local"] = ParseMachine("cpux16").value();
  const auto types = AddUnseenTypes(MixedCatalog(), request, &profile);
  ASSERT_TRUE(types.ok()) << types.status();
  const UnseenType* const v100 = Find(*types, "one.v100");
  ASSERT_NE(v100, nullptr);
  EXPECT_LT(v100->compute_s, 0.4 / 5);
  EXPECT_GT(v100->high_s / v100->low_s, 20) << "nobody measured processors beside devices";
  EXPECT_EQ(profile.Find("one.v100")->host_bytes, 0) << "memory of another kind of worker";
}

TEST(UnseenTypesTest, TypesAreChosenLeftOutAndRefusedByName) {
  proto::JobProfile profile = ProfileOn("one.v100");
  const auto named = AddUnseenTypes(MixedCatalog(), {.types = {"a.cpu"}}, &profile);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->size(), 1U) << "processors where they are asked for";
  profile = ProfileOn("one.v100");
  const auto fewer = AddUnseenTypes(MixedCatalog(), {.left_out = {"two.t4"}}, &profile);
  ASSERT_TRUE(fewer.ok()) << fewer.status();
  EXPECT_EQ(Find(*fewer, "two.t4"), nullptr);
  profile = ProfileOn("one.v100");
  EXPECT_THAT(
      std::string(
          AddUnseenTypes(MixedCatalog(), {.types = {"a.tpu"}}, &profile).status().message()),
      HasSubstr("nothing is known of the device TPUv9"));
}

TEST(UnseenTypesTest, MachinesAreReadAndWrongOnesNamed) {
  EXPECT_EQ(ParseMachine("T4x4")->devices, 4);
  EXPECT_EQ(ParseMachine("V100-SXM2-16GB")->devices, 1);
  EXPECT_EQ(ParseMachine("cpux16")->devices, 1);
  EXPECT_EQ(ParseMachine("cpux16")->figures, FiguresOf("cpu", 16).value());
  for (const char* wrong : {"", "x4", "T4x0", "T4x-1", "T4x99999", "GTX", "cpux"}) {
    const auto machine = ParseMachine(wrong);
    ASSERT_FALSE(machine.ok()) << wrong;
    EXPECT_THAT(std::string(machine.status().message()), HasSubstr("devices: A10, A100")) << wrong;
  }
}

}  // namespace
}  // namespace ps::provisioner
