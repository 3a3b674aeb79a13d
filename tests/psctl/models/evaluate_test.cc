#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "checkpoint/storage/rocksdb_storage.h"
#include "run/directory/model_card.h"
#include "tests/checkpoint/workload.h"
#include "tests/psctl/models/model_fixture.h"

namespace ps::psctl {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class EvaluateTest : public ModelFixture {
 protected:
  void SetUp() override {
    ModelFixture::SetUp();
    std::filesystem::create_directories(root_ / "data");
    std::filesystem::create_directories(root_ / "text");
  }
};

TEST_F(EvaluateTest, LossAndHitsAreThoseOfTheLabels) {
  WriteModel("table.safetensors", TableCard(), table_values_);
  // Losses: ln 2 at a = ln 2; ln 3 twice at zeroes, where the first class counts as the guess.
  WriteFile("data/test.csv", "kind,a,b\ncat,0.69314718,0\nemu,0,0\ncat,0,0\n");
  ASSERT_EQ(Run({"evaluate", root_ / "table.safetensors", root_ / "data"}), 0) << err_;
  EXPECT_EQ(out_, "loss      0.9635\naccuracy  66.67 %, 2 of 3 samples\n");
  EXPECT_THAT(err_, HasSubstr("3 samples in "));
  ASSERT_EQ(Run({"evaluate", root_ / "table.safetensors", "--json"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("\"correct\": 2"));
}

TEST_F(EvaluateTest, WhatIsTakenForWhatIsCountedAndDrawn) {
  WriteModel("table.safetensors", TableCard(), table_values_);
  WriteFile("data/test.csv", "kind,a,b\ncat,1,0\nemu,0,0\ncat,0,0\nemu,0,2\nemu,0,1\n");
  const std::string plot = root_ / "confusion.svg";
  ASSERT_EQ(
      Run({"evaluate", root_ / "table.safetensors", root_ / "data", "--confusion", "--plot", plot}),
      0)
      << err_;
  EXPECT_THAT(
      out_,
      HasSubstr("\n"
                "is, taken for:  cat  dog, wet  emu\n"
                "cat               2         .    .\n"
                "dog, wet          .         .    .\n"
                "emu               1         2    .\n"
                "\n"
                "class     samples  found %  taken for it  rightly %\n"
                "cat             2    100.0             3       66.7\n"
                "dog, wet        0        -             2        0.0\n"
                "emu             3      0.0             0          -\n"
                "\n"
                "is   taken for  samples\n"
                "emu  dog, wet         2\n"
                "emu  cat              1\n"));
  const std::string svg = ReadFile(plot).value();
  EXPECT_THAT(svg, HasSubstr("confusion of "));
  EXPECT_THAT(svg, HasSubstr("class=\"wrong\""));
  EXPECT_THAT(svg, HasSubstr(">dog, wet</text>"));
  ASSERT_EQ(
      Run({"evaluate", root_ / "table.safetensors", root_ / "data", "--confusion", "--json"}), 0);
  EXPECT_THAT(out_, ContainsRegex("\"confusion\": \\[[^]]*2,[^]]*0,[^]]*0"));
  WriteModel("targets.safetensors", TargetsCard(proto::LayerKind::kMse), {1, 0, 0, 1, 0, 0});
  EXPECT_EQ(Run({"evaluate", root_ / "targets.safetensors", root_ / "data", "--confusion"}), 1);
  EXPECT_THAT(err_, HasSubstr("one class a sample, of up to 4096; this one learns numbers"));
}

TEST_F(EvaluateTest, OfItsOwnDataTheRunsTestSamplesAreTaken) {
  worker::ModelCard card = TableCard();
  card.data.test_samples = 1;
  WriteModel("table.safetensors", card, table_values_);
  WriteFile("data/test.csv", "kind,a,b\ncat,1,0\nemu,0,9\ncat,0,9\n");
  ASSERT_EQ(Run({"evaluate", root_ / "table.safetensors"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("1 of 1 sample\n"));
  ASSERT_EQ(Run({"evaluate", root_ / "table.safetensors", root_ / "data"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("1 of 3 samples\n"));
}

/// Whoever made the file has chosen them, and they would be asked with the keys of who uses it.
TEST_F(EvaluateTest, PlacesInABucketThatTheFileNamesAreNotAsked) {
  worker::ModelCard card = TableCard();
  card.data.directory = "s3://theirs/data?endpoint=http://127.0.0.1:1";
  card.data.cache = root_ / "theirs";
  WriteModel("table.safetensors", card, table_values_);
  EXPECT_EQ(Run({"evaluate", root_ / "table.safetensors"}), 1);
  EXPECT_THAT(err_, HasSubstr("names s3://theirs/data"));
  EXPECT_THAT(err_, HasSubstr("whoever made the file has chosen that place"));
  EXPECT_FALSE(std::filesystem::exists(root_ / "theirs"));
}

TEST_F(EvaluateTest, LabelsAreNeededAndKnown) {
  WriteModel("table.safetensors", TableCard(), table_values_);
  WriteFile("data/test.csv", "a,b\n1,2\n");
  EXPECT_EQ(Run({"evaluate", root_ / "table.safetensors"}), 1);
  EXPECT_THAT(
      err_, HasSubstr("no labels, which are needed to evaluate; they are the column \"kind\""));
  WriteFile("data/test.csv", "a,b,kind\n1,2,cat\n1,2,bird\n");
  EXPECT_EQ(Run({"evaluate", root_ / "table.safetensors"}), 1);
  EXPECT_THAT(err_, HasSubstr("line 3: label \"bird\" is none of the model's 3 classes"));
  std::filesystem::remove_all(root_ / "data");
  EXPECT_EQ(Run({"evaluate", root_ / "table.safetensors"}), 1);
  EXPECT_THAT(err_, HasSubstr("where the model's job had its data"));
}

/// As in training: 1 and 01 are two classes beside one that is no number, and else one.
TEST_F(EvaluateTest, ALabelIsTheClassThatItWasInTraining) {
  worker::ModelCard card = TableCard();
  card.class_names = {"01", "1", "a"};
  WriteModel("table.safetensors", card, table_values_);
  WriteFile("data/test.csv", "kind,a,b\n01,1,0\n1,0,1\na,-1,-1\n");
  ASSERT_EQ(Run({"evaluate", root_ / "table.safetensors"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("100.00 %, 3 of 3 samples"));
  WriteFile("data/test.csv", "kind,a,b\n1.0,0,1\n");
  EXPECT_EQ(Run({"evaluate", root_ / "table.safetensors"}), 1);
  EXPECT_THAT(err_, HasSubstr("label \"1.0\" is none"));
  card.class_names = {"-1", "1", "7"};
  WriteModel("table.safetensors", card, table_values_);
  WriteFile("data/test.csv", "kind,a,b\n1.0,0,1\n");
  ASSERT_EQ(Run({"evaluate", root_ / "table.safetensors"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("100.00 %, 1 of 1 sample"));
}

TEST_F(EvaluateTest, ATextIsTakenWholeAndAFolderInItsTestShare) {
  worker::ModelCard card = TextCard();
  card.data.test_share = 0.5F;
  WriteModel("text.safetensors", card, TextValues());
  WriteFile(
      "a.txt",
      "abcda"
      "bcdxa");  // x is the one that nobody expects
  ASSERT_EQ(Run({"evaluate", root_ / "text.safetensors", root_ / "a.txt", "--json"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("\"samples\": 2"));
  EXPECT_THAT(out_, HasSubstr("\"correct\": 2"));  // 7 of 8 tokens: 1.75 samples, rounded
  WriteFile("text/a.txt", std::string(20, 'z') + "abcdabcdabcdabcdabcd");
  ASSERT_EQ(Run({"evaluate", root_ / "text.safetensors", root_ / "text", "--json"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("\"samples\": 4"));
  EXPECT_THAT(out_, HasSubstr("\"accuracy\": 1"));
}

TEST_F(EvaluateTest, ArraysHaveTheirLabelsBesideThem) {
  worker::ModelCard card = TableCard();
  card.data.format = proto::DatasetFormat::kNpy;
  card.class_names.clear();
  card.columns.clear();
  card.label_columns.clear();
  WriteModel("array.safetensors", card, table_values_);
  WriteFile("data/test-inputs-1.npy", NpyBytes<float>("<f4", "2, 2", {1, 0, 0, 1}));
  WriteFile("data/test-inputs-2.npy", NpyBytes<float>("<f4", "1, 2", {-1, -1}));
  const auto evaluate = [&] { return Run({"evaluate", root_ / "array.safetensors"}); };
  EXPECT_EQ(evaluate(), 1);
  EXPECT_THAT(err_, HasSubstr("no labels"));
  WriteFile("data/test-labels-1.npy", NpyBytes<uint16_t>("<u2", "2, ", {0, 1}));
  EXPECT_EQ(evaluate(), 1) << "of one part alone";
  WriteFile("data/test-labels-2.npy", NpyBytes<uint16_t>("<u2", "1, ", {0}));
  ASSERT_EQ(evaluate(), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("2 of 3 samples"));
  WriteFile("data/test-labels-2.npy", NpyBytes<uint16_t>("<u2", "1, ", {3}));
  EXPECT_EQ(evaluate(), 1);
  EXPECT_THAT(err_, HasSubstr("label 3 is none of the model's 3 classes"));
  WriteFile("data/test-labels-2.npy", NpyBytes<uint16_t>("<u2", "2, ", {0, 0}));
  EXPECT_EQ(evaluate(), 1);
  EXPECT_THAT(err_, HasSubstr("the model wants 1 whole numbers for each of 1 samples"));
}

TEST_F(EvaluateTest, NumbersAreMeasuredByR2AndTheirErrors) {
  worker::ModelCard card = TargetsCard(proto::LayerKind::kMse);
  WriteModel("numbers.safetensors", card, targets_values_);
  // One error of 2 among four numbers. Less the means 1 and 2 the targets are 0, 0, 2 and 4; a
  // sample's sums are halved: 3 and 10, so that the spread is 10 - 3 * 3 / 2.
  WriteFile("data/test.csv", "days,a,price,b\n2,1,1,2\n6,3,3,4\n");
  ASSERT_EQ(Run({"evaluate", root_ / "numbers.safetensors"}), 0) << err_;
  EXPECT_EQ(out_, "loss     1.0000\nr2       0.6364, 2 samples\nfigures  mae 0.5, rmse 1\n");
  ASSERT_EQ(Run({"evaluate", root_ / "numbers.safetensors", "--json"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("\"r2\": 0.63636"));
  EXPECT_THAT(out_, HasSubstr("\"mae\": 0.5"));
  EXPECT_THAT(out_, Not(HasSubstr("correct")));

  card.data.format = proto::DatasetFormat::kNpy;
  card.data.labels.clear();
  card.columns.clear();
  card.label_columns.clear();
  WriteModel("numbers.safetensors", card, targets_values_);
  WriteFile("data/test-inputs.npy", NpyBytes<float>("<f4", "2, 2", {1, 2, 3, 4}));
  WriteFile("data/test-labels.npy", NpyBytes<float>("<f4", "2, 2", {1, 2, 3, 6}));
  ASSERT_EQ(Run({"evaluate", root_ / "numbers.safetensors"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("r2       0.6364, 2 samples\n"));
  WriteFile("data/test-labels.npy", NpyBytes<float>("<f4", "2, ", {1, 2}));
  EXPECT_EQ(Run({"evaluate", root_ / "numbers.safetensors"}), 1);
  EXPECT_THAT(err_, HasSubstr("the model wants 2 numbers for each of 2 samples"));
}

TEST_F(EvaluateTest, SeveralLabelsAreMeasuredEachAndTogether) {
  WriteModel("labels.safetensors", TargetsCard(proto::LayerKind::kBce), targets_values_);
  WriteFile("data/test.csv", "a,b,garden,garage\n1,-1,1,0\n1,1,1,0\n-1,1,0,1\n-1,-1,1,0\n");
  ASSERT_EQ(Run({"evaluate", root_ / "labels.safetensors"}), 0) << err_;
  EXPECT_EQ(
      out_,
      "loss            0.5633\n"
      "label accuracy  75.00 %, 4 samples\n"
      "figures         exact_match 0.5\n");
  ASSERT_EQ(Run({"evaluate", root_ / "labels.safetensors", "--json"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("\"label_accuracy\": 0.75"));
  EXPECT_THAT(out_, HasSubstr("\"exact_match\": 0.5"));
}

TEST_F(EvaluateTest, LabelsThatAreNumbersAreNeededAndMakeSense) {
  WriteModel("numbers.safetensors", TargetsCard(proto::LayerKind::kMae), targets_values_);
  WriteModel("labels.safetensors", TargetsCard(proto::LayerKind::kBce), targets_values_);
  const auto said = [&](const std::string& model, const std::string& rows) {
    WriteFile("data/test.csv", rows);
    EXPECT_EQ(Run({"evaluate", root_ / model}), 1) << rows;
    return err_;
  };
  EXPECT_THAT(
      said("numbers.safetensors", "a,b,days\n1,2,3\n"),
      HasSubstr("no labels, which are needed to evaluate; they are the columns \"price\", "
                "\"days\""));
  EXPECT_THAT(
      said("numbers.safetensors", "a,b,days,price\n1,2,3,4\n1,2,3,cheap\n"),
      HasSubstr("line 3: label \"cheap\" is no number"));
  EXPECT_THAT(
      said("numbers.safetensors", "a,b,days,price\n1,2,3,inf\n"), HasSubstr("finite numbers"));
  EXPECT_THAT(
      said("labels.safetensors", "a,b,garden,garage\n1,2,0,0.5\n"),
      HasSubstr("line 2: label \"0.5\" is 0.5; bce learns labels that are 0 or 1"));
}

TEST_F(EvaluateTest, AboveTenClassesTheTopFiveCountAndATextHasItsPerplexity) {
  worker::ModelCard card = TableCard();
  card.layers = {LayerOf(proto::LayerKind::kLinear, 12)};
  card.classes = 12;
  card.class_names.clear();
  std::vector<float> values(size_t{12} * 2 + 12);
  for (size_t i = 0; i < 12; ++i) {
    values[24 + i] = static_cast<float>(i);  // the last five are the likeliest
  }
  WriteModel("many.safetensors", card, values);
  WriteFile("data/test.csv", "a,b,kind\n0,0,11\n0,0,7\n0,0,6\n0,0,0\n");
  ASSERT_EQ(Run({"evaluate", root_ / "many.safetensors"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("accuracy  25.00 %, 1 of 4 samples\nfigures   top5 0.5\n"));

  std::vector<float> even(TextValues().size());
  WriteModel("text.safetensors", TextCard(), even);
  WriteFile("a.txt", "abcdabcda");
  ASSERT_EQ(Run({"evaluate", root_ / "text.safetensors", root_ / "a.txt", "--json"}), 0) << err_;
  EXPECT_THAT(out_, ContainsRegex("\"perplexity\": 1(28|27.99)")) << "of 128 tokens";
}

TEST_F(EvaluateTest, CifarHasItsLabelsWithin) {
  worker::ModelCard card;
  card.layers = {LayerOf(proto::LayerKind::kFlatten), LayerOf(proto::LayerKind::kLinear, 10)};
  card.data.format = proto::DatasetFormat::kCifar10;
  card.data.directory = root_ / "data";
  card.input = {3, 32, 32};
  card.classes = 10;
  card.normals = {{0, 1}, {100, 50}, {0, 1}};
  std::vector<float> values(size_t{10} * 3072 + 10);
  values[1 * 3072 + 1024] = 1;   // green above its mean is class 1
  values[2 * 3072 + 1024] = -1;  // below it is class 2
  WriteModel("cifar.safetensors", card, values);
  const auto record = [](char label, char green) {
    return std::string(1, label) + std::string(1024, '\0') + std::string(1024, green) +
           std::string(1024, '\0');
  };
  WriteFile("data/test_batch.bin", record(1, 120) + record(2, 50) + record(2, 120));
  ASSERT_EQ(Run({"evaluate", root_ / "cifar.safetensors"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("2 of 3 samples"));
  ASSERT_EQ(
      Run(
          {"apply",
           root_ / "cifar.safetensors",
           root_ / "data/test_batch.bin",
           "-o",
           "-",
           "--top",
           "1"}),
      0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("\n1,2,"));
}

TEST_F(EvaluateTest, ARunWithoutAModelHasThatOfItsNewestCheckpoint) {
  const std::string run = root_ / "runs/a-20260101-000000";
  std::filesystem::create_directories(run);
  WriteFile("runs/a-20260101-000000/psctl.pid", "");
  Status end;
  checkpoint::RunWorkload(*checkpoint::MakeRocksDbStorage(), run + "/checkpoints", 3, &end);
  ASSERT_TRUE(end.ok()) << end;
  WriteFile(
      "runs/a-20260101-000000/job.json",
      R"({"name": "a", "model": {"name": "mlp"}, "data": {"format": "csv", "directory": ")" +
          (root_ / "data") + R"("}, "workers": [{}], "checkpoint": {"path": ")" + run +
          R"(/checkpoints"}})");
  ASSERT_TRUE(run::WriteModelCard(run + "/model_card.json", worker::MetadataOf(TableCard())).ok());
  WriteFile("data/test.csv", "kind,a,b\ncat,1,0\n");
  EXPECT_EQ(Run({"model", "export", run, "--pytorch", root_ / "m.py"}), 0) << err_;
  EXPECT_THAT(err_, HasSubstr("this is the model of its checkpoint 3, after"));
  // The tensors of the workload are of no layers.
  EXPECT_EQ(Run({"evaluate", run}), 1);
  EXPECT_THAT(err_, HasSubstr("none of its tensors is one of the model's by name"));
  std::filesystem::remove_all(run + "/checkpoints");
  EXPECT_EQ(Run({"evaluate", run}), 1);
  EXPECT_THAT(err_, HasSubstr("has no model yet, and no checkpoint that can be read"));
}

TEST_F(EvaluateTest, ADeviceThatIsNotThereIsSaid) {
  WriteModel("table.safetensors", TableCard(), table_values_);
  WriteFile("data/test.csv", "kind,a,b\ncat,1,0\n");
  EXPECT_EQ(Run({"evaluate", root_ / "table.safetensors", "--device", "abacus"}), 1);
  EXPECT_THAT(err_, HasSubstr("abacus"));
  EXPECT_EQ(Run({"evaluate", root_ / "table.safetensors", "--device", "auto"}), 0) << err_;
}

TEST_F(EvaluateTest, PicturesInFilesAreOfTheClassesThatTheirFoldersName) {
  WriteModel("picture.safetensors", PictureCard(), picture_values_);
  WritePicture("pictures/train/bright/0.png", 150);
  WritePicture("pictures/train/bright/1.png", 160);
  WritePicture("pictures/train/dark/0.png", 90);
  WritePicture("pictures/train/dark/1.png", 110);
  const auto evaluate = [&](const std::string& data) {
    std::vector<std::string> words = {"evaluate", root_ / "picture.safetensors"};
    if (!data.empty()) {
      words.push_back(root_ / data);
    }
    return Run(words);
  };
  ASSERT_EQ(evaluate(""), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("50.00 %, 1 of 2 samples")) << "the last of each class are tests";
  WritePicture("pictures/val/dark/5.png", 40);
  ASSERT_EQ(evaluate(""), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("100.00 %, 1 of 1 sample"));
  ASSERT_EQ(evaluate("pictures/train"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("75.00 %, 3 of 4 samples")) << "a folder of classes";
  EXPECT_EQ(evaluate("pictures/train/dark"), 1);
  EXPECT_THAT(
      err_, HasSubstr("has no labels, which are needed to evaluate; they are the names of"));
  EXPECT_EQ(evaluate("pictures/train/dark/0.png"), 1);
  EXPECT_THAT(err_, HasSubstr("name a folder that has folders of classes"));
  WritePicture("pictures/val/night/5.png", 40);
  EXPECT_EQ(evaluate(""), 1);
  EXPECT_THAT(err_, HasSubstr("\"night\" is none of the model's classes, which are bright, dark"));
}

TEST_F(EvaluateTest, AnotherPartThanTheTestsCanBeNamed) {
  WriteModel("table.safetensors", TableCard(), table_values_);
  WriteFile("data/test.csv", "a,b,kind\n1,0,cat\n");
  WriteFile("data/val.csv", "a,b,kind\n1,0,cat\n0,0,emu\n1,0,cat\n");
  const auto evaluate = [&](const std::string& model, const std::string& part) {
    return Run({"evaluate", root_ / model, "--part", part});
  };
  ASSERT_EQ(evaluate("table.safetensors", "val"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("2 of 3 samples"));
  worker::ModelCard shared = TableCard();
  shared.data.validation_share = 0.2F;
  WriteModel("shared.safetensors", shared, table_values_);
  WriteFile("data/train.csv", "a,b,kind\n1,0,cat\n");
  ASSERT_EQ(evaluate("shared.safetensors", "train"), 0) << err_;
  EXPECT_THAT(err_, HasSubstr("that training held back by data.validation_share"));
  ASSERT_EQ(evaluate("table.safetensors", "test"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("1 of 1 sample"));
  EXPECT_EQ(evaluate("table.safetensors", "dev"), 1);
  EXPECT_THAT(err_, HasSubstr("has no dev*.csv"));
  EXPECT_EQ(evaluate("table.safetensors", "../data"), 1);
  EXPECT_THAT(err_, HasSubstr("\"../data\" is no part of data; allowed: "));
  EXPECT_EQ(
      Run({"evaluate", root_ / "table.safetensors", root_ / "data/val.csv", "--part", "val"}), 1);
  EXPECT_THAT(err_, HasSubstr("is a file, and the part \"val\" is asked for"));

  worker::ModelCard card = TextCard();
  WriteModel("text.safetensors", card, TextValues());
  WriteFile("text/val.txt", "abcdabcdabcda");
  WriteFile("text/a.txt", std::string(60, 'z'));
  ASSERT_EQ(Run({"evaluate", root_ / "text.safetensors", root_ / "text", "--part", "val"}), 0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("3 of 3 samples"));
}

TEST_F(EvaluateTest, APartOfTextsNeedsNoOtherTexts) {
  WriteModel("text.safetensors", TextCard(), TextValues());
  const auto evaluate = [&](const std::string& part) {
    return Run({"evaluate", root_ / "text.safetensors", root_ / "text", "--part", part});
  };
  WriteFile("text/val.txt", "abcdabcdabcda");
  ASSERT_EQ(evaluate("val"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("3 of 3 samples"));
  std::filesystem::create_directories(root_ / "text/dev");
  WriteFile("text/dev/one.txt", "abcdabcd");
  WriteFile("text/dev/two.txt", "a");
  ASSERT_EQ(evaluate("dev"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("2 of 2 samples"));
  EXPECT_EQ(evaluate("train"), 1);
  EXPECT_THAT(err_, HasSubstr("texts have no part \"train\""));
  EXPECT_EQ(evaluate("eval"), 1);
  EXPECT_THAT(err_, HasSubstr("text has no part \"eval\": no eval.txt"));
  EXPECT_THAT(err_, Not(HasSubstr("data.validation")));
  WriteFile("text/tiny.txt", "abc");
  EXPECT_EQ(evaluate("tiny"), 1);
  EXPECT_THAT(err_, HasSubstr("less than the 3 tokens that the text of the part \"tiny\" has"));
  WriteFile("text/dev.txt", "abcdabcda");
  EXPECT_EQ(evaluate("dev"), 1);
  EXPECT_THAT(err_, HasSubstr("the part is \"dev\", and there are "));
}

TEST_F(EvaluateTest, TheTestsOfAJobWithAFolderForValidationAreOthers) {
  worker::ModelCard card = PictureCard();
  card.data.validation = "val";
  WriteModel("picture.safetensors", card, picture_values_);
  for (const std::string name : {"bright", "dark"}) {
    WritePicture("pictures/train/" + name + "/0.png", 150);
    WritePicture("pictures/train/" + name + "/1.png", 160);
  }
  WritePicture("pictures/val/dark/5.png", 40);
  ASSERT_EQ(Run({"evaluate", root_ / "picture.safetensors"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("1 of 2 samples")) << "the last of each class, as the run had them";
  ASSERT_EQ(Run({"evaluate", root_ / "picture.safetensors", "--part", "val"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("1 of 1 sample"));
  ASSERT_EQ(Run({"evaluate", root_ / "picture.safetensors", "--part", "train"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("2 of 4 samples"));
  EXPECT_EQ(Run({"evaluate", root_ / "picture.safetensors", "--part", "dev"}), 1);
  EXPECT_THAT(err_, HasSubstr("has no folder \"dev\""));
}

}  // namespace
}  // namespace ps::psctl
