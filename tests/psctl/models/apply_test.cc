#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <limits>
#include <string>

#include "tests/psctl/models/model_fixture.h"

namespace ps::psctl {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ApplyTest : public ModelFixture {
 protected:
  void SetUp() override {
    ModelFixture::SetUp();
    std::filesystem::create_directories(root_ / "data");
    WriteModel("table.safetensors", TableCard(), table_values_);
  }

  int Apply(const std::string& model, const std::string& data) {
    return Run({"apply", root_ / model, root_ / data, "-o", "-"});
  }
};

TEST_F(ApplyTest, EachRowHasItsClassAndTheProbabilityOfAll) {
  WriteFile("new.csv", "b,a\n0,0.6931472\n2,1\n");  // the columns in another order, no labels
  ASSERT_EQ(Apply("table.safetensors", "new.csv"), 0) << err_;
  EXPECT_THAT(
      out_,
      StartsWith("sample,class,probability,p_cat,\"p_dog, wet\",p_emu\n"
                 "0,cat,0.5,0.5,0.25,0.25\n"
                 "1,\"dog, wet\",0.665241,"));
  EXPECT_THAT(err_, HasSubstr("2 samples in "));
}

TEST_F(ApplyTest, TheLikeliestComeFirstAndAFileAppearsAsAWhole) {
  WriteFile("data/test.csv", "a,b,kind\n1,2,cat\n-1,-2,bird\n");  // labels are not looked at
  const std::string file = root_ / "predictions.csv";
  const std::vector<std::string> command = {
      "apply", root_ / "table.safetensors", root_ / "data", "-o", file, "--top", "2"};
  ASSERT_EQ(Run(command), 0) << err_;
  const auto text = ReadFile(file);
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(
      *text,
      StartsWith("sample,class_1,probability_1,class_2,probability_2\n"
                 "0,\"dog, wet\",0.665241,cat,0.2447285\n"
                 "1,emu,0.665241,cat,0.2447285\n"));
  EXPECT_FALSE(std::filesystem::exists(file + ".part"));
  EXPECT_EQ(out_, "");

  EXPECT_EQ(
      Run({"apply", root_ / "table.safetensors", root_ / "data", "-o", file, "--top", "4"}), 1);
  EXPECT_THAT(err_, HasSubstr("allowed is 1 to 3"));
}

TEST_F(ApplyTest, ALinkStaysOneAndWhatIsNoFileIsLeftAlone) {
  WriteFile("data/test.csv", "a,b\n1,2\n");
  WriteFile("real.csv", "");
  std::filesystem::create_symlink("real.csv", root_ / "link.csv");
  const auto apply_to = [&](const std::string& file) {
    return Run({"apply", root_ / "table.safetensors", root_ / "data", "-o", root_ / file});
  };
  ASSERT_EQ(apply_to("link.csv"), 0) << err_;
  EXPECT_TRUE(std::filesystem::is_symlink(root_ / "link.csv"));
  EXPECT_THAT(ReadFile(root_ / "real.csv").value(), StartsWith("sample,class,"));
  const std::string pipe = root_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(apply_to("pipe"), 1);
  EXPECT_THAT(err_, HasSubstr("pipe is no regular file"));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST_F(ApplyTest, DataOfAnotherShapeAreRefused) {
  const auto said = [&](const std::string& rows) {
    WriteFile("new.csv", rows);
    EXPECT_EQ(Apply("table.safetensors", "new.csv"), 1) << rows;
    return err_;
  };
  EXPECT_THAT(said("a\n1\n"), HasSubstr("no column \"b\", which the model takes"));
  EXPECT_THAT(said("a,b,c\n1,2,3\n"), HasSubstr("line 1: a column \"c\" that the model has not"));
  EXPECT_THAT(said("a,b,a\n1,2,3\n"), HasSubstr("takes once"));
  EXPECT_THAT(said("a,b\n1\n"), HasSubstr("line 2: 1 columns; the first line has 2"));
  EXPECT_THAT(said("a,b\n1,x\n"), HasSubstr("line 2: column 1 is \"x\", which is no finite"));
  EXPECT_THAT(said("a,b\n1,1e39\n"), HasSubstr("no finite number"));
  EXPECT_THAT(said("a,b\n"), HasSubstr("has no rows"));
  EXPECT_EQ(Apply("table.safetensors", "nowhere.csv"), 1);
  EXPECT_THAT(err_, HasSubstr("nowhere.csv is not there"));
}

TEST_F(ApplyTest, NumbersAndLabelsAreColumnsOfTheirNames) {
  worker::ModelCard numbers = TargetsCard(proto::LayerKind::kHuber);
  WriteModel("numbers.safetensors", numbers, targets_values_);
  WriteFile("new.csv", "b,a\n0.1,-2e6\n2,1\n");
  ASSERT_EQ(Apply("numbers.safetensors", "new.csv"), 0) << err_;
  EXPECT_EQ(out_, "sample,price,days\n0,-2000000,0.1\n1,1,2\n");
  WriteFile("new.csv", "days,b,a,price\n?,2,1,\n");  // labels are not looked at
  ASSERT_EQ(Apply("numbers.safetensors", "new.csv"), 0) << err_;
  EXPECT_EQ(out_, "sample,price,days\n0,1,2\n");
  EXPECT_EQ(
      Run({"apply", root_ / "numbers.safetensors", root_ / "new.csv", "-o", "-", "--top", "1"}), 1);
  EXPECT_THAT(err_, HasSubstr("--top 1 is for classes, and the model gives numbers"));
  WriteModel("labels.safetensors", TargetsCard(proto::LayerKind::kBce), targets_values_);
  WriteFile("new.csv", "a,b\n1,-1\n0,-1000\n");
  ASSERT_EQ(Apply("labels.safetensors", "new.csv"), 0) << err_;
  EXPECT_EQ(out_, "sample,p_garden,p_garage\n0,0.7310586,0.2689414\n1,0.5,0\n");
  WriteFile("new.csv", "a,b\n3e38,1\n");
  std::vector<float> beyond = targets_values_;
  beyond[0] = 100;
  WriteModel("numbers.safetensors", numbers, beyond);
  EXPECT_EQ(Apply("numbers.safetensors", "new.csv"), 1);
  EXPECT_THAT(err_, HasSubstr("values for sample 0 that are no numbers"));
}

TEST_F(ApplyTest, WithoutAHeaderLabelsAreWhereTheJobHadThem) {
  worker::ModelCard card = TargetsCard(proto::LayerKind::kMse);
  card.data.header = false;
  card.data.labels = {"2", "0"};
  card.columns.clear();
  card.label_columns.clear();
  WriteModel("numbers.safetensors", card, targets_values_);
  WriteFile("new.csv", "3,4\n");
  ASSERT_EQ(Apply("numbers.safetensors", "new.csv"), 0) << err_;
  EXPECT_EQ(out_, "sample,value_0,value_1\n0,3,4\n");
  WriteFile("new.csv", "20,3,10,4\n");
  ASSERT_EQ(Apply("numbers.safetensors", "new.csv"), 0) << err_;
  EXPECT_EQ(out_, "sample,value_0,value_1\n0,3,4\n");
  ASSERT_EQ(Run({"evaluate", root_ / "numbers.safetensors", root_ / "new.csv"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("mae 11.5")) << "errors of 7 and 16";
  WriteFile("new.csv", "1,3,4\n");
  EXPECT_EQ(Apply("numbers.safetensors", "new.csv"), 1);
  EXPECT_THAT(err_, HasSubstr("3 columns; the model takes 2, with 2 more for labels"));
}

TEST_F(ApplyTest, PicturesWithoutLabelsAreNormalisedAsInTraining) {
  worker::ModelCard card;
  card.layers = {LayerOf(proto::LayerKind::kFlatten), LayerOf(proto::LayerKind::kLinear, 2)};
  card.data.format = proto::DatasetFormat::kIdx;
  card.data.directory = root_ / "data";
  card.data.pad = 1;
  card.input = {1, 3, 3};
  card.classes = 2;
  card.normals = {{100, 50}};
  std::vector<float> values(20);
  values[4] = 1;  // the pixel in the middle to output 0
  WriteModel("picture.safetensors", card, values);
  WriteFile("images", IdxBytes(0x803, {2, 1, 1}, "\x64\x96"));  // 100 is 0, 150 is 1
  ASSERT_EQ(Apply("picture.safetensors", "images"), 0) << err_;
  EXPECT_EQ(
      out_,
      "sample,class,probability,p_0,p_1\n0,0,0.5,0.5,0.5\n1,0,0.7310586,0.7310586,0.2689414\n");

  WriteFile("images", IdxBytes(0x803, {2, 1, 1}, "\x64\x96 "));
  EXPECT_EQ(Apply("picture.safetensors", "images"), 1);
  EXPECT_THAT(err_, HasSubstr("more bytes"));
  WriteFile("images", IdxBytes(0x803, {2, 2, 2}, "12345678"));
  EXPECT_EQ(Apply("picture.safetensors", "images"), 1);
  EXPECT_THAT(err_, HasSubstr("samples of 1x4x4; the model takes 1x3x3"));
}

TEST_F(ApplyTest, PicturesInFilesHaveALineEachWithTheirNames) {
  WriteModel("picture.safetensors", PictureCard(), picture_values_);
  WritePicture("new/b.png", 150);
  WritePicture("new/a, old/c.PNG", 100);
  WriteFile("new/notes.txt", "left out");
  ASSERT_EQ(Apply("picture.safetensors", "new"), 0) << err_;
  EXPECT_EQ(
      out_,
      "file,class,probability,p_bright,p_dark\n\"a, old/c.PNG\",bright,0.5,0.5,0.5\n"
      "b.png,bright,0.7310586,0.7310586,0.2689414\n");
  ASSERT_EQ(Apply("picture.safetensors", "new/b.png"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("\nb.png,bright,0.7310586,"));
  WritePicture("new/test/dark/z.png", 50);
  ASSERT_EQ(Apply("picture.safetensors", "new"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("\ntest/dark/z.png,dark,0.7310586,0.2689414,0.7310586\n"));
  EXPECT_THAT(out_, Not(HasSubstr("b.png"))) << "laid out as for training, so its tests count";

  WriteFile("new/test/bad.jpg", "no picture");
  EXPECT_EQ(Apply("picture.safetensors", "new"), 1);
  EXPECT_THAT(err_, HasSubstr("new/test/bad.jpg: neither a PNG nor a JPEG"));
  std::filesystem::create_directories(root_ / "empty");
  EXPECT_EQ(Apply("picture.safetensors", "empty"), 1);
  EXPECT_THAT(err_, HasSubstr("empty has no pictures, which are files *.png, *.jpg and *.jpeg"));
  worker::ModelCard card = PictureCard();
  card.normals.clear();
  WriteModel("picture.safetensors", card, picture_values_);
  EXPECT_EQ(Apply("picture.safetensors", "new"), 1);
  EXPECT_THAT(err_, HasSubstr("a mean for each channel"));
}

TEST_F(ApplyTest, ArraysNeedTheElementsThatTheModelHasLearnt) {
  worker::ModelCard card = TableCard();
  card.data.format = proto::DatasetFormat::kNpy;
  card.class_names.clear();
  card.columns.clear();
  card.label_columns.clear();
  WriteModel("array.safetensors", card, table_values_);
  WriteFile("in.npy", NpyBytes<float>("<f4", "1, 2", {0.6931472F, 0}));
  ASSERT_EQ(Apply("array.safetensors", "in.npy"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("0,0,0.5,0.5,0.25,0.25\n"));
  WriteFile("in.npy", NpyBytes<float>("<f4", "1, 3", {1, 2, 3}));
  EXPECT_EQ(Apply("array.safetensors", "in.npy"), 1);
  EXPECT_THAT(err_, HasSubstr("samples of 3; the model takes 2"));
  WriteFile("in.npy", NpyBytes<uint8_t>("|u1", "1, 2", {1, 2}));
  EXPECT_EQ(Apply("array.safetensors", "in.npy"), 1);
  EXPECT_THAT(err_, HasSubstr("elements of uint8; the model takes float32"));
  WriteFile("in.npy", NpyBytes<float>("<f4", "1, 2", {1, std::numeric_limits<float>::infinity()}));
  EXPECT_EQ(Apply("array.safetensors", "in.npy"), 1);
  EXPECT_THAT(err_, HasSubstr("no finite number"));
}

TEST_F(ApplyTest, ATextHasTheTokenBehindEachSample) {
  WriteModel("text.safetensors", TextCard(), TextValues());
  WriteFile("a.txt", "abcdxxxaabc\nignored: less than a sample");
  ASSERT_EQ(Apply("text.safetensors", "a.txt"), 0) << err_;
  EXPECT_THAT(
      out_,
      StartsWith("sample,token_1,probability_1\n"
                 "0,a,0.99999"));
  EXPECT_THAT(out_, HasSubstr("\n1,b,"));
  WriteFile("a.txt", "abc");
  EXPECT_EQ(Apply("text.safetensors", "a.txt"), 1);
  EXPECT_THAT(err_, HasSubstr("3 tokens; the model takes samples of 4"));
  WriteFile(
      "a.txt",
      "ab\xf0"
      "c");
  EXPECT_EQ(Apply("text.safetensors", "a.txt"), 1);
  EXPECT_THAT(err_, HasSubstr("byte 2: 240 is none of the 128 tokens"));
}

TEST_F(ApplyTest, AModelThatDoesNotSayItsLayersTakesThemFromAJob) {
  const std::string file = root_ / "table.safetensors";
  const auto reader = checkpoint::SafetensorsReader::Open(file);
  ASSERT_TRUE(reader.ok());
  const std::vector<TensorSpec> tensors = {{"0.linear.weight", {3, 2}}, {"0.linear.bias", {3}}};
  auto writer = checkpoint::SafetensorsWriter::Create(
      root_ / "old.safetensors", tensors, checkpoint::ElementType::kF32, {{"format", "pt"}});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->Write(0, 0, std::span(table_values_).first(6)).ok());
  ASSERT_TRUE(writer->Write(1, 0, std::span(table_values_).last(3)).ok() && writer->Finish().ok());
  WriteFile("new.csv", "a,b\n0,1\n");
  EXPECT_EQ(Apply("old.safetensors", "new.csv"), 1);
  EXPECT_THAT(err_, HasSubstr("--job JOB.json"));

  WriteFile("data/train.csv", "a,b,kind\n1,2,cat\n1,2,emu\n1,2,dog\n");
  WriteFile("data/test.csv", "a,b,kind\n1,2,cat\n");
  const auto job = [&](const std::string& out) {
    return R"({"name": "old", "model": {"layers": [{"kind": "linear", "out": )" + out +
           R"(}]}, "data": {"format": "csv", "directory": ")" + (root_ / "data") +
           R"("}, "workers": [{}]})";
  };
  WriteFile("mine.json", job("3"));
  const std::vector<std::string> command = {
      "apply",
      root_ / "old.safetensors",
      root_ / "new.csv",
      "-o",
      "-",
      "--job",
      root_ / "mine.json"};
  ASSERT_EQ(Run(command), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("0,dog,"));
  EXPECT_THAT(err_, HasSubstr("mine.json and its data"));
  WriteFile("job.json", job("3"));  // as it lies beside the model of a run
  ASSERT_EQ(Apply("old.safetensors", "new.csv"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("0,dog,"));
  WriteFile("mine.json", job("4"));
  EXPECT_EQ(Run(command), 1);
  EXPECT_THAT(err_, HasSubstr("mine.json:1:"));
}

TEST_F(ApplyTest, AFileThatIsCutOrOfOtherLayersIsRefused) {
  WriteFile("new.csv", "a,b\n0,1\n");
  const auto whole = ReadFile(root_ / "table.safetensors");
  ASSERT_TRUE(whole.ok());
  WriteFile("cut.safetensors", whole->substr(0, whole->size() - 8));
  EXPECT_EQ(Apply("cut.safetensors", "new.csv"), 1);
  EXPECT_THAT(err_, HasSubstr("cut.safetensors"));
  WriteFile("cut.safetensors", whole->substr(0, 100));
  EXPECT_EQ(Apply("cut.safetensors", "new.csv"), 1);

  worker::ModelCard other = TableCard();
  other.layers = {LayerOf(proto::LayerKind::kLinear, 4), LayerOf(proto::LayerKind::kLinear, 3)};
  const std::vector<TensorSpec> tensors = {{"0.linear.weight", {3, 2}}, {"0.linear.bias", {3}}};
  auto writer = checkpoint::SafetensorsWriter::Create(
      root_ / "other.safetensors",
      tensors,
      checkpoint::ElementType::kF32,
      worker::MetadataOf(other));
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->Write(0, 0, std::span(table_values_).first(6)).ok());
  ASSERT_TRUE(writer->Write(1, 0, std::span(table_values_).last(3)).ok() && writer->Finish().ok());
  EXPECT_EQ(Apply("other.safetensors", "new.csv"), 1);
  EXPECT_THAT(err_, HasSubstr("\"0.linear.weight\" has shape [3,2], the model's has [4,2]"));
  EXPECT_EQ(Apply("nowhere.safetensors", "new.csv"), 1);
  EXPECT_THAT(err_, HasSubstr("nowhere.safetensors is not there"));
}

}  // namespace
}  // namespace ps::psctl
