// CSV and TSV files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/worker/data/data_files.h"
#include "worker/data/dataset.h"
#include "worker/data/table/table_file.h"

namespace ps::worker::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

Bytes TableBytes(const std::string& text) {
  return {text.begin(), text.end()};
}

class TableTest : public testing::Test {
 protected:
  TableTest() {
    config_.format = proto::DatasetFormat::kCsv;
    config_.directory = folder_.path();
  }

  void Write(const std::string& name, const std::string& text) const {
    folder_.Write(name, TableBytes(text));
  }

  /// All training values, then the labels of all training rows, in the order of the files.
  struct All {
    std::vector<float> values;
    std::vector<uint32_t> labels;
  };

  All LoadAll() const {
    const Result<Dataset> dataset = Dataset::Load(config_);
    PS_CHECK(dataset.ok()) << dataset.status();
    const uint64_t count = dataset->info().train_count;
    const auto features = static_cast<uint64_t>(dataset->info().shape.element_count());
    All all{std::vector<float>(count * features), std::vector<uint32_t>(count)};
    const EpochOrder order(1, 0, count);
    for (uint64_t at = 0; at < count; ++at) {
      const uint64_t sample = order.SampleAt(at);
      const Status fetched = dataset->FetchTrain(
          order,
          {at, at + 1},
          {std::span(all.values).subspan(sample * features, features),
           std::span(all.labels).subspan(sample, 1)});
      PS_CHECK(fetched.ok()) << fetched;
    }
    return all;
  }

  /// Of a training file.
  std::string ErrorOf(const std::string& text) const {
    Write("train.csv", text);
    Write("test.csv", "a,b\n1,0\n");
    const Status status = Dataset::Load(config_).status();
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.code(), StatusCode::kCorruption) << status;
    EXPECT_EQ(Dataset::Inspect(config_).status().ToString(), status.ToString());
    return std::string(status.message());
  }

  DataFolder folder_;
  proto::DataConfig config_;
};

TEST_F(TableTest, NamedClassesAreNumberedInTheOrderOfTheirNames) {
  Write(
      "train-1.csv",
      "\xef\xbb\xbfwidth,\"le\"\"ngth\",kind\r\n1.5, -2e1 ,rose\r\n+3,.25,\"iris\"\r\n");
  folder_.WritePacked("train-2.csv.gz", TableBytes("width,\"le\"\"ngth\",kind\n5,6,rose\n\n\n"));
  Write("test.csv", "width,\"le\"\"ngth\",kind\n7,8,iris");
  const DatasetInfo expected{
      .shape = {2, 1, 1},
      .classes = 2,
      .train_count = 3,
      .test_count = 1,
      .class_names = {"iris", "rose"}};
  EXPECT_EQ(Dataset::Load(config_)->info(), expected);
  const All all = LoadAll();
  EXPECT_THAT(all.values, ElementsAre(1.5F, -20.0F, 3.0F, 0.25F, 5.0F, 6.0F));
  EXPECT_THAT(all.labels, ElementsAre(1U, 0U, 1U));
  config_.label = "width";
  EXPECT_THAT(Dataset::Load(config_).status().ToString(), HasSubstr("which is no number"));
}

TEST_F(TableTest, TheLabelColumnMayBeANumberAndClassesNumbers) {
  config_.format = proto::DatasetFormat::kTsv;
  config_.header = false;
  config_.label = "1";
  Write("train.tsv", "0.5\t2\t1\n\"x\t0\t2\n");
  Write("test.tsv", "0.5\t1\t1\n");
  EXPECT_THAT(
      Dataset::Load(config_).status().ToString(),
      EndsWith("train.tsv: line 2: column 0 is \"\"x\", which is no number"));
  Write("train.tsv", "0.5\t2\t1\n4\t0\t2\n");
  const All all = LoadAll();
  EXPECT_THAT(all.values, ElementsAre(0.5F, 1.0F, 4.0F, 2.0F));
  EXPECT_THAT(all.labels, ElementsAre(2U, 0U));
  EXPECT_EQ(Dataset::Load(config_)->info().classes, 3);
}

