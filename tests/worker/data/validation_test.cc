// Training samples that are kept for validation.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <vector>

#include "tests/worker/data/data_files.h"
#include "worker/data/dataset.h"

namespace ps::worker::test {
namespace {

using testing::HasSubstr;

using Inputs = std::vector<float>;

/// 20 pictures that differ, and 7 tests.
class ValidationTest : public testing::Test {
 protected:
  ValidationTest() {
    WriteIdxSet(folder_, 20, 7);
    config_.directory = folder_.path();
    config_.validation_share = 0.25F;
  }

  Dataset Load(uint64_t seed = 1) const {
    Result<Dataset> dataset = Dataset::Load(config_, nullptr, proto::Task::kClasses, seed);
    PS_CHECK(dataset.ok()) << dataset.status();
    return std::move(dataset).value();
  }

  static Inputs Held(const Dataset& dataset, uint64_t at) {
    Inputs inputs(static_cast<size_t>(dataset.info().shape.element_count()));
    std::vector<uint32_t> labels(static_cast<size_t>(dataset.info().labels));
    PS_CHECK(dataset.FetchTest({at, at + 1}, {inputs, labels}).ok()) << "fetch";
    return inputs;
  }

  static std::multiset<Inputs> Validation(const Dataset& dataset) {
    std::multiset<Inputs> all;
    const uint64_t tests = dataset.info().test_count;
    for (uint64_t i = 0; i < dataset.info().validation_count; ++i) {
      all.insert(Held(dataset, tests + i));
    }
    return all;
  }

  static std::multiset<Inputs> Training(const Dataset& dataset, uint64_t epoch) {
    std::multiset<Inputs> all;
    const EpochOrder order(3, epoch, dataset.info().train_count);
    for (uint64_t i = 0; i < dataset.info().train_count; ++i) {
      Inputs inputs(static_cast<size_t>(dataset.info().shape.element_count()));
      std::vector<uint32_t> labels(static_cast<size_t>(dataset.info().labels));
      PS_CHECK(dataset.FetchTrain(order, {i, i + 1}, {inputs, labels}).ok()) << "fetch";
      all.insert(inputs);
    }
    return all;
  }

  DataFolder folder_;
  proto::DataConfig config_;
};

TEST_F(ValidationTest, EachTrainingSampleIsOfTheOneOrOfTheOther) {
  const Dataset parted = Load();
  EXPECT_EQ(parted.info().train_count, 15U);
  EXPECT_EQ(parted.info().validation_count, 5U);
  EXPECT_EQ(parted.info().test_count, 7U);
  std::multiset<Inputs> both = Training(parted, 0);
  EXPECT_EQ(both, Training(parted, 1)) << "whatever the epoch";
  both.merge(Validation(parted));
  const proto::DatasetFingerprint print = parted.fingerprint();
  EXPECT_EQ(*Dataset::Inspect(config_), parted.info());
  EXPECT_EQ(*Dataset::InspectKnown(config_, print), parted.info());
  const Inputs test = Held(parted, 3);
  config_.validation_share = 0;
  const Dataset whole = Load();
  EXPECT_EQ(both, Training(whole, 0));
  EXPECT_EQ(print, whole.fingerprint()) << "the files are the same";
  EXPECT_EQ(test, Held(whole, 3));
}

TEST_F(ValidationTest, TheChoiceFollowsFromTheSeed) {
  EXPECT_EQ(Validation(Load(1)), Validation(Load(1)));
  std::set<std::multiset<Inputs>> choices;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    choices.insert(Validation(Load(seed)));
  }
  EXPECT_GT(choices.size(), 4U);
}

TEST_F(ValidationTest, PicturesForItAreNotAugmented) {
  const std::multiset<Inputs> plain = Validation(Load());
  config_.augment = {1, true};
  EXPECT_EQ(Validation(Load()), plain);
}

TEST_F(ValidationTest, OfATextTheLastSamplesAreForIt) {
  const DataFolder folder;
  const std::string_view text = "abcdefghijklmnopqrstuvwxyz";
  folder.Write("a.txt", {text.begin(), text.end()});
  config_ = {};
  config_.format = proto::DatasetFormat::kText;
  config_.directory = folder.path();
  config_.context = 4;
  config_.test_share = 0.2F;
  const Dataset whole = Load();
  config_.validation_share = 0.45F;
  const Dataset parted = Load();
  ASSERT_EQ(whole.info().train_count, 5U);
  ASSERT_EQ(parted.info().validation_count, 2U);
  EXPECT_EQ(Held(parted, parted.info().test_count), (Inputs{'m', 'n', 'o', 'p'}));
  EXPECT_FALSE(Training(parted, 0).contains(Inputs{'q', 'r', 's', 't'}));
  EXPECT_EQ(Training(parted, 0).size(), 3U);
}

TEST_F(ValidationTest, AShareOfNoSampleIsAnError) {
  config_.validation_share = 0.01F;
  const std::string error = Dataset::Load(config_).status().ToString();
  EXPECT_THAT(error, HasSubstr("data.validation_share is 0.01"));
  EXPECT_THAT(error, HasSubstr("leaves 0 of 20 training samples"));
  EXPECT_EQ(Dataset::Inspect(config_).status().ToString(), error);
}

}  // namespace
}  // namespace ps::worker::test
