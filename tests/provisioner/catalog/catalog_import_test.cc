#include "provisioner/catalog/catalog_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "provisioner/catalog/csv_table.h"

namespace ps::provisioner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

const ImportFile kHardware = {
    "hardware.csv",
    "provider,instance_type,gpu_model,gpu_count,vcpus,memory_gib,net_baseline_gbps,net_burst_gbps,"
    "pcie_gb_per_s_each_way,ondemand_usd_per_hour,note\n"
    "aws,g4dn.12xlarge,T4,4,48,192,50.0,50,7.88,9,\"four T4s, 8 lanes\"\n"
    "aws,m5.xlarge,,0,4,16,1.25,10,,9,\n"
    "aws,p2.xlarge,K80,1,4,61,,,15.75,9,\"AWS says only: \"\"High\"\"\"\n"
    "gcp,n1-standard-8,,0,8,30,16,16,,9,\n",
    ""};
const ImportFile kDevices = {"gpus.csv", "gpu_model,memory_gib,source\nT4,16,x\nK80,12,x\n", ""};
const ImportFile kPrices = {
    "prices_2026-07-20.csv",
    "region,instance_type,ondemand_usd_per_hour\n"
    "us-east-1,g4dn.12xlarge,3.912\nus-east-1,m5.xlarge,0.192\nus-east-1,p2.xlarge,0.9\n"
    "us-west-1,m5.xlarge,0.224\nus-east-1,r5.xlarge,0.252\n",
    "2026-07-20"};
const ImportFile kSavings = {
    "savings.csv",
    "region,instance_type,vcpus,savings_over_ondemand_pct\r\nus-east-1,g4dn.12xlarge,48,64\r\n",
    "2025-06-28"};
const ImportOptions kAws = {"csv", "aws", "us-east-1", 5};

ImportedCatalog Import(
    const std::vector<ImportFile>& files,
    const ImportOptions& options = kAws,
    const proto::Catalog& base = {}) {
  auto imported = ImportCatalog(base, files, options);
  EXPECT_TRUE(imported.ok()) << imported.status();
  return imported.ok() ? std::move(imported).value() : ImportedCatalog();
}

std::string ErrorOf(const std::vector<ImportFile>& files, const ImportOptions& options = kAws) {
  const auto imported = ImportCatalog({}, files, options);
  return imported.ok() ? "no error" : std::string(imported.status().message());
}

TEST(CatalogImportTest, TablesAreJoinedByTypeAndByAccelerator) {
  const proto::Catalog catalog = Import({kHardware, kDevices, kPrices, kSavings}).catalog;
  proto::InstanceType gpu;
  gpu.name = "g4dn.12xlarge";
  gpu.device = "T4";
  gpu.devices = 4;
  gpu.device_memory_gib = 16;
  gpu.vcpus = 48;
  gpu.memory_gib = 192;
  gpu.network_gbit_per_s = gpu.network_burst_gbit_per_s = 50;
  gpu.pcie_gbyte_per_s = 7.88;
  gpu.on_demand_usd_per_hour = 3.912;
  gpu.spot = {{"us-east-1", 1.40832, "2025-06-28", true}};
  gpu.quota = 5;
  gpu.quota_is_guess = true;
  gpu.quota_family = "G";
  proto::InstanceType cpu;
  cpu.name = "m5.xlarge";
  cpu.device = "cpu";
  cpu.vcpus = 4;
  cpu.memory_gib = 16;
  cpu.network_gbit_per_s = 1.25;
  cpu.network_burst_gbit_per_s = 10;
  cpu.on_demand_usd_per_hour = 0.192;
  cpu.quota = 5;
  cpu.quota_is_guess = true;
  cpu.quota_family = "Standard";
  cpu.is_server_host = true;
  EXPECT_THAT(catalog.types, ElementsAre(gpu, cpu));
  EXPECT_EQ(catalog.provider, "aws");
  EXPECT_EQ(catalog.region, "us-east-1");
  EXPECT_EQ(catalog.as_of, "2026-07-20");
  EXPECT_EQ(
      catalog.source, "hardware.csv; gpus.csv; prices_2026-07-20.csv; savings.csv of 2025-06-28");
}

