#include "provisioner/model/profile_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "provisioner/model/least_squares.h"
#include "provisioner/model/queue_model.h"
#include "provisioner/model/spotdnn_model.h"
#include "ps/base/random.h"

namespace ps::provisioner {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// About normal, mean 0, deviation 1.
double Noise(Random& random) {
  double sum = 0;
  for (int i = 0; i < 12; ++i) {
    sum += random.Unit();
  }
  return sum - 6;
}

FitJob SomeJob() {
  FitJob job;
  job.classes = {
      {.name = "fast", .compute_s = 0.2, .samples = 100, .link_bytes_per_s = 60e6},
      {.name = "slow", .compute_s = 0.6, .samples = 100, .link_bytes_per_s = 60e6}};
  job.traffic = {.push_bytes = 4e6, .pull_bytes = 4e6};
  return job;
}

std::vector<std::string> Workers(int fast, int slow) {
  std::vector<std::string> names(static_cast<size_t>(fast), "fast");
  names.insert(names.end(), static_cast<size_t>(slow), "slow");
  return names;
}

/// Fleets of 1 to 7 workers as `model` sees them, with noise, and with one wild sample if asked.
std::vector<proto::FleetSample> Measure(const SpeedModel& model, double noise, bool has_outlier) {
  Random random(7);
  std::vector<proto::FleetSample> fleets;
  for (int fast = 0; fast <= 4; ++fast) {
    for (int slow = 0; slow <= 3; ++slow) {
      if (fast + slow == 0) {
        continue;
      }
      proto::FleetSample sample;
      sample.workers = Workers(fast, slow);
      sample.server_bytes_per_s = 60e6;
      const ServerSide servers = {.hosts = 1, .link_bytes_per_s = 60e6};
      sample.steps_per_s = model.Predict(std::vector<int>{fast, slow}, servers).steps_per_s *
                           std::exp(noise * Noise(random));
      fleets.push_back(sample);
    }
  }
  if (has_outlier) {
    fleets[5].steps_per_s *= 0.5;
  }
  return fleets;
}

TEST(FitQueue, RecoversHowLinksAreSharedInSpiteOfNoiseAndAWildFleet) {
  const FitJob job = SomeJob();
  for (const double wait_share : {0.4, 0.7, 1.0}) {
    const QueueSpeedModel truth(
        job.classes, job.traffic, {.wait_share = wait_share, .overhead_s = 0.03});
    const Result<proto::QueueFit> fit = FitQueue(job, Measure(truth, 0.005, true));
    ASSERT_TRUE(fit.ok()) << fit.status();
    EXPECT_NEAR(fit->wait_share, wait_share, 0.1);
    EXPECT_NEAR(fit->overhead_s, 0.03, 0.006);
    EXPECT_EQ(fit->samples, 19);
    // The wild one is in the residual, which is to warn.
    EXPECT_GT(fit->residual, 0.1);
  }
}

TEST(FitQueue, WithoutContentionLinksAreTakenToBeSharedInEqualParts) {
  const FitJob job = SomeJob();
  std::vector<proto::FleetSample> fleets;
  for (const int workers : {1, 2, 4}) {
    proto::FleetSample sample;
    sample.workers = Workers(workers, 0);
    sample.steps_per_s = workers / (0.2 + 8e6 / 60e6);
    fleets.push_back(sample);
  }
  const Result<proto::QueueFit> fit = FitQueue(job, fleets);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_GT(fit->wait_share, 0.95);
  EXPECT_LT(fit->overhead_s, 1e-3);
  EXPECT_NEAR(fit->residual, 0.05 * std::sqrt(2.0 / 3), 1e-3);  // three fleets vouch for no more
}

TEST(FitQueue, TwoWorkersInStepTellNothingOfHowManyShareALink) {
  const FitJob job = SomeJob();
  std::vector<proto::FleetSample> fleets;
  for (const int workers : {1, 1, 2}) {
    proto::FleetSample sample;
    sample.workers = Workers(workers, 0);
    sample.server_bytes_per_s = 60e6;
    sample.steps_per_s = workers / (0.2 + 8e6 / 60e6);  // as if nobody waited
    fleets.push_back(sample);
  }
  const Result<proto::QueueFit> fit = FitQueue(job, fleets);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_EQ(fit->wait_share, 1);
}

TEST(FitQueue, RefusesFleetsOfOneAndFleetsOfStrangers) {
  const FitJob job = SomeJob();
  std::vector<proto::FleetSample> fleets(3);
  for (proto::FleetSample& sample : fleets) {
    sample.workers = {"fast"};
    sample.steps_per_s = 3;
  }
  const Result<proto::QueueFit> alone = FitQueue(job, fleets);
  ASSERT_FALSE(alone.ok());
  EXPECT_THAT(std::string(alone.status().message()), HasSubstr("of 2 workers or more"));
  for (proto::FleetSample& sample : fleets) {
    sample.workers = {"fast", "unknown"};
  }
  const Result<proto::QueueFit> strangers = FitQueue(job, fleets);
  ASSERT_FALSE(strangers.ok());
  EXPECT_THAT(std::string(strangers.status().message()), HasSubstr("there are 0"));
}

TEST(FitContention, RecoversTheProbabilitiesOfContention) {
  const FitJob job = SomeJob();
  const SpotDnnSpeedModel truth(job.classes, job.traffic, {.a1 = 0.4, .b1 = -0.35}, {});
  const Result<proto::ContentionFit> fit = FitContention(job, Measure(truth, 0.005, true));
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(fit->a1, 0.4, 0.06);
  EXPECT_NEAR(fit->b1, -0.35, 0.12);
}

TEST(FitContention, RefusesTooFewSizesAndServersThatAreNeverBusy) {
  const FitJob job = SomeJob();
  const SpotDnnSpeedModel truth(job.classes, job.traffic, {.a1 = 0.4, .b1 = -0.35}, {});
  std::vector<proto::FleetSample> fleets = Measure(truth, 0, false);
  for (proto::FleetSample& sample : fleets) {
    sample.server_bytes_per_s = 0;
  }
  const Result<proto::ContentionFit> idle = FitContention(job, fleets);
  ASSERT_FALSE(idle.ok());
  EXPECT_THAT(std::string(idle.status().message()), HasSubstr("ask for more"));
  FitJob unknown = job;
  unknown.classes[0].link_bytes_per_s = 0;
  const Result<proto::ContentionFit> no_rate = FitContention(unknown, fleets);
  ASSERT_FALSE(no_rate.ok());
  EXPECT_THAT(std::string(no_rate.status().message()), HasSubstr("request_bytes_per_s"));
  fleets.resize(2);
  const Result<proto::ContentionFit> few = FitContention(job, fleets);
  ASSERT_FALSE(few.ok());
  EXPECT_THAT(std::string(few.status().message()), HasSubstr("3 sizes"));
}

/// Curves of four fleets, `points` each, with `noise` relative to the loss above its floor and each
/// tenth point wild.
std::vector<proto::LossSample> Train(const proto::LossFit& truth, int points, double noise) {
  Random random(3);
  const SpotDnnLossModel model(truth, SpotDnnVariant::kPaper);
  std::vector<proto::LossSample> samples;
  const std::vector<proto::LossSample> fleets = {
      {.batch_mean = 64, .heterogeneity = 0, .workers = 1},
      {.batch_mean = 64, .heterogeneity = 0.71, .workers = 2},
      {.batch_mean = 128, .heterogeneity = 0.45, .workers = 3},
      {.batch_mean = 96, .heterogeneity = 0.87, .workers = 4}};
  for (proto::LossSample sample : fleets) {
    for (int i = 0; i < points; ++i) {
      sample.steps = 20.0 * (i + 1);
      const double exact =
          model.LossAt(sample.steps, sample.batch_mean, sample.heterogeneity, sample.workers);
      sample.loss = exact + noise * (exact - truth.c5) * Noise(random);
      if (i % 10 == 9) {
        sample.loss += 1.5;
      }
      samples.push_back(sample);
    }
  }
  return samples;
}

TEST(FitLoss, PredictsStepsOfFleetsItHasNotSeenInSpiteOfWildPoints) {
  const proto::LossFit truth = {.c1 = 300, .c2 = -1.5, .c3 = 900, .c4 = 0.4, .c5 = 0.3};
  const std::vector<proto::LossSample> samples = Train(truth, 150, 0.03);
  const Result<proto::LossFit> fit = FitLoss(samples, {});
  ASSERT_TRUE(fit.ok()) << fit.status();
  const SpotDnnLossModel fitted(*fit, SpotDnnVariant::kPaper);
  const SpotDnnLossModel exact(truth, SpotDnnVariant::kPaper);
  for (const double loss : {0.8, 0.6, 0.5}) {
    const double expected = exact.StepsTo(loss, {6, 100, 0.8});
    EXPECT_NEAR(fitted.StepsTo(loss, {6, 100, 0.8}), expected, 0.1 * expected) << loss;
  }
  EXPECT_NEAR(fit->c5, 0.3, 0.05);
  EXPECT_LT(fit->residual, 0.05);
  EXPECT_EQ(fit->samples, 600);
}

TEST(FitLoss, OneFleetIsEnoughWithoutHeterogeneity) {
  const proto::LossFit truth = {.c1 = 300, .c3 = 600, .c5 = 0.3, .has_heterogeneity = false};
  std::vector<proto::LossSample> samples = Train(truth, 100, 0.02);
  samples.resize(100);
  EXPECT_FALSE(FitLoss(samples, {.has_heterogeneity = true}).ok());
  const Result<proto::LossFit> fit = FitLoss(samples, {.has_heterogeneity = false});
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_EQ(fit->c2, 0);
  const SpotDnnLossModel fitted(*fit, SpotDnnVariant::kPaper);
  const SpotDnnLossModel exact(truth, SpotDnnVariant::kPaper);
  const double expected = exact.StepsTo(0.7, {1, 64, 0});
  EXPECT_NEAR(fitted.StepsTo(0.7, {1, 64, 0}), expected, 0.1 * expected);
}

TEST(FitLoss, ALongRunIsFittedToAPartOfItsPoints) {
  const proto::LossFit truth = {.c1 = 300, .c2 = -1.5, .c3 = 900, .c4 = 0.4, .c5 = 0.3};
  const Result<proto::LossFit> fit = FitLoss(Train(truth, 20000, 0.03), {});
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(fit->c5, 0.3, 0.02);
  EXPECT_EQ(fit->samples, 80000);
}

TEST(FitLoss, RefusesFewPointsAndALossThatDoesNotFall) {
  std::vector<proto::LossSample> samples(12, {.steps = 1, .loss = 1, .batch_mean = 8});
  const Result<proto::LossFit> few = FitLoss(samples, {.has_heterogeneity = false});
  ASSERT_FALSE(few.ok());
  EXPECT_THAT(std::string(few.status().message()), HasSubstr("20 points"));
  samples.clear();
  for (int i = 0; i < 40; ++i) {
    samples.push_back({.steps = 1.0 + i, .loss = 2.0 + 0.01 * i, .batch_mean = 8});
  }
  const Result<proto::LossFit> rising = FitLoss(samples, {.has_heterogeneity = false});
  ASSERT_FALSE(rising.ok());
  EXPECT_THAT(std::string(rising.status().message()), HasSubstr("does not fall"));
}

TEST(FitMemory, GivesTheLargestPowerOfTwoThatFits) {
  std::vector<MemorySample> samples;
  for (const int minibatch : {16, 32, 64, 128}) {
    samples.push_back({.minibatch = minibatch, .device_memory_gib = 1.2 + minibatch / 50.0});
  }
  samples.push_back({.minibatch = 64, .device_memory_gib = 9});  // something else was running
  const Result<MemoryFit> fit = FitMemory(samples);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(fit->samples_per_gib, 50, 1e-9);
  EXPECT_EQ(fit->LargestMinibatch(16), 512);  // 740 samples fit
  EXPECT_EQ(fit->LargestMinibatch(1.2), 0);
  samples.resize(1);
  EXPECT_FALSE(FitMemory(samples).ok());
}

TEST(FitQueue, OverheadIsNoMoreThanALoneWorkersExchangeTook) {
  FitJob job;
  job.classes = {{.name = "a", .compute_s = 0.1, .samples = 32, .link_bytes_per_s = 1e9}};
  job.traffic = {.push_bytes = 2e6, .overlap = 1};
  // All hides, on no limited link; the speeds are a percent off for other reasons.
  std::vector<proto::FleetSample> fleets;
  for (const int workers : {1, 2, 2}) {
    proto::FleetSample fleet;
    fleet.workers.assign(static_cast<size_t>(workers), "a");
    fleet.steps_per_s = 9.87 * workers;
    fleets.push_back(fleet);
  }
  const Result<proto::QueueFit> fit = FitQueue(job, fleets);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_LE(fit->overhead_s, 0.002);
}

TEST(RefitProfile, FitsWhatItCanAndSaysWhatIsMissing) {
  const FitJob job = SomeJob();
  proto::JobProfile profile;
  profile.fleets = Measure(QueueSpeedModel(job.classes, job.traffic, {}), 0.002, false);
  const std::vector<std::string> missing = RefitProfile(job, &profile);
  EXPECT_EQ(profile.queue.samples, 19);
  EXPECT_EQ(profile.contention.samples, 19);
  EXPECT_EQ(profile.loss.samples, 0);
  EXPECT_THAT(missing, SizeIs(1));
  EXPECT_THAT(missing, Contains(HasSubstr("the loss needs 20 points")));
}

TEST(CheckFleets, TellsBiasFromScatter) {
  const FitJob job = SomeJob();
  const QueueSpeedModel model(job.classes, job.traffic, {});
  std::vector<proto::FleetSample> fleets = Measure(model, 0, false);
  for (proto::FleetSample& sample : fleets) {
    sample.steps_per_s /= 1.1;
  }
  const FleetErrors errors = CheckFleets(model, fleets);
  EXPECT_EQ(errors.fleets, 19);
  EXPECT_NEAR(errors.bias, std::log(1.1), 1e-9);
  EXPECT_NEAR(errors.residual, std::log(1.1), 1e-9);
}

TEST(LeastSquares, FindsTheCoefficientsOfACurve) {
  const auto residuals = [](std::span<const double> p, std::span<double> out) {
    for (size_t i = 0; i < out.size(); ++i) {
      const double x = 0.1 * static_cast<double>(i);
      out[i] = p[0] * std::exp(p[1] * x) - 3 * std::exp(-0.7 * x);
    }
  };
  const LeastSquares found = MinimiseSquares(residuals, 30, {1, 0}, 100);
  EXPECT_NEAR(found.parameters[0], 3, 1e-6);
  EXPECT_NEAR(found.parameters[1], -0.7, 1e-6);
}

TEST(LeastSquares, SoftResidualsGrowSlowlyBeyondTheirLimit) {
  EXPECT_NEAR(SoftResidual(0.001, 0.1), 0.001, 1e-6);
  EXPECT_LT(SoftResidual(10, 0.1), 1.5);
  EXPECT_EQ(SoftResidual(-10, 0.1), -SoftResidual(10, 0.1));
  EXPECT_EQ(SoftResidual(10, 0), 10);
}

}  // namespace
}  // namespace ps::provisioner
