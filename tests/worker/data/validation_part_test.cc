// A part of the data that is called so and that epochs are measured on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/base/png_bytes.h"
#include "tests/worker/data/data_files.h"
#include "worker/data/dataset.h"

namespace ps::worker::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// float32 rows of one feature, or whole labels, as numpy has them.
template <typename T>
Bytes Column(std::string_view type, const std::vector<T>& values) {
  const std::string header = "{'descr': '" + std::string(type) +
                             "', 'fortran_order': False, 'shape': (" +
                             std::to_string(values.size()) + ",), }   \n";
  Bytes bytes = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<uint8_t>(header.size()), 0};
  bytes.insert(bytes.end(), header.begin(), header.end());
  const size_t begin = bytes.size();
  bytes.resize(begin + values.size() * sizeof(T));
  std::memcpy(bytes.data() + begin, values.data(), values.size() * sizeof(T));
  return bytes;
}

class ValidationPartTest : public testing::Test {
 protected:
  ValidationPartTest() {
    config_.directory = folder_.path();
    config_.cache = "off";
  }

  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = std::filesystem::path(folder_.path()) / name;
    std::filesystem::create_directories(path.parent_path());
    folder_.Write(name, BytesOf(text));
  }

  void Remove(const std::string& name) {
    std::filesystem::remove_all(std::filesystem::path(folder_.path()) / name);
  }

  void WritePicture(const std::string& name, char grey) {
    Write(name, PngOf(2, 2, std::string(4, grey)));
  }

  void WritePictures() {
    config_.format = proto::DatasetFormat::kPictures;
    config_.picture.channels = 1;
    for (const std::string name : {"a", "b"}) {
      WritePicture("train/" + name + "/0.png", 10);
      WritePicture("train/" + name + "/1.png", 20);
      WritePicture("test/" + name + "/0.png", 70);
    }
    WritePicture("val/b/5.png", 100);
    WritePicture("val/a/7.png", 90);
    WritePicture("val/b/6.png", 110);
  }

  void WriteTables() {
    config_.format = proto::DatasetFormat::kCsv;
    Write("train.csv", "x,kind\n1,cat\n2,dog\n3,cat\n4,cat\n");
    Write("test.csv", "x,kind\n5,dog\n");
    Write("val-1.csv", "x,kind\n6,dog\n7,cat\n");
    Write("val-2.csv", "x,kind\n8,dog\n");
  }

  void WriteArrays() {
    config_.format = proto::DatasetFormat::kNpy;
    folder_.Write("train-inputs.npy", Column<float>("<f4", {1, 2, 3, 4}));
    folder_.Write("train-labels.npy", Column<int64_t>("<i8", {0, 1, 0, 1}));
    folder_.Write("test-inputs.npy", Column<float>("<f4", {5}));
    folder_.Write("test-labels.npy", Column<int64_t>("<i8", {1}));
    folder_.Write("val-inputs-0.npy", Column<float>("<f4", {6, 7}));
    folder_.Write("val-labels-0.npy", Column<int64_t>("<i8", {1, 0}));
    folder_.Write("val-inputs-1.npy", Column<float>("<f4", {8}));
    folder_.Write("val-labels-1.npy", Column<int64_t>("<i8", {1}));
  }

  void WriteTexts() {
    config_.format = proto::DatasetFormat::kText;
    config_.context = 4;
    config_.test_share = 0.25F;
    Write("a.txt", "abcdefghijklmnopqrst");  // 3 samples for training, and one for tests
    Write("val.txt", "ABCDEFGHI");
  }

  Dataset Load() const {
    Result<Dataset> dataset = Dataset::Load(config_);
    PS_CHECK(dataset.ok()) << dataset.status();
    EXPECT_EQ(*Dataset::Inspect(config_), dataset->info());
    if (!config_.validation.empty()) {
      EXPECT_EQ(*Dataset::InspectKnown(config_, dataset->fingerprint()), dataset->info());
    }
    EXPECT_TRUE(dataset->CheckAll().ok());
    return std::move(dataset).value();
  }

  std::string Error(StatusCode code = StatusCode::kCorruption) const {
    const Status status = Dataset::Load(config_).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_EQ(Dataset::Inspect(config_).status().ToString(), status.ToString());
    return std::string(status.message());
  }

  struct Sample {
    float first;  // of its values
    uint32_t label;

    friend bool operator==(const Sample&, const Sample&) = default;
  };

  /// Those that training does not see, from `begin` on.
  static std::vector<Sample> Held(const Dataset& dataset, uint64_t begin) {
    std::vector<Sample> all;
    const uint64_t end = dataset.info().test_count + dataset.info().validation_count;
    for (uint64_t i = begin; i < end; ++i) {
      std::vector<float> inputs(static_cast<size_t>(dataset.info().shape.element_count()));
      std::vector<uint32_t> labels(static_cast<size_t>(dataset.info().labels));
      PS_CHECK(dataset.FetchTest({i, i + 1}, {inputs, labels}).ok()) << "fetch";
      all.push_back({inputs.front(), labels.front()});
    }
    return all;
  }

  static std::vector<Sample> Validation(const Dataset& dataset) {
    return Held(dataset, dataset.info().test_count);
  }

  /// What is for validation is read, is nothing of the rest, and is in the fingerprint.
  void ExpectApart(const std::string& changed, const Bytes& bytes) {
    const Dataset with = Load();
    config_.validation.clear();
    const Dataset without = Load();
    EXPECT_EQ(without.info().validation_count, 0U);
    EXPECT_EQ(with.info().train_count, without.info().train_count);
    EXPECT_EQ(with.info().test_count, without.info().test_count);
    EXPECT_EQ(Held(without, 0).front(), Held(with, 0).front());
    EXPECT_EQ(with.normals(), without.normals());
    EXPECT_EQ(with.fingerprint().train_images_crc, without.fingerprint().train_images_crc);
    EXPECT_NE(with.fingerprint(), without.fingerprint());
    config_.validation = "val";
    folder_.Write(changed, bytes);
    EXPECT_NE(Load().fingerprint(), with.fingerprint()) << "other samples";
  }

  DataFolder folder_;
  proto::DataConfig config_;
};