TEST_F(TableTest, LabelsThatAreNumbersAreOrderedAsNumbersHoweverTheyAreWritten) {
  std::string rows = "a,b\n";
  for (int label = 11; label >= 0; --label) {
    rows += "0," + std::to_string(label) + ".0\n";
  }
  Write("train.csv", rows + "0,+3\n0,3\n");
  Write("test.csv", "a,b\n0,1e1\n");
  EXPECT_THAT(
      LoadAll().labels, ElementsAre(11U, 10U, 9U, 8U, 7U, 6U, 5U, 4U, 3U, 2U, 1U, 0U, 3U, 3U));
  EXPECT_EQ(Dataset::Load(config_)->info().classes, 12);
  EXPECT_THAT(Dataset::Load(config_)->info().class_names, IsEmpty()) << "a class is its number";
  // Not from 0: in their order, which is not that of their texts.
  Write("train.csv", "a,b\n0,10\n0,-1\n0,9\n0,1e1\n");
  EXPECT_THAT(LoadAll().labels, ElementsAre(2U, 0U, 1U, 2U));
  EXPECT_THAT(Dataset::Load(config_)->info().class_names, ElementsAre("-1", "9", "10"));
}

TEST_F(TableTest, NumbersThatAreNoClassesSayHowTheyAreLearnt) {
  EXPECT_THAT(
      ErrorOf("a,b\n1,0.5\n2,2\n3,2\n"),
      AllOf(
          HasSubstr("line 2: the labels are numbers and no classes: 2 different ones in 3 rows, "
                    "from 0.5 to 2"),
          HasSubstr("end model.layers with the loss mse, mae or huber")));
  std::string text = "a,b\n";
  for (int i = 0; i < 60; ++i) {
    text += "0," + std::to_string(100 + 3 * i) + "\n";
  }
  EXPECT_THAT(ErrorOf(text), HasSubstr("60 different ones in 60 rows, from 100 to 277"));
  EXPECT_THAT(ErrorOf("a,b\n1,1\n1,90000\n"), HasSubstr("end model.layers with the loss mse"));
}

TEST_F(TableTest, ColumnsOfNumbersAreLearntInTheOrderInWhichTheyAreNamed) {
  config_.labels = {"z", "1"};
  Write("train.csv", "x,y,z\n1,0.5,7\n2,-1.5,8\n3,1,9\n");
  Write("test.csv", "x,y,z\n4,5.5,6.5\n");
  const Result<Dataset> dataset = Dataset::Load(config_, nullptr, proto::Task::kNumbers);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const DatasetInfo expected{
      .shape = {1, 1, 1}, .classes = 2, .labels = 2, .train_count = 3, .test_count = 1};
  EXPECT_EQ(dataset->info(), expected);
  EXPECT_EQ(*Dataset::Inspect(config_, proto::Task::kNumbers), expected);
  EXPECT_EQ(
      *Dataset::InspectKnown(config_, dataset->fingerprint(), proto::Task::kNumbers), expected);
  ASSERT_EQ(dataset->target_means().size(), 2U);
  EXPECT_NEAR(dataset->target_means()[0], 8, 1e-12);
  EXPECT_NEAR(dataset->target_means()[1], 0, 1e-12);
  std::vector<float> input(1);
  std::vector<uint32_t> labels(2);
  ASSERT_TRUE(dataset->FetchTest({0, 1}, {input, labels}).ok());
  EXPECT_EQ(input[0], 4);
  EXPECT_EQ(std::bit_cast<float>(labels[0]), 6.5F);
  EXPECT_EQ(std::bit_cast<float>(labels[1]), 5.5F);
  const proto::DatasetFingerprint before = dataset->fingerprint();
  Write("train.csv", "x,y,z\n1,0.5,7\n2,-1.5,8\n3,1,9.25\n");
  proto::DatasetFingerprint after =
      Dataset::Load(config_, nullptr, proto::Task::kNumbers)->fingerprint();
  EXPECT_NE(after.train_labels_crc, before.train_labels_crc);
  after.train_labels_crc = before.train_labels_crc;
  EXPECT_EQ(after, before);
}

