#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "ps/proto/files/plan.h"
#include "ps/proto/files/profile.h"
#include "psctl/plan/plan_command.h"
#include "run/planning/planning.h"
#include "run/planning/unseen_plan.h"
#include "tests/psctl/plan_fixture.h"

namespace ps::psctl {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// Plans by a profile of one machine, which no catalog has.
class PlanUnseenTest : public PlanFixture {
 public:
  /// The published profile's figures of `type` alone, as if measured on "local".
  std::string ProfileOfOne(const std::string& type, const std::string& name = "local") const {
    Result<proto::JobProfile> profile = proto::ParseProfile(ReadAll(kProfilePath), kProfilePath);
    EXPECT_TRUE(profile.ok()) << profile.status();
    std::erase_if(profile->workers, [&](const proto::WorkerProfile& worker) {
      return worker.instance_type != type;
    });
    EXPECT_EQ(profile->workers.size(), 1U);
    profile->workers.front().instance_type = name;
    std::string path = root_ / (name + ".json");
    EXPECT_TRUE(WriteFileAtomically(path, proto::PrintProfile(*profile)).ok());
    return path;
  }

  int Plan(const std::string& profile, std::vector<std::string> more) {
    more.insert(
        more.begin(),
        {"plan",
         "--profile",
         profile,
         "--catalog",
         kCatalogPath,
         "--loss",
         "0.8",
         "--servers",
         "m5.xlarge=1"});
    return Run(more);
  }