TEST(CatalogImportTest, WhatIsLeftOutIsSaid) {
  EXPECT_THAT(
      Import({kHardware, kDevices, kPrices}).notes,
      ElementsAre(
          "hardware.csv: prices left out, because the file has no date; give one: "
          "hardware.csv@2026-07-20",
          "left out 1 type without network rate: p2.xlarge",
          "left out 1 type without word on accelerators: r5.xlarge"));
  const std::vector<std::string> notes = Import({kHardware, kPrices}).notes;
  EXPECT_THAT(notes.at(1), "left out 1 type without accelerator memory: g4dn.12xlarge");
}

TEST(CatalogImportTest, WhatImportersMakeIsReadBack) {
  const proto::Catalog catalog = Import({kHardware, kDevices, kPrices, kSavings}).catalog;
  const auto parsed = proto::ParseCatalog(proto::PrintCatalog(catalog), "c.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, catalog);
}

TEST(CatalogImportTest, ALaterFileOverridesAnEarlierOne) {
  ImportFile later = kPrices;
  later.name = "later.csv";
  later.as_of = "2026-08-01";
  later.text = "instance_type,price,baseline_mbps,quota\nm5.xlarge,0.2,1000,0\n";
  const proto::Catalog catalog = Import({kHardware, kDevices, kPrices, later}).catalog;
  const proto::InstanceType& m5 = *catalog.Find("m5.xlarge");
  EXPECT_EQ(m5.on_demand_usd_per_hour, 0.2);
  EXPECT_EQ(m5.network_gbit_per_s, 1);
  EXPECT_EQ(m5.quota, 0);
  EXPECT_EQ(catalog.as_of, "2026-07-20") << "the oldest price dates the catalog";
}

TEST(CatalogImportTest, NetworkRatesAreFoundInWhatEc2SaysOfThem) {
  const auto burst = [](const std::string& words) {
    const ImportFile types = {
        "types.csv",
        "InstanceType,GpuName,NetworkInfo,Price,baseline_mbps,Region,provider\n"
        "a.large,,\"{'NetworkPerformance': '" +
            words + "', 'Cards': 1}\",1,100,r,p\n",
        "2026-07-20"};
    return Import({types}, {"csv", "", "", 1}).catalog.types.at(0).network_burst_gbit_per_s;
  };
  EXPECT_EQ(burst("Up to 10 Gigabit"), 10);
  EXPECT_EQ(burst("12.5 Gigabit"), 12.5);
  EXPECT_EQ(burst("4x 100 Gigabit"), 400);
  EXPECT_EQ(burst("High"), 0.1);
  EXPECT_EQ(burst("Gigabit"), 0.1);
}

TEST(CatalogImportTest, AskedSpotPricesTakeThePlaceOfEstimates) {
  const ImportFile asked = {
      "asked.csv",
      "InstanceType,SpotPrice,Region,AvailabilityZone\n"
      "g4dn.12xlarge,1.22,us-east-1,us-east-1a\ng4dn.12xlarge,1.25,us-east-1,us-east-1b\n",
      "2026-07-21"};
  const proto::Catalog catalog = Import({kHardware, kDevices, kPrices, kSavings, asked}).catalog;
  EXPECT_THAT(
      catalog.types.at(0).spot,
      ElementsAre(
          proto::SpotPrice{"us-east-1a", 1.22, "2026-07-21", false},
          proto::SpotPrice{"us-east-1b", 1.25, "2026-07-21", false}));
}

TEST(CatalogImportTest, OfASpotHistoryTheLatestLinuxPriceOfTheRegionCounts) {
  const proto::Catalog base = Import({kHardware, kDevices, kPrices, kSavings}).catalog;
  const ImportFile history = {
      "history.tsv",
      "use1-az1\tg4dn.12xlarge\tLinux/UNIX\t1.3\t2022-05-31T20:00:00+00:00\n"
      "use1-az1\tg4dn.12xlarge\tLinux/UNIX\t1.2\t2022-05-31T19:00:00+00:00\n"
      "use1-az1\tg4dn.12xlarge\tWindows\t9\t2022-05-31T21:00:00+00:00\n"
      "us-east-1b\tg4dn.12xlarge\tLinux/UNIX\t1.4\t2022-05-30T19:00:00+00:00\n"
      "use2-az1\tg4dn.12xlarge\tLinux/UNIX\t9\t2022-05-31T19:00:00+00:00\n"
      "use1-az1\tx1.16xlarge\tLinux/UNIX\t9\t2022-05-31T19:00:00+00:00\n",
      ""};
  ImportOptions options = kAws;
  options.format = "spot-tsv";
  const proto::Catalog catalog = Import({history}, options, base).catalog;
  EXPECT_THAT(
      catalog.types.at(0).spot,
      ElementsAre(
          proto::SpotPrice{"use1-az1", 1.3, "2022-05-31", false},
          proto::SpotPrice{"us-east-1b", 1.4, "2022-05-30", false}));
  EXPECT_EQ(catalog.types.at(1), base.types.at(1));
  EXPECT_EQ(catalog.as_of, base.as_of);
}

TEST(CatalogImportTest, ZoneIdsBelongToTheirRegions) {
  for (const auto& [region, zone] : std::map<std::string, std::string>{
           {"ap-northeast-1", "apne1-az4"},
           {"ap-southeast-2", "apse2-az1"},
           {"eu-central-1", "euc1-az2"},
           {"us-west-2", "usw2-az3"},
           {"us-gov-west-1", "usgw1-az1"},
           {"ap-south-1", "aps1-az1"}}) {
    ImportOptions options = kAws;
    options.format = "spot-tsv";
    options.region = region;
    proto::Catalog base = Import({kHardware, kDevices, kPrices}).catalog;
    base.region = region;
    const ImportFile history = {
        "h.tsv", zone + "\tm5.xlarge\tLinux/UNIX\t0.1\t2022-05-31T20:00:00+00:00", ""};
    EXPECT_EQ(Import({history}, options, base).catalog.Find("m5.xlarge")->spot.size(), 1U)
        << region;
  }
}

TEST(CatalogImportTest, RegionAndProviderAreTheFilesOwnWhenThereIsOne) {
  const ImportOptions any = {"csv", "", "", 5};
  EXPECT_EQ(
      ErrorOf({kHardware, kPrices}, any),
      "the files have more than one provider; give it: --provider; there are: aws, gcp");
  EXPECT_EQ(
      ErrorOf({kHardware, kPrices}, {"csv", "aws", "", 5}),
      "the files have more than one region; give it: --region; there are: us-east-1, us-west-1");
  EXPECT_EQ(
      ErrorOf({kHardware}, {"csv", "aws", "", 5}), "no file says the region; give it: --region");
  EXPECT_EQ(ErrorOf({kSavings}, any), "no file says the provider; give it: --provider");
  EXPECT_EQ(
      Import({kHardware, kDevices, kSavings}, {"csv", "aws", "", 5}).catalog.region, "us-east-1");
}

TEST(CatalogImportTest, ACatalogStaysWhereItIs) {
  const proto::Catalog base = Import({kHardware, kDevices, kPrices}).catalog;
  const auto error = [&](const std::string& provider, const std::string& region) {
    const std::vector<ImportFile> files = {kPrices};
    const auto imported = ImportCatalog(base, files, {"csv", provider, region, 5});
    return std::string(imported.status().message());
  };
  EXPECT_EQ(
      error("aws", "us-west-1"), "the catalog to start from is of region us-east-1, not us-west-1");
  EXPECT_EQ(error("gcp", ""), "the catalog to start from is of provider aws, not gcp");
}

TEST(CatalogImportTest, WrongFiguresAreErrorsWithLineAndColumn) {
  const auto with = [](const std::string& from, const std::string& to) {
    ImportFile file = kPrices;
    file.text.replace(file.text.find(from), from.size(), to);
    return ErrorOf({file});
  };
  for (const std::string bad : {"-3.912", "nan", "inf", "1e10", "3.9x", "free"}) {
    EXPECT_EQ(
        with("3.912", bad),
        "prices_2026-07-20.csv:2: ondemand_usd_per_hour is \"" + bad +
            "\"; allowed: a number from 0 to 1000000000");
  }
  EXPECT_THAT(with("0.192", "0"), StartsWith("prices_2026-07-20.csv:3: ondemand_usd_per_hour is "));
  EXPECT_EQ(with(",0.192", ""), "prices_2026-07-20.csv:3: 2 cells; allowed: 3, as in the header");
  EXPECT_THAT(with("instance_type", "kind"), HasSubstr(":1: no column instance_type; allowed: "));
  EXPECT_THAT(ErrorOf({{"e.csv", "", ""}}), StartsWith("e.csv:1: the file is empty"));
  EXPECT_EQ(
      ErrorOf({{"q.csv", "instance_type\n\"a", ""}}),
      "q.csv:2: a double quote is never closed; allowed: \"...\", with \"\" for a quote inside");
  EXPECT_THAT(
      ErrorOf({{"n.csv", "instance_type,vcpus\na,\"4\n5\"\n", ""}}),
      StartsWith("n.csv:2: vcpus is \"4?5\"; allowed: "));
  ImportFile savings = kSavings;
  savings.text.replace(savings.text.find("64"), 2, "100");
  EXPECT_THAT(ErrorOf({savings}), HasSubstr(":2: savings_over_ondemand_pct is \"100\"; allowed: "));
}

TEST(CatalogImportTest, WrongSpotHistoriesAreErrorsWithTheirLine) {
  const proto::Catalog base = Import({kHardware, kDevices, kPrices}).catalog;
  ImportOptions options = kAws;
  options.format = "spot-tsv";
  const auto error = [&](const std::string& text) {
    const std::vector<ImportFile> files = {{"h.tsv", text, ""}};
    return std::string(ImportCatalog(base, files, options).status().message());
  };
  EXPECT_THAT(error("use1-az1 m5.xlarge\n"), StartsWith("h.tsv:1: 1 cells; allowed: zone, type, "));
  EXPECT_EQ(
      error("use1-az1\tm5.xlarge\tLinux/UNIX\t-1\t2022-05-31T20:00:00+00:00\n"),
      "h.tsv:1: the price is \"-1\"; allowed: a number above 0");
  EXPECT_THAT(
      error("\nuse1-az1\tm5.xlarge\tLinux/UNIX\t1\tnow\n"), StartsWith("h.tsv:2: the time is "));
  options.region = "";
  EXPECT_THAT(
      std::string(ImportCatalog({}, {}, options).status().message()), HasSubstr("--region"));
  options.format = "xls";
  EXPECT_EQ(ErrorOf({}, options), "unknown format \"xls\"; allowed: csv, spot-tsv");
}

TEST(CsvTableTest, QuotedCellsHoldSeparatorsQuotesAndNewlines) {
  const auto table = ParseCsv(
      "\xef\xbb\xbf"
      "a,\"b,\"\"c\"\"\nd\",\r\n\r\n,x",
      ',',
      "t.csv");
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->rows.size(), 2U);
  EXPECT_THAT(table->rows[0].cells, ElementsAre("a", "b,\"c\"\nd", ""));
  EXPECT_THAT(table->rows[1].cells, ElementsAre("", "x"));
  EXPECT_EQ(table->rows[1].line, 4);
  EXPECT_THAT(ParseCsv("", ',', "t.csv").value().rows, IsEmpty());
}

}  // namespace
}  // namespace ps::provisioner