TEST_F(ValidationPartTest, OfPicturesItIsAFolderOfTheSameClasses) {
  WritePictures();
  config_.validation = "val";
  config_.augment = {.crop = 1, .flip = true};
  const Dataset dataset = Load();
  EXPECT_EQ(dataset.info().train_count, 4U);
  EXPECT_EQ(dataset.info().test_count, 2U);
  EXPECT_EQ(dataset.info().validation_count, 3U);
  EXPECT_THAT(dataset.info().left_out, IsEmpty());
  ASSERT_EQ(dataset.normals().size(), 1U);
  EXPECT_EQ(dataset.normals()[0].mean, 15) << "of training alone";
  const auto value = [&](int grey) {
    return dataset.normals()[0].Values()[static_cast<size_t>(grey)];
  };
  EXPECT_THAT(
      Validation(dataset),
      ElementsAre(Sample{value(90), 0}, Sample{value(100), 1}, Sample{value(110), 1}));
  config_.augment = {};
  ExpectApart("val/b/5.png", BytesOf(PngOf(2, 2, std::string(4, 101))));
  config_.train_samples = 2;
  config_.test_samples = 1;
  EXPECT_EQ(Load().info().validation_count, 3U) << "the limits are for the others";
}

TEST_F(ValidationPartTest, BesideItOnlyTestIsForTests) {
  WritePictures();
  config_.validation = "val";
  Remove("test");
  WritePicture("validation/a/0.png", 1);
  const Dataset dataset = Load();
  EXPECT_EQ(dataset.info().test_count, 2U) << "the last of each class in train";
  EXPECT_EQ(dataset.info().train_count, 2U);
  EXPECT_EQ(dataset.info().validation_count, 3U);
  EXPECT_THAT(dataset.info().left_out, ElementsAre("validation/"));
  WritePicture("test/9.png", 1);
  EXPECT_EQ(Load().info().test_count, 2U) << "nobody has labelled those in test";
  EXPECT_THAT(Load().info().left_out, ElementsAre("test/", "validation/"));
}

