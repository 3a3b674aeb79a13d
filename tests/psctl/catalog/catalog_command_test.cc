#include "psctl/plan/catalog_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ps/base/file.h"
#include "ps/proto/files/catalog.h"
#include "run/planning/planning_files.h"
#include "tests/psctl/command_fixture.h"
#include "tests/run/dates.h"

namespace ps::psctl {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kPrices =
    "provider,region,instance_type,gpu_model,net_baseline_gbps,ondemand_usd_per_hour\n"
    "aws,us-east-1,m5.xlarge,,1.25,0.192\n"
    "aws,us-east-1,m5.huge,,,9\n";

class CatalogCommandTest : public CommandFixture {
 protected:
  std::string Write(const std::string& name, const std::string& text) const {
    EXPECT_TRUE(WriteFileAtomically(root_.path() + "/" + name, text).ok());
    return root_.path() + "/" + name;
  }

  int Import(const std::vector<std::string>& files, const std::string& output) {
    CatalogImportCommand command;
    command.format = "csv";
    command.files = files;
    command.output = output;
    return RunCatalogImport(command, console_);
  }
};

TEST_F(CatalogCommandTest, WhatWasImportedIsShownAndChecked) {
  const std::string catalog = root_ / "c.json";
  ASSERT_EQ(Import({Write("prices-2026-07-20.csv", kPrices)}, catalog), run::kExitOk) << err_;
  EXPECT_THAT(err_, HasSubstr("left out 1 type without network rate: m5.huge\n"));
  EXPECT_THAT(err_, HasSubstr("c.json: 1 type\n"));
  EXPECT_THAT(out_, IsEmpty());
  EXPECT_EQ(RunCatalogShow({catalog, "price", false}, run::kToday, console_), run::kExitOk);
  EXPECT_THAT(out_, HasSubstr("m5.xlarge"));
  out_.clear();
  EXPECT_EQ(RunCatalogShow({catalog, "price", true}, run::kToday, console_), run::kExitOk);
  EXPECT_TRUE(proto::ParseCatalog(out_, "shown").ok());
  out_.clear();
  EXPECT_EQ(RunCatalogCheck({catalog}, run::kToday, console_), run::kExitOk);
  EXPECT_THAT(out_, HasSubstr("c.json: warning: types: no type has a spot price"));
  EXPECT_THAT(out_, EndsWith("c.json: 1 type, no errors, 1 warning\n"));
}

TEST_F(CatalogCommandTest, TheDateOfAFileIsGivenOrInItsName) {
  const std::string prices = Write("prices.csv", kPrices);
  EXPECT_EQ(Import({prices}, ""), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("prices left out, because the file has no date; give one: "));
  EXPECT_EQ(Import({prices + "@2026-07-20"}, ""), run::kExitOk);
  EXPECT_THAT(out_, HasSubstr("\"as_of\": \"2026-07-20\""));
}

TEST_F(CatalogCommandTest, ACatalogCanBeTheStart) {
  const std::string base = root_ / "base.json";
  ASSERT_EQ(Import({Write("prices-2026-07-20.csv", kPrices)}, base), run::kExitOk);
  const std::string quotas = Write("quotas.csv", "instance_type,quota\nm5.xlarge,3\n");
  ASSERT_EQ(Import({base, quotas}, ""), run::kExitOk) << err_;
  const auto catalog = proto::ParseCatalog(out_, "out");
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  EXPECT_EQ(catalog->types.at(0).quota, 3);
  EXPECT_EQ(catalog->types.at(0).on_demand_usd_per_hour, 0.192);
  EXPECT_EQ(Import({base, base}, ""), run::kExitMisused);
}

TEST_F(CatalogCommandTest, AWrongCatalogFailsTheCheckWithLineAndField) {
  const std::string bad = Write("bad.json", "{\n\"provider\": \"aws\", \"quota\": 3}\n");
  EXPECT_EQ(RunCatalogCheck({bad}, run::kToday, console_), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("bad.json:2:20: unknown field \"quota\""));
  EXPECT_THAT(out_, IsEmpty());
  EXPECT_EQ(RunCatalogShow({bad, "price", false}, run::kToday, console_), run::kExitMisused);
  EXPECT_EQ(RunCatalogCheck({root_ / "none.json"}, run::kToday, console_), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("none.json"));
}

TEST_F(CatalogCommandTest, ShippedCatalogsAreValid) {
  // The tests run in the source directory.
  for (const auto& entry : std::filesystem::directory_iterator("configs/catalog")) {
    if (entry.path().extension() == ".json") {
      const auto catalog = run::LoadCatalog(entry.path().string());
      EXPECT_TRUE(catalog.ok()) << catalog.status();
    }
  }
}

TEST_F(CatalogCommandTest, ThePapersTypesAreInTheDefaultCatalogAndInItsOwn) {
  for (const char* file : {"configs/catalog/aws.json", "configs/catalog/spotdnn_paper.json"}) {
    const proto::Catalog catalog = run::LoadCatalog(file).value();
    for (const char* name :
         {"p3.2xlarge",
          "p2.8xlarge",
          "g4dn.4xlarge",
          "g4dn.12xlarge",
          "g3.4xlarge",
          "g3.8xlarge",
          "g3.16xlarge"}) {
      const proto::InstanceType* type = catalog.Find(name);
      ASSERT_NE(type, nullptr) << file << " " << name;
      EXPECT_EQ(type->spot.size(), 1U) << file << " " << name;
    }
    EXPECT_TRUE(catalog.Find("m5.xlarge")->is_server_host) << file;
  }
}

TEST_F(CatalogCommandTest, TheDefaultCatalogIsFoundFromOtherDirectoriesToo) {
  const std::filesystem::path here = std::filesystem::current_path();
  EXPECT_EQ(run::FindCatalog("").value(), "configs/catalog/aws.json");
  EXPECT_EQ(run::FindCatalog("mine.json").value(), "mine.json");
  std::filesystem::current_path(root_.path());
  const Result<std::string> elsewhere = run::FindCatalog("");
  std::filesystem::current_path(here);
  if (!elsewhere.ok()) {  // a build tree outside of the sources
    EXPECT_THAT(std::string(elsewhere.status().message()), HasSubstr("--catalog FILE"));
  } else {
    EXPECT_THAT(*elsewhere, EndsWith("/configs/catalog/aws.json"));
  }
}

}  // namespace
}  // namespace ps::psctl
