#include "provisioner/unseen/transfer_law.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/provisioner/model/csv_data.h"

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;

DeviceFigures Device(const char* name) {
  return FiguresOf(name, 0).value();
}

/// Within 3 points of 80 and 90 %: each model's jobs by a law that was learned from the others.
TEST(TransferLawTest, IntervalsHoldWhatTheyPromiseOfModelsThatWereLeftOut) {
  std::set<std::string> models;
  for (const MeasuredJob& job : PublishedJobs()) {
    models.insert(job.model);
  }
  EXPECT_EQ(models.size(), 28U);
  std::map<double, int> held;
  int pairs = 0;
  double width = 0;
  for (const std::string& model : models) {
    std::vector<MeasuredJob> others;
    for (const MeasuredJob& job : PublishedJobs()) {
      if (job.model != model) {
        others.push_back(job);
      }
    }
    const auto law = TransferLaw::Learn(others);
    ASSERT_TRUE(law.ok()) << law.status();
    for (const MeasuredJob& job : PublishedJobs()) {
      for (const DeviceTime& from : job.times) {
        for (const DeviceTime& to : job.times) {
          if (job.model != model || &from == &to) {
            continue;
          }
          const double error = std::abs(
              std::log(from.seconds / to.seconds) - law->LogSpeedup(from.device, to.device));
          ++pairs;
          for (const double inside : {0.8, 0.9}) {
            const double reach = law->LogReach(from.device, to.device, inside);
            held[inside] += error <= reach ? 1 : 0;
            width += inside == 0.8 ? reach : 0;
          }
        }
      }
    }
  }
  EXPECT_EQ(pairs, 208);
  EXPECT_NEAR(static_cast<double>(held[0.8]) / pairs, 0.8, 0.03);
  EXPECT_NEAR(static_cast<double>(held[0.9]) / pairs, 0.9, 0.03);
  EXPECT_LT(std::exp(width / pairs), 2.1) << "to either side, of 80 %";
}

TEST(TransferLawTest, FollowsAWorldWithALawOfItsOwn) {
  std::vector<MeasuredJob> jobs;
  for (int i = 0; i < 8; ++i) {
    MeasuredJob job = {.model = "m" + std::to_string(i), .minibatch = 1, .times = {}};
    for (const char* name : {"K80", "P100", "V100"}) {
      const DeviceFigures device = Device(name);
      job.times.push_back(
          {device, (1.0 + i) / std::pow(device.tflops, 0.6) / std::pow(device.gbyte_per_s, 0.4)});
    }
    jobs.push_back(job);
  }
  const auto law = TransferLaw::Learn(jobs);
  ASSERT_TRUE(law.ok()) << law.status();
  EXPECT_NEAR(law->slope(), 1, 1e-9);
  EXPECT_NEAR(law->flops_share(), 0.6, 1e-9);
  const double speedup = std::exp(law->LogSpeedup(Device("T4"), Device("A100")));
  EXPECT_NEAR(speedup, std::pow(19.5 / 8.1, 0.6) * std::pow(1555.0 / 320, 0.4), 1e-9);
  EXPECT_LT(law->LogReach(Device("T4"), Device("A100"), 0.9), 1e-6) << "nothing was ever off";
}

TEST(TransferLawTest, TheFurtherApartTheWiderAndProcessorsMostOfAll) {
  const TransferLaw law = TransferLaw::Learn(PublishedJobs()).value();
  const DeviceFigures v100 = Device("V100");
  const double same = law.LogReach(v100, v100, 0.8);
  EXPECT_GT(same, 0.1) << "another host with the same device is no sure thing";
  EXPECT_LT(same, law.LogReach(v100, Device("P100"), 0.8));
  EXPECT_LT(law.LogReach(v100, Device("P100"), 0.8), law.LogReach(v100, Device("H100"), 0.8));
  EXPECT_LT(law.LogReach(v100, Device("H100"), 0.8), law.LogReach(v100, Device("H100"), 0.9));
  EXPECT_GT(law.LogReach(FiguresOf("cpu", 8).value(), v100, 0.8), 1.5);
  EXPECT_GT(law.LogSpeedup(FiguresOf("cpu", 8).value(), v100), 2);
}

TEST(TransferLawTest, WhatCannotBeLearnedFromIsSaid) {
  std::vector<MeasuredJob> jobs = {PublishedJobs().front()};
  EXPECT_THAT(
      std::string(TransferLaw::Learn(jobs).status().message()), HasSubstr("6 pairs of devices"));
  jobs = PublishedJobs();
  jobs[3].times[0].seconds = 0;
  EXPECT_THAT(std::string(TransferLaw::Learn(jobs).status().message()), HasSubstr("above 0"));
}

double SecondsOf(const std::string& model, int minibatch, const DeviceFigures& device) {
  for (const MeasuredJob& job : PublishedJobs()) {
    for (const DeviceTime& time : job.times) {
      if (job.model == model && job.minibatch == minibatch && time.device == device) {
        return time.seconds;
      }
    }
  }
  return 0;
}

TEST(PublishedJobsTest, AreThoseOfTheirFiles) {
  int rows = 0;
  for (const auto& row : LoadCsv("tests/data/cmdare/step_times.csv")) {
    const std::string model = "CM-DARE " + row.at("model");
    const double k80_s = std::stod(row.at("k80_step_s"));
    const double p100_s = std::stod(row.at("p100_step_s"));
    EXPECT_NEAR(SecondsOf(model, 0, Device("K80")) / k80_s, 1, 1e-4) << model;
    EXPECT_NEAR(SecondsOf(model, 0, Device("P100")) / p100_s, 1, 1e-4) << model;
    ++rows;
  }
  for (const auto& row : LoadCsv("tests/data/gavel/throughputs.csv")) {
    const double steps_per_s = std::stod(row.at("steps_per_s"));
    if (steps_per_s <= 0) {
      continue;  // it did not fit
    }
    const std::string& gpu = row.at("gpu");
    const std::string batch = row.at("batch_size").empty() ? "0" : row.at("batch_size");
    const char* name = gpu == "k80" ? "K80" : gpu == "p100" ? "P100" : "V100";
    EXPECT_NEAR(
        SecondsOf("Gavel " + row.at("job"), std::stoi(batch), Device(name)) * steps_per_s, 1, 1e-4)
        << row.at("job") << " " << batch << " " << name;
    ++rows;
  }
  EXPECT_GT(rows, 90);
}

}  // namespace
}  // namespace ps::provisioner
