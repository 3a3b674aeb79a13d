#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "tests/psctl/models/model_fixture.h"

namespace ps::psctl {
namespace {

using testing::HasSubstr;

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

TEST_F(EvaluateTest, ADeviceThatIsNotThereIsSaid) {
  WriteModel("table.safetensors", TableCard(), table_values_);
  WriteFile("data/test.csv", "kind,a,b\ncat,1,0\n");
  EXPECT_EQ(Run({"evaluate", root_ / "table.safetensors", "--device", "abacus"}), 1);
  EXPECT_THAT(err_, HasSubstr("abacus"));
  EXPECT_EQ(Run({"evaluate", root_ / "table.safetensors", "--device", "auto"}), 0) << err_;
}

}  // namespace
}  // namespace ps::psctl
