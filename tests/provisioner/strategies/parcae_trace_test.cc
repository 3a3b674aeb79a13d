// The policies of Parcae's pipelines on the whole trace, and the plans that it published for it.

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/provisioner/strategies/parcae_policies.h"

namespace ps::provisioner {
namespace {

constexpr int kDraws = 1000;  // as many as the released program takes by default

/// What a policy gives, as docs/strategies.md has it.
struct TraceRow {
  double below;         // the ideal, percent
  double as_predicted;  // plans that are those published of forecasts, percent
  double as_truth;      // of true futures
};

struct TraceTable {
  const char* model;
  double published_checkpoints;  // percent below the ideal, of the released program
  double checkpoints_off;        // how far ours are from that
  // Minutes with another plan than the published, of true futures; none: it has other costs.
  std::optional<size_t> other_plans;
  std::map<std::string, TraceRow> rows;  // by policy
};

void PrintTo(const TraceTable& table, std::ostream* out) {
  *out << table.model;
}

const TraceTable kTables[] = {
    {"gpt-1.5b",
     22.2,
     1.1,
     std::nullopt,
     {{"fastest plan, checkpoints", {21.2, 30.5, 50.8}},
      {"published plans, forecasts", {13.5, 100.0, 44.4}},
      {"ours, ARIMA", {14.1, 45.7, 40.3}},
      {"ours, no change", {11.3, 43.2, 51.2}},
      {"fastest plan of each minute", {7.7, 30.5, 50.8}},
      {"ours, see the minute, ARIMA", {7.1, 32.9, 51.5}},
      {"ours, see the minute, hold 12", {6.2, 38.1, 60.6}},
      {"published plans, true futures", {6.8, 44.4, 100.0}},
      {"ours, true futures", {5.4, 39.4, 67.2}}}},
    {"gpt-6.7b",
     48.9,
     1.7,
     0,
     {{"fastest plan, checkpoints", {47.3, 43.5, 49.1}},
      {"published plans, forecasts", {12.2, 100.0, 46.1}},
      {"ours, ARIMA", {12.5, 88.0, 49.4}},
      {"ours, no change", {9.3, 53.5, 49.2}},
      {"fastest plan of each minute", {8.5, 43.5, 49.1}},
      {"ours, see the minute, ARIMA", {7.5, 35.7, 51.1}},
      {"ours, see the minute, hold 12", {7.8, 54.1, 73.0}},
      {"published plans, true futures", {7.2, 46.1, 100.0}},
      {"ours, true futures", {7.2, 46.1, 100.0}}}},
    {"bert",
     10.3,
     0.1,
     0,
     {{"fastest plan, checkpoints", {10.3, 66.9, 81.4}},
      {"published plans, forecasts", {6.0, 100.0, 70.3}},
      {"ours, ARIMA", {6.0, 95.6, 66.9}},
      {"ours, no change", {5.0, 75.1, 78.2}},
      {"fastest plan of each minute", {3.2, 66.9, 81.4}},
      {"ours, see the minute, ARIMA", {3.1, 74.5, 81.0}},
      {"ours, see the minute, hold 12", {3.0, 69.4, 90.0}},
      {"published plans, true futures", {2.7, 70.3, 100.0}},
      {"ours, true futures", {2.7, 70.3, 100.0}}}},
    {"resnet152",
     8.9,
     0.1,
     2,
     {{"fastest plan, checkpoints", {8.9, 80.8, 95.2}},
      {"published plans, forecasts", {6.0, 100.0, 80.8}},
      {"ours, ARIMA", {6.1, 97.4, 79.8}},
      {"ours, no change", {5.3, 89.2, 87.0}},
      {"fastest plan of each minute", {3.0, 80.8, 95.2}},
      {"ours, see the minute, ARIMA", {3.2, 76.4, 85.7}},
      {"ours, see the minute, hold 12", {3.0, 80.8, 95.2}},
      {"published plans, true futures", {2.8, 80.8, 100.0}},
      {"ours, true futures", {2.8, 80.7, 99.7}}}},
    {"vgg19",
     12.1,
     0.1,
     0,
     {{"fastest plan, checkpoints", {12.1, 74.6, 88.7}},
      {"published plans, forecasts", {8.7, 100.0, 75.5}},
      {"ours, ARIMA", {8.5, 97.7, 75.7}},
      {"ours, no change", {6.4, 83.8, 86.9}},
      {"fastest plan of each minute", {5.7, 74.6, 88.7}},
      {"ours, see the minute, ARIMA", {5.6, 75.8, 83.8}},
      {"ours, see the minute, hold 12", {5.3, 78.5, 91.0}},
      {"published plans, true futures", {4.8, 75.5, 100.0}},
      {"ours, true futures", {4.8, 75.5, 100.0}}}}};

class ParcaeTraceTest : public ::testing::TestWithParam<TraceTable> {};

/// What a fleet that stops for every change loses, by what its policy knows of the minutes to come.
/// Random removals of the forecast come from another seed than the published plans'.
TEST_P(ParcaeTraceTest, PoliciesEndAsFarBelowTheIdealAndPlanAsOftenAsPublished) {
  const TraceTable& table = GetParam();
  const ParcaeCase some(table.model);
  ParcaeCosts costs(some.model, kDraws, 1);
  const double ideal = ParcaeIdealSamples(some);
  const auto minutes = static_cast<double>(some.minutes.size());
  ASSERT_GT(some.minutes.size(), 660U);
  for (const auto& [name, policy] : ParcaePolicies()) {
    ASSERT_TRUE(table.rows.contains(name)) << name;
    const TraceRow& row = table.rows.at(name);
    const ParcaeOutcome outcome = RunParcaePolicy(some, &costs, policy);
    EXPECT_NEAR(100 * (1 - outcome.all() / ideal), row.below, 0.1) << name;
    EXPECT_NEAR(100 * static_cast<double>(outcome.as_predicted) / minutes, row.as_predicted, 0.5)
        << name;
    EXPECT_NEAR(100 * static_cast<double>(outcome.as_truth) / minutes, row.as_truth, 0.5) << name;
    if (name == "ours, true futures" && table.other_plans) {
      EXPECT_EQ(some.minutes.size() - outcome.as_truth, *table.other_plans);
    }
  }
  EXPECT_NEAR(
      table.rows.at("fastest plan, checkpoints").below,
      table.published_checkpoints,
      table.checkpoints_off);
}

INSTANTIATE_TEST_SUITE_P(
    Models, ParcaeTraceTest, ::testing::ValuesIn(kTables), [](const auto& given) {
      std::string name = given.param.model;
      std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
      return name;
    });

/// The four hours of the paper: much or little available, dense or sparse revocations. Its Table 2
/// has the costs of an image or token in 1e-6 USD; spot at 0.918 USD/h, two servers at 0.68.
TEST(ParcaeTableTest, PublishedPlansCostWhatThePaperSays) {
  const struct {
    const char* model;
    double tokens;  // of a sample
    double samples[4];
    double usd[4];
    double off;  // how far from the paper
  } rows[] = {
      {"gpt-1.5b", 1024, {123891, 133190, 90639, 96683}, {0.21, 0.21, 0.18, 0.15}, 0.16},
      {"gpt-6.7b", 1024, {29946, 35330, 26158, 27313}, {0.94, 0.80, 0.67, 0.49}, 0.16},
      {"bert", 512, {1689432, 1837925, 1171834, 1183855}, {.0313, .0312, .0257, .0227}, 0.16},
      {"resnet152", 1, {8696043, 9310438, 6158763, 5891335}, {3.81, 3.62, 2.71, 2.54}, 0.20},
      {"vgg19", 1, {5805773, 6573125, 4230713, 4114244}, {4.62, 4.66, 3.66, 3.11}, 0.16}};

  const size_t begins[] = {330, 90, 480, 600};
  for (const auto& row : rows) {
    const ParcaeCase some(row.model);
    ASSERT_GE(some.minutes.size(), 660U);
    ParcaeCosts costs(some.model, kDraws, 1);
    const ParcaeOutcome outcome = RunParcaePolicy(some, &costs, ParcaePublished(false));
    std::vector<int> machines = {0};
    for (const ParcaeMinute& minute : some.minutes) {
      machines.push_back(machines.back() + minute.event.added - minute.event.removed);
    }
    for (size_t hour = 0; hour < 4; ++hour) {
      double sum = 0;
      double usd = 2 * 0.68;
      for (size_t minute = begins[hour]; minute < begins[hour] + 60; ++minute) {
        sum += outcome.samples[minute];
        usd += machines[minute + 1] * 0.918 / 60;
      }
      EXPECT_NEAR(sum / row.samples[hour], 1, 0.01) << row.model << " " << hour << " " << sum;
      EXPECT_NEAR(usd / sum / row.tokens * 1e6 / row.usd[hour], 1, row.off + 0.005)
          << row.model << " " << hour;
    }
  }
}

}  // namespace
}  // namespace ps::provisioner