  proto::Plan PlanOf(const std::string& profile, std::vector<std::string> more) {
    more.emplace_back("--json");
    EXPECT_EQ(Plan(profile, std::move(more)), run::kExitOk) << err_;
    Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? *plan : proto::Plan();
  }
};

TEST_F(PlanUnseenTest, WhatIsMeantWithAProfileOfThisMachineIsNamed) {
  const std::string profile = ProfileOfOne("p3.2xlarge");
  EXPECT_EQ(Plan(profile, {"--within", "2h"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("measured on local"));
  EXPECT_THAT(err_, HasSubstr("--catalog configs/catalog/this_machine.json"));
  EXPECT_THAT(err_, HasSubstr("--unseen --measured-on local=DEVICE"));
  EXPECT_THAT(err_, HasSubstr("psctl profile --type NAME"));
  EXPECT_EQ(Plan(profile, {"--within", "2h", "--unseen"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("nobody says what machine that is"));
  EXPECT_THAT(err_, HasSubstr("--measured-on local=V100"));
}

TEST_F(PlanUnseenTest, AJobThatWasMeasuredOnOneMachineIsPlannedForACloud) {
  const std::string profile = ProfileOfOne("p3.2xlarge");
  const std::vector<std::string> flags = {
      "--within", "4h", "--unseen", "--measured-on", "local=V100"};
  const proto::Plan plan = PlanOf(profile, flags);
  ASSERT_FALSE(plan.workers.empty());
  EXPECT_GT(plan.samples_per_s.high / plan.samples_per_s.low, 1.2) << "nobody measured it";
  // By measured figures of all types the interval is that of the model alone.
  const proto::Plan measured = PlanOf(kProfilePath, {"--within", "4h"});
  EXPECT_GT(
      plan.seconds.high / plan.seconds.value, 1.1 * measured.seconds.high / measured.seconds.value);
  ASSERT_EQ(Plan(profile, flags), run::kExitOk) << err_;
  EXPECT_THAT(out_, ContainsRegex("was not measured: a minibatch of [0-9]+ is reckoned to take"));
  EXPECT_THAT(out_, HasSubstr("from local (V100); measure it there"));
}

/// The true figures of each type lie within the reckoned ones: predictions hold the measured speed.
TEST_F(PlanUnseenTest, PredictionsFromOneTypeHoldWhatTheOthersWereMeasuredAt) {
  for (const char* type : {"g4dn.4xlarge", "g3.8xlarge", "p2.8xlarge"}) {
    const auto predict = [&](const std::string& profile, std::vector<std::string> more) {
      more.insert(
          more.begin(),
          {"predict",
           "--profile",
           profile,
           "--catalog",
           kCatalogPath,
           "--fleet",
           std::string(type) + "=1",
           "--ps",
           "m5.xlarge",
           "--confidence",
           "0.95",
           "--json"});
      EXPECT_EQ(Run(more), run::kExitOk) << err_;
      Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
      return plan.ok() ? plan->samples_per_s : proto::Estimate();
    };
    const proto::Estimate measured = predict(kProfilePath, {});
    const proto::Estimate reckoned =
        predict(ProfileOfOne("p3.2xlarge", "p3.2xlarge"), {"--unseen"});
    EXPECT_LE(reckoned.low, measured.value) << type;
    EXPECT_GE(reckoned.high, measured.value) << type;
  }
}

TEST_F(PlanUnseenTest, ThePlanSaysWhichTypeToProfileNext) {
  const std::string profile = ProfileOfOne("p2.8xlarge", "p2.8xlarge");
  ASSERT_EQ(Plan(profile, {"--within", "3h", "--unseen"}), run::kExitOk) << err_;
  EXPECT_THAT(out_, ContainsRegex("profile (p3.2xlarge|g4dn.4xlarge|g3.8xlarge|g3.16xlarge) next"));
  // Where all is known, nothing is to be profiled.
  ASSERT_EQ(Plan(kProfilePath, {"--within", "3h", "--unseen", "--types", "p3.2xlarge"}), 0) << err_;
  EXPECT_THAT(out_, Not(HasSubstr("was not measured")));
  EXPECT_THAT(out_, Not(HasSubstr(" next")));
}

/// Lets searches go on for so many questions.
class CountingWatch final : public provisioner::SearchWatch {
 public:
  explicit CountingWatch(int questions) : left_(questions) {}

  bool GoesOn(const provisioner::SearchProgress& /*progress*/) override {
    ++asked_;
    return left_-- > 0;
  }

  int asked() const { return asked_; }

 private:
  int left_;
  int asked_ = 0;
};

TEST_F(PlanUnseenTest, WhatToProfileNextIsSearchedForAsLongAsSomebodyWaits) {
  run::PlanCommand command;
  command.common.profile_path = ProfileOfOne("p3.2xlarge", "p3.2xlarge");
  command.common.catalog_path = "configs/catalog/aws.json";
  command.common.loss = 0.8;
  command.common.has_unseen = true;
  command.within = "1h";
  command.has_within = true;
  run::Planning planning("2026-11-22");
  Duration effort{};
  ASSERT_TRUE(run::PreparePlan(command, &planning, &effort).ok());
  const auto answer = run::SolvePlan(command, &planning);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_FALSE(answer->best.empty());
  CountingWatch patient(1'000'000);
  planning.problem.watch = &patient;
  EXPECT_FALSE(run::NextToProfile(command, planning, answer->best.front()).instance_type.empty());
  EXPECT_GT(patient.asked(), 10);
  CountingWatch gone(0);
  planning.problem.watch = &gone;
  EXPECT_TRUE(run::NextToProfile(command, planning, answer->best.front()).instance_type.empty());
  EXPECT_LT(gone.asked(), patient.asked() / 2) << "nothing is searched for nobody";
}

TEST_F(PlanUnseenTest, AWholeCatalogIsPlannedForAndOtherProfilesAreLearnedFrom) {
  const std::string profile = ProfileOfOne("p3.2xlarge", "p3.2xlarge");
  const std::vector<std::string> whole = {
      "plan",
      "--profile",
      profile,
      "--catalog",
      "configs/catalog/aws.json",
      "--loss",
      "0.8",
      "--within",
      "1h",
      "--unseen",
      "--servers",
      "m5.large=1..2"};
  ASSERT_EQ(Run(whole), run::kExitOk) << err_;
  std::vector<std::string> more = whole;
  more.insert(more.end(), {"--learn-from", profile});
  EXPECT_EQ(Run(more), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("has no two types whose devices are known"));
  EXPECT_EQ(Plan(profile, {"--within", "2h", "--unseen", "--learn-from", kProfilePath}), 0) << err_;
}

TEST_F(PlanUnseenTest, WrongMachinesAreNamed) {
  const std::string profile = ProfileOfOne("p3.2xlarge");
  const std::pair<const char*, const char*> wrong[] = {
      {"local", "--measured-on wants a type of the profile and its device"},
      {"=V100", "--measured-on wants a type of the profile and its device"},
      {"local=GTX", "'GTX' is no machine that is known"},
      {"other=V100", "the profile has no figures of other"}};
  for (const auto& [text, expected] : wrong) {
    EXPECT_EQ(Plan(profile, {"--unseen", "--measured-on", text}), run::kExitMisused) << text;
    EXPECT_THAT(err_, HasSubstr(expected));
  }
  EXPECT_EQ(Plan(profile, {"--measured-on", "local=V100"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("--unseen"));
}

}  // namespace
}  // namespace ps::psctl
