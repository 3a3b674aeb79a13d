#include "ps/coordinator/meters/exchange_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ps::coordinator {
namespace {

using ::testing::HasSubstr;

proto::StepSettings Settings(const std::string& push, uint32_t local_steps) {
  proto::StepSettings settings;
  settings.push = codec::ParseEncoding(push).value();
  settings.local_steps = local_steps;
  return settings;
}

/// "int8, 16", or "stays".
std::string Chosen(
    const proto::StepSettings& now, const ExchangeMeasure& measure, const ExchangeBounds& bounds) {
  const auto choice = ChooseExchange(now, measure, bounds);
  return choice
             ? choice->settings.push.ToText() + ", " + std::to_string(choice->settings.local_steps)
             : "stays";
}

struct Row {
  const char* what;
  const char* push;
  uint32_t local_steps;
  ExchangeMeasure measure;
  ExchangeBounds bounds;
  const char* chosen;
};

const ExchangeBounds kBoth{{true, true}, 128, false};
const ExchangeBounds kPush{{true, false}, 128, false};
const ExchangeBounds kSteps{{false, true}, 128, false};

const Row kRows[] = {
    {"nothing was measured", "f32", 8, {0, 0, 0}, kBoth, "stays"},
    {"nothing may change", "f32", 8, {50, 50, 50}, {{}, 128, false}, "stays"},
    {"a link that is fast enough", "f32", 8, {95, 2, 2}, kBoth, "stays"},
    {"nearly enough is enough", "f32", 8, {94, 3, 3}, kBoth, "stays"},
    {"the fewest steps, then the mildest encoding", "f32", 8, {90, 8, 0}, kBoth, "int8, 4"},
    {"more steps where even int8 is not enough", "f32", 8, {80, 10, 2}, kBoth, "bf16, 16"},
    {"pulls are not encoded, so there are more steps", "f32", 8, {80, 10, 10}, kBoth, "bf16, 32"},
    {"steps alone", "f32", 8, {80, 10, 10}, kSteps, "f32, 64"},
    {"of encodings the mildest that is enough", "f32", 8, {90, 8, 0}, kPush, "bf16, 8"},
    {"and int8 where bf16 is not", "f32", 8, {90, 15, 0}, kPush, "int8, 8"},
    {"int4 where nothing else is enough", "f32", 8, {80, 30, 0}, kPush, "int4, 8"},
    {"the mildest of those that are as good", "f32", 8, {10, 0.1, 100}, kPush, "stays"},
    {"as many steps as may be, and int4 last",
     "f32",
     8,
     {1, 100, 1},
     {{true, true}, 16, false},
     "int4, 16"},
    {"fewer steps when the link got faster", "f32", 64, {99, 0.2, 0.2}, kSteps, "f32, 8"},
    {"a milder encoding, too", "int8", 8, {99, 0.1, 0.1}, kPush, "f32, 8"},
    {"not where it would be close", "int8", 8, {97, 1.5, 1}, kPush, "stays"},
    {"computing that hides the exchange says nothing of a larger one",
     "int8",
     1,
     {99, 0.1, 0.1},
     {{true, false}, 1, true},
     "stays"},
    {"but of a smaller one", "f32", 1, {60, 40, 0}, {{true, false}, 1, true}, "int4, 1"},
};

TEST(ExchangeChoiceTest, TheTable) {
  for (const Row& row : kRows) {
    EXPECT_EQ(Chosen(Settings(row.push, row.local_steps), row.measure, row.bounds), row.chosen)
        << row.what;
  }
}

/// Whatever is measured: what follows from a choice by its own reckoning is no other choice.
TEST(ExchangeChoiceTest, AChoiceStandsWhereItsReckoningHolds) {
  for (const double push : {0.0, 0.5, 2.0, 10.0, 40.0, 200.0}) {
    for (const double pull : {0.0, 0.5, 2.0, 10.0, 40.0, 200.0}) {
      for (const ExchangeBounds& bounds : {kBoth, kPush, kSteps}) {
        const proto::StepSettings now = Settings("f32", 8);
        const ExchangeMeasure measure{100, push, pull};
        const auto choice = ChooseExchange(now, measure, bounds);
        if (!choice) {
          continue;
        }
        const double longer = choice->settings.local_steps / 8.0;
        const auto bytes = static_cast<double>(choice->settings.push.SizeOf(1U << 20));
        const ExchangeMeasure next{100 * longer, push * bytes / (4U << 20), pull};
        EXPECT_EQ(Chosen(choice->settings, next, bounds), "stays")
            << push << ", " << pull << ": " << choice->settings.push.ToText() << ", "
            << choice->settings.local_steps;
        EXPECT_THAT(choice->why, HasSubstr("is expected"));
      }
    }
  }
}

/// The reckoning may be wrong: where pushes take no less time with fewer bytes, say.
TEST(ExchangeChoiceTest, WhatWasSeenToBeTooMuchIsNotTriedAgain) {
  ExchangeBounds bounds = kPush;
  const proto::StepSettings now = Settings("int8", 8);
  const ExchangeMeasure fast{99, 0.1, 0.1};
  EXPECT_EQ(Chosen(now, fast, bounds), "f32, 8");
  bounds.found_short = {Settings("f32", 8)};
  EXPECT_EQ(Chosen(now, fast, bounds), "bf16, 8");
  bounds.found_short.push_back(Settings("bf16", 16));
  EXPECT_EQ(Chosen(now, fast, bounds), "stays") << "nor as much with fewer steps";
  EXPECT_FALSE(ChooseExchange(now, fast, kPush)->is_less);
  EXPECT_TRUE(ChooseExchange(now, {60, 40, 0}, kPush)->is_less);
}

TEST(ExchangeChoiceTest, LocalStepsLeaveEachWorkerTwentyPushesInAnEpoch) {
  EXPECT_EQ(AutoLocalStepsMax(60'000, 4, 32), 23U);
  EXPECT_EQ(AutoLocalStepsMax(60'000'000, 4, 32), 128U) << "more are never chosen";
  EXPECT_EQ(AutoLocalStepsMax(100, 4, 32), 2U) << "nor fewer than two";
  EXPECT_EQ(AutoLocalStepsMax(UINT64_MAX / 2, 0, 1U << 20), 16U) << "that a step can have";
  EXPECT_EQ(AutoLocalStepsMax(100, 1, 0), 5U);
}

}  // namespace
}  // namespace ps::coordinator