TEST_F(ValidationPartTest, PicturesThatCannotBeAreAnError) {
  WritePictures();
  config_.validation = "dev";
  EXPECT_THAT(
      Error(StatusCode::kNotFound),
      AllOf(
          HasSubstr("data.validation is \"dev\", and data.directory"),
          HasSubstr("has no folder dev; the pictures that epochs are measured on are in")));
  Write("dev/a/notes.md", "none");
  EXPECT_THAT(
      Error(StatusCode::kInvalidArgument), HasSubstr("/dev has no pictures in folders of classes"));
  config_.validation = "val";
  WritePicture("val/zebra/1.png", 1);
  EXPECT_THAT(
      Error(StatusCode::kInvalidArgument),
      HasSubstr("val/zebra is a class that training lacks; it has a, b"));
}

TEST_F(ValidationPartTest, OfTablesItIsFilesThatAreCalledSo) {
  WriteTables();
  config_.validation = "val";
  const Dataset dataset = Load();
  EXPECT_EQ(dataset.info().train_count, 4U);
  EXPECT_EQ(dataset.info().test_count, 1U);
  EXPECT_THAT(Validation(dataset), ElementsAre(Sample{6, 1}, Sample{7, 0}, Sample{8, 1}));
  ExpectApart("val-2.csv", BytesOf("x,kind\n9,dog\n"));
  Write("val-2.csv", "x,kind\n8,dog\n9,cow\n");
  EXPECT_THAT(Error(), HasSubstr("val-2.csv: line 3: a label that no training row has"));
  Write("val-2.csv", "y,kind\n8,dog\n");
  EXPECT_THAT(Error(), HasSubstr("val-2.csv: line 1: "));
  config_.validation = "dev";
  EXPECT_THAT(
      Error(StatusCode::kNotFound),
      AllOf(
          HasSubstr("data.validation is \"dev\", and data.directory"),
          HasSubstr("has no dev*.csv and no dev*.csv.gz")));
}

TEST_F(ValidationPartTest, NumbersAreMeasuredOnItAsTheyAre) {
  config_.format = proto::DatasetFormat::kTsv;
  config_.validation = "val";
  Write("train.tsv", "x\ty\n1\t2\n3\t6\n");
  Write("test.tsv", "x\ty\n5\t10\n");
  Write("val.tsv", "x\ty\n7\t0.5\n");
  const Result<Dataset> dataset = Dataset::Load(config_, nullptr, proto::Task::kNumbers);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_THAT(dataset->target_means(), ElementsAre(4));
  EXPECT_EQ(Validation(*dataset).front(), (Sample{7, 0x3f000000})) << "0.5 as bits";
}

TEST_F(ValidationPartTest, OfArraysItIsInputsWithTheirLabels) {
  WriteArrays();
  config_.validation = "val";
  const Dataset dataset = Load();
  EXPECT_EQ(dataset.info().train_count, 4U);
  EXPECT_THAT(Validation(dataset), ElementsAre(Sample{6, 1}, Sample{7, 0}, Sample{8, 1}));
  ExpectApart("val-labels-1.npy", Column<int64_t>("<i8", {0}));
  folder_.Write("val-labels-1.npy", Column<int64_t>("<i8", {2}));
  EXPECT_THAT(
      Error(),
      AllOf(HasSubstr("val-labels-1.npy: byte "), HasSubstr("label 2 is out of range; allowed")));
  folder_.Write("val-inputs-1.npy", Column<uint8_t>("|u1", {8}));
  EXPECT_THAT(Error(), HasSubstr("val-inputs-1.npy: byte 0: its type (uint8)"));
  Remove("val-labels-1.npy");
  EXPECT_THAT(Error(StatusCode::kNotFound), HasSubstr("no val-labels-1.npy beside"));
  config_.validation = "dev";
  EXPECT_THAT(
      Error(StatusCode::kNotFound),
      HasSubstr("has no dev-inputs*.npy, which data.validation \"dev\" asks for"));
}

