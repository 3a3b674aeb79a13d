#include "provisioner/profile/fingerprint.h"

#include <gtest/gtest.h>

namespace ps::provisioner {
namespace {

proto::JobConfig Job() {
  proto::JobConfig job;
  job.name = "a";
  job.model.name = "mlp";
  job.data.directory = "/data";
  job.workers.resize(1);
  return job;
}

std::vector<TensorSpec> Tensors() {
  TensorSpec weight;
  weight.name = "w";
  weight.shape = {10, 25};
  return {weight};
}

TEST(ModelFingerprintTest, ChangesWithNamesAndShapesAlone) {
  std::vector<TensorSpec> tensors = Tensors();
  const std::string before = ModelFingerprint(tensors);
  EXPECT_EQ(before.size(), 8U);
  tensors[0].init_scale = 3;
  EXPECT_EQ(ModelFingerprint(tensors), before);
  tensors[0].shape = {25, 10};
  EXPECT_NE(ModelFingerprint(tensors), before);
}

TEST(TrainingFingerprintTest, ChangesWithWhatCurvesDependOn) {
  const std::string before = TrainingFingerprint(Job());
  EXPECT_EQ(before.size(), 8U);
  proto::JobConfig job = Job();
  job.optimizer.lr *= 2;
  EXPECT_NE(TrainingFingerprint(job), before);
  job = Job();
  job.train.mode = proto::Mode::kBsp;
  EXPECT_NE(TrainingFingerprint(job), before);
  job = Job();
  job.train.precision = proto::Precision::kBf16;
  EXPECT_NE(TrainingFingerprint(job), before);
  job = Job();
  job.data.train_samples = 1000;
  EXPECT_NE(TrainingFingerprint(job), before);
}

TEST(TrainingFingerprintTest, APolicyOfTheRateIsTheSameWrittenOrByAuto) {
  for (const float momentum : {0.0F, 0.9F}) {
    proto::JobConfig job = Job();
    job.optimizer.momentum = momentum;
    const std::string by_auto = TrainingFingerprint(job);
    job.train.lr_policy = momentum > 0 ? proto::LrPolicy::kLive : proto::LrPolicy::kListed;
    EXPECT_EQ(TrainingFingerprint(job), by_auto) << momentum;
    job.train.lr_policy = proto::LrPolicy::kFixed;
    EXPECT_NE(TrainingFingerprint(job), by_auto) << momentum;
    EXPECT_FALSE(TrainsLike(job, by_auto)) << momentum;
  }
}

/// auto is live with momentum and single minibatches, and listed with local steps.
TEST(TrainingFingerprintTest, LocalStepsAreNoOtherTrainingWithMomentumEither) {
  proto::JobConfig job = Job();
  job.optimizer.momentum = 0.9F;
  const std::string single = TrainingFingerprint(job);
  job.train.local_steps = 8;
  job.train.overlap = false;
  EXPECT_EQ(TrainingFingerprint(job), single);
}

TEST(TrainingFingerprintTest, LocalStepsAreNoOtherTraining) {
  const std::string single = TrainingFingerprint(Job());
  proto::JobConfig job = Job();
  job.train.local_steps = 8;
  job.train.overlap = false;
  EXPECT_EQ(TrainingFingerprint(job), single);
  EXPECT_TRUE(TrainsLike(job, single));
  EXPECT_TRUE(TrainsLike(job, "")) << "nobody knows";
  job.outer.momentum = 0.5F;
  job.train.local_steps_by_speed = true;
  EXPECT_NE(TrainingFingerprint(job), single) << "curves depend on it";
  EXPECT_TRUE(TrainsLike(job, single)) << "single minibatches have none";
  proto::JobConfig waiting = Job();
  waiting.train.overlap = false;
  EXPECT_TRUE(TrainsLike(job, TrainingFingerprint(waiting)));
  EXPECT_FALSE(TrainsLike(Job(), TrainingFingerprint(waiting)));
  job.optimizer.lr *= 2;
  EXPECT_FALSE(TrainsLike(job, single));
}

TEST(TrainingFingerprintTest, IsTheSameForAnotherFleetSeedOrRun) {
  const std::string before = TrainingFingerprint(Job());
  proto::JobConfig job = Job();
  job.name = "b";
  job.train.seed = 7;
  job.train.lease_steps = 2;
  job.train.evaluate_every_epochs = 0;
  job.data.test_samples = 10;
  job.servers.count = 3;
  job.workers.resize(4);
  job.run.stop_at_loss = 1;
  EXPECT_EQ(TrainingFingerprint(job), before);
}

TEST(TrainingFingerprintTest, EpochsCountWhenTheLearningRateFollowsThem) {
  proto::JobConfig job = Job();
  const std::string steady = TrainingFingerprint(job);
  job.train.epochs = 9;
  EXPECT_EQ(TrainingFingerprint(job), steady);
  job.optimizer.schedule.kind = proto::ScheduleKind::kCosine;
  const std::string nine = TrainingFingerprint(job);
  job.train.epochs = 3;
  EXPECT_NE(TrainingFingerprint(job), nine);
}

}  // namespace
}  // namespace ps::provisioner