TEST_F(TableTest, TargetsThatCannotBeLearntAreNamed) {
  const auto error = [&](const std::string& rows, proto::Task task) {
    Write("train.csv", "x,y\n" + rows);
    Write("test.csv", "x,y\n1,1\n");
    return std::string(Dataset::Load(config_, nullptr, task).status().message());
  };
  EXPECT_EQ(error("1,1\n2,0\n", proto::Task::kLabels), "");
  EXPECT_THAT(
      error("1,1\n2,0.5\n", proto::Task::kLabels),
      EndsWith(
          "train.csv: line 3: column \"y\" is 0.5; bce learns labels that are 0 or 1 (mse, mae "
          "and huber learn any numbers)"));
  EXPECT_THAT(
      error("1,rose\n", proto::Task::kNumbers),
      EndsWith("line 2: column \"y\" is \"rose\", which is no number; the model's loss learns "
               "numbers from it (classes: softmax_cross_entropy)"));
  config_.labels = {"y", "1"};
  EXPECT_THAT(
      error("1,1\n", proto::Task::kNumbers),
      EndsWith("line 1: data.labels names column \"y\" twice, by name and by number"));
  config_.labels = {"x", "y"};
  EXPECT_THAT(error("1,1\n", proto::Task::kNumbers), HasSubstr("at least one is left"));
  config_.labels = {"w"};
  EXPECT_THAT(
      error("1,1\n", proto::Task::kNumbers), HasSubstr("no column \"w\", which data.labels asks"));
}

TEST_F(TableTest, ARowIsNotTakenForTheNamesOfTheColumns) {
  for (const std::string row : {"5.1,3.5,1.4,0.2,setosa\n", "1,0\n", "0,1\n", "4,5,6,7\n"}) {
    SCOPED_TRACE(row);
    EXPECT_THAT(ErrorOf(row + row), HasSubstr("line 1: the header has numbers where names of"));
  }
  EXPECT_THAT(ErrorOf("1,0\n"), HasSubstr("set data.header to false"));
  Write("train.csv", "a,b\n1,0\n2,1\n");
  Write("test.csv", "1,0\n");
  EXPECT_THAT(Dataset::Load(config_).status().ToString(), HasSubstr("set data.header to false"));
  Write("train.csv", "0,1,2,label\n4,5,6,0\n4,5,6,1\n");  // as pandas names columns
  Write("test.csv", "0,1,2,label\n4,5,6,1\n");
  EXPECT_THAT(LoadAll().labels, ElementsAre(0U, 1U));
  config_.header = false;
  EXPECT_THAT(ErrorOf("a,b\n1,0\n"), HasSubstr("set it to true if this line names the columns"));
}

TEST_F(TableTest, AFileBesideItsPackedFormIsRefused) {
  Write("train.csv", "a,b\n1,0\n2,1\n");
  folder_.WritePacked("train.csv.gz", TableBytes("a,b\n1,0\n2,1\n"));
  Write("test.csv", "a,b\n1,0\n");
  const Status status = Dataset::Load(config_).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("train.csv and the same packed, "));
  EXPECT_THAT(status.ToString(), HasSubstr("would count twice"));
  std::filesystem::remove(folder_.path() + "/train.csv.gz");
  for (const std::string name : {"train.csv~", "train.csv.part", "._train.csv", "trains.csv.tmp"}) {
    Write(name, "no table");
  }
  std::filesystem::create_directory(folder_.path() + "/train-old.csv");
  EXPECT_EQ(Dataset::Load(config_)->info().train_count, 2U);
}