TEST_F(ValidationPartTest, OfTextsItIsAFileOrAFolder) {
  WriteTexts();
  config_.validation = "val";
  const Dataset dataset = Load();
  EXPECT_EQ(dataset.info().train_count, 3U);
  EXPECT_EQ(dataset.info().test_count, 1U);
  EXPECT_THAT(Validation(dataset), ElementsAre(Sample{'A', 'B'}, Sample{'E', 'F'}));
  EXPECT_EQ(Held(dataset, 0).front(), (Sample{'p', 'q'}));
  folder_.Write("val.txt", BytesOf("ABCDEFGHX"));
  EXPECT_NE(Load().fingerprint(), dataset.fingerprint());
  Write("val/1.txt", "JKLMN");
  EXPECT_THAT(
      Error(StatusCode::kInvalidArgument),
      AllOf(HasSubstr("and there are "), HasSubstr("val.txt and a folder ")));
  Remove("val.txt");
  EXPECT_THAT(Validation(Load()), ElementsAre(Sample{'J', 'K'}));
  config_.mask = 0.5F;
  EXPECT_EQ(Load().info().validation_count, 1U);
  config_.mask = 0;
  Write("val/1.txt", "JKLM");
  EXPECT_THAT(
      Error(StatusCode::kInvalidArgument),
      HasSubstr("less than the 4 tokens that the text of data.validation \"val\" has"));
  Remove("val");
  EXPECT_THAT(
      Error(StatusCode::kNotFound), HasSubstr("has no val.txt and no folder val with texts"));
  folder_.WritePacked("val.txt.gz", BytesOf("ABCDEFGHI"));
  EXPECT_EQ(Load().fingerprint(), dataset.fingerprint()) << "packed or not";
  Remove("a.txt");
  EXPECT_THAT(
      Error(StatusCode::kNotFound),
      HasSubstr("no .txt and no .txt.gz beside those of data.validation; put a text there"));
}

TEST_F(ValidationPartTest, OneThatNobodyUsesIsKnown) {
  const auto unused = [&] { return Load().info().unused_validation; };
  using Unused = UnusedValidation;
  WritePictures();
  EXPECT_EQ(unused(), (Unused{"val", "val/"}));
  EXPECT_THAT(Load().info().left_out, IsEmpty()) << "it is told otherwise";
  config_.validation = "val";
  EXPECT_EQ(unused(), Unused());
  config_.validation.clear();
  Remove("test");
  EXPECT_EQ(unused(), Unused()) << "its pictures are the tests";
  WriteTables();
  EXPECT_EQ(unused(), (Unused{"val", "val-1.csv"}));
  Remove("val-1.csv");
  Remove("val-2.csv");
  Write("values.csv", "1,2\n");
  EXPECT_EQ(unused(), Unused()) << "a name that only begins so";
  Write("validation.csv", "1,2\n");
  EXPECT_EQ(unused(), (Unused{"validation", "validation.csv"}));
  WriteArrays();
  EXPECT_EQ(unused(), (Unused{"val", "val-inputs-0.npy"}));
  config_.vocabulary = 0;
  WriteTexts();
  EXPECT_EQ(unused(), (Unused{"val", "val.txt", true}));
  EXPECT_GT(Load().info().train_count, 3U) << "it is trained on";
  Remove("val.txt");
  Write("dev/1.txt", "a text");
  EXPECT_EQ(unused(), (Unused{"dev", "dev/"}));
}

}  // namespace
}  // namespace ps::worker::test