TEST_F(TableTest, LoadingSaysHowFarItIsAndEndsWhenItIsToldTo) {
  Write("train.csv", "a,b\n1,0\n2,1\n");
  Write("test.csv", "a,b\n1,0\n");
  LoadProgress progress;
  ASSERT_TRUE(Dataset::Load(config_, &progress).ok());
  EXPECT_EQ(progress.share(), 1);
  progress.Cancel();
  EXPECT_EQ(Dataset::Load(config_, &progress).status().code(), StatusCode::kCancelled);
}

TEST_F(TableTest, BadCellsAreErrorsWithFileAndLine) {
  EXPECT_THAT(
      ErrorOf("a,b\n1,0\nnan,1\n"),
      EndsWith(
          "train.csv: line 3: column \"a\" is \"nan\"; allowed: finite numbers that fit 32 bits"));
  EXPECT_THAT(ErrorOf("a,b\n-inf,0\n"), HasSubstr("line 2: column \"a\" is \"-inf\"; allowed"));
  EXPECT_THAT(ErrorOf("a,b\n1e39,0\n"), HasSubstr("line 2: column \"a\" is \"1e39\"; allowed"));
  EXPECT_THAT(ErrorOf("a,b\n1e999,0\n"), HasSubstr("line 2: column \"a\" is \"1e999\"; allowed"));
  EXPECT_THAT(ErrorOf("a,b\n1,0\n ,1\n"), HasSubstr("line 3: column \"a\" is empty; every cell"));
  EXPECT_THAT(ErrorOf("a,b\n1,\n"), HasSubstr("line 2: column \"b\" is empty; every row needs a"));
  EXPECT_THAT(ErrorOf("a,b\n1\x1b,0\n"), HasSubstr("line 2: column \"a\" is \"1?\", which is no"));
  EXPECT_THAT(ErrorOf("a,b\n1,0\n1,0,1\n"), HasSubstr("line 3: 3 columns; the first line has 2"));
  EXPECT_THAT(ErrorOf("a,b\n1,0\n\n1,1\n"), HasSubstr("line 3: empty, and there are more behind"));
}

TEST_F(TableTest, BadTablesAreErrors) {
  EXPECT_THAT(ErrorOf("a\n1\n"), HasSubstr("line 1: one column; a table has one of labels"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("line 0: the file is empty"));
  EXPECT_THAT(ErrorOf("a,b\n"), HasSubstr("train.csv: no rows"));
  EXPECT_THAT(ErrorOf("a,b\n1,\"0\n"), HasSubstr("line 2: a quote is not closed"));
  EXPECT_THAT(ErrorOf("a,b\n\"1\"2,0\n"), HasSubstr("line 2: byte 3: text behind a closing quote"));
  EXPECT_THAT(ErrorOf("a,b\n1,x\n"), HasSubstr("the training labels make 1 classes; allowed: 2"));
  EXPECT_THAT(ErrorOf("a,b\n1,99999\n"), HasSubstr("line 2: the training labels make 100000 c"));
  EXPECT_THAT(ErrorOf("a,b\n1,x\n2,y\n"), HasSubstr("test.csv: line 2: a label that no training"));
  EXPECT_THAT(ErrorOf("a,c\n1,0\n2,1\n"), HasSubstr("test.csv: line 1: another header than that"));
  const std::string huge(kTableLineBytesMax + 1, '1');
  EXPECT_THAT(ErrorOf("a,b\n" + huge), HasSubstr("line 2: longer than 1048576 bytes"));
  EXPECT_THAT(ErrorOf(std::string(kTableColumnsMax, ',')), HasSubstr("more than 65536 columns"));
  config_.label = "c";
  EXPECT_THAT(
      ErrorOf("a,b\n1,0\n"),
      HasSubstr("line 1: no column \"c\", which data.label asks for; allowed: a name of the "
                "header, or a number from 0 to 1"));
}

TEST_F(TableTest, AFolderWithoutTablesSaysWhatTheyAreCalled) {
  const Status status = Dataset::Load(config_).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.ToString(), HasSubstr("has no train*.csv and no train*.csv.gz; the rows to"));
}

}  // namespace
}  // namespace ps::worker::test
