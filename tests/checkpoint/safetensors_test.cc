#include "checkpoint/model/safetensors.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <tuple>

#include "checkpoint/model/tensor_match.h"
#include "ps/base/file.h"
#include "tests/base/temporary_folder.h"

namespace ps::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SafetensorsTest : public ::testing::Test {
 protected:
  SafetensorsTest() { path_ = root_ / "model.safetensors"; }

  /// A writer of the two tensors.
  SafetensorsWriter Create(ElementType type) {
    auto writer = SafetensorsWriter::Create(path_, tensors_, type, {{"steps", "7"}});
    EXPECT_TRUE(writer.ok()) << writer.status();
    return std::move(writer).value();
  }

  void WriteRest(SafetensorsWriter* writer) const {
    const std::vector<float> matrix = {0.5F, -1.25F, 3.0F, 1e-8F, 65504.0F, 1.0009765F};
    ASSERT_TRUE(writer->Write(1, 0, std::vector<float>{42}).ok());
    ASSERT_TRUE(writer->Write(0, 4, std::span(matrix).subspan(4)).ok());
    ASSERT_TRUE(writer->Write(0, 0, std::span(matrix).first(4)).ok());
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_.path())) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  std::vector<float> Read(const SafetensorsReader& reader, std::string_view name) {
    const StoredTensor* const tensor = reader.header().Find(name);
    std::vector<float> values(tensor == nullptr ? 0 : static_cast<size_t>(tensor->element_count));
    EXPECT_TRUE(tensor != nullptr && reader.Read(*tensor, 0, values).ok());
    return values;
  }

  void PutFile(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  TemporaryFolder root_;
  std::string path_;
  const std::vector<TensorSpec> tensors_ = [] {
    TensorSpec matrix;
    matrix.name = "matrix";
    matrix.shape = {2, 3};
    TensorSpec one;
    one.name = "one";
    one.shape = {1};
    return std::vector<TensorSpec>{matrix, one};
  }();
};

TEST_F(SafetensorsTest, WhatIsWrittenInPiecesIsRead) {
  SafetensorsWriter writer = Create(ElementType::kF32);
  WriteRest(&writer);
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_THAT(Files(), ElementsAre("model.safetensors"));
  const auto reader = SafetensorsReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE(MatchTensors(reader->header(), tensors_, TakeRule::kAll).ok());
  EXPECT_EQ(reader->header().metadata.at("steps"), "7");
  EXPECT_THAT(
      Read(*reader, "matrix"), ElementsAre(0.5F, -1.25F, 3.0F, 1e-8F, 65504.0F, 1.0009765F));
  EXPECT_THAT(Read(*reader, "one"), ElementsAre(42));
  std::vector<float> some(2);
  ASSERT_TRUE(reader->Read(*reader->header().Find("matrix"), 1, some).ok());
  EXPECT_THAT(some, ElementsAre(-1.25F, 3.0F));
}

TEST_F(SafetensorsTest, ShorterTypesRoundAndLongerOnesKeepAll) {
  const auto written_as = [&](ElementType type) {
    SafetensorsWriter writer = Create(type);
    WriteRest(&writer);
    EXPECT_TRUE(writer.Finish().ok());
    const auto reader = SafetensorsReader::Open(path_);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader.ok() ? Read(*reader, "matrix") : std::vector<float>();
  };
  EXPECT_THAT(
      written_as(ElementType::kF16),
      ElementsAre(0.5F, -1.25F, 3.0F, 0.0F, 65504.0F, 1.0009765625F));
  EXPECT_EQ(fs::file_size(path_) % 64, 14U) << "7 elements of 2 bytes";
  EXPECT_THAT(
      written_as(ElementType::kBf16),
      ElementsAre(0.5F, -1.25F, 3.0F, testing::FloatNear(1e-8F, 4e-11F), 65536.0F, 1.0F));
  EXPECT_THAT(
      written_as(ElementType::kF64), ElementsAre(0.5F, -1.25F, 3.0F, 1e-8F, 65504.0F, 1.0009765F));
}

TEST_F(SafetensorsTest, LongTensorsAreConvertedInFull) {
  TensorSpec spec;
  spec.name = "long";
  spec.shape = {20'001};
  auto writer = SafetensorsWriter::Create(path_, std::span(&spec, 1), ElementType::kF16, {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::vector<float> values(20'001);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 2048);
  }
  ASSERT_TRUE(writer->Write(0, 0, values).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const auto reader = SafetensorsReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(Read(*reader, "long"), values);
}

TEST_F(SafetensorsTest, AValueThatIsNoneIsNamedWhereItEntersAndLeaves) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  for (const auto& [value, type, what] :
       {std::tuple{kNan, ElementType::kF32, "is NaN"},
        std::tuple{-kInfinite, ElementType::kF64, "is infinite"},
        std::tuple{65520.0F, ElementType::kF16, "too large for its type"},
        std::tuple{3.4e38F, ElementType::kBf16, "too large for its type"}}) {
    SafetensorsWriter writer = Create(type);
    const Status written = writer.Write(0, 2, std::vector<float>{1, value, 2});
    EXPECT_EQ(written.code(), StatusCode::kCorruption);
    EXPECT_THAT(
        std::string(written.message()),
        AllOf(HasSubstr("element 3 of tensor \"matrix\""), HasSubstr(what)));
  }
  // One that another program has written.
  SafetensorsWriter writer = Create(ElementType::kF32);
  WriteRest(&writer);
  ASSERT_TRUE(writer.Finish().ok());
  std::string bytes = *ReadFile(path_);
  std::memcpy(bytes.data() + bytes.size() - 2 * sizeof(float), &kNan, sizeof(float));
  PutFile(bytes);
  const auto reader = SafetensorsReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<float> some(2);
  EXPECT_TRUE(reader->Read(*reader->header().Find("matrix"), 0, some).ok());
  const Status read = reader->Read(*reader->header().Find("matrix"), 4, some);
  EXPECT_EQ(read.code(), StatusCode::kCorruption);
  EXPECT_EQ(read.message(), path_ + ": element 5 of tensor \"matrix\" is NaN");
}

TEST_F(SafetensorsTest, AnUnfinishedFileLeavesNothing) {
  {
    SafetensorsWriter writer = Create(ElementType::kF32);
    ASSERT_TRUE(writer.Write(0, 0, std::vector<float>(5)).ok());
    const Status status = writer.Finish();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr("5 of 6 elements of tensor \"matrix\" were written"));
    EXPECT_FALSE(fs::exists(path_));
  }
  EXPECT_THAT(Files(), ElementsAre());
}

TEST_F(SafetensorsTest, AnOlderFileStaysUntilTheNewOneIsComplete) {
  PutFile("older");
  SafetensorsWriter writer = Create(ElementType::kF32);
  WriteRest(&writer);
  EXPECT_EQ(ReadFile(path_).value(), "older");
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_TRUE(SafetensorsReader::Open(path_).ok());
}

TEST_F(SafetensorsTest, AFolderThatIsNotThereIsNamed) {
  const auto writer =
      SafetensorsWriter::Create(root_ / "no/model", tensors_, ElementType::kF32, {});
  EXPECT_EQ(writer.status().code(), StatusCode::kIo);
  EXPECT_THAT(std::string(writer.status().message()), HasSubstr("/no/model"));
  EXPECT_EQ(SafetensorsReader::Open(path_).status().code(), StatusCode::kNotFound);
}

TEST_F(SafetensorsTest, AFullDiskIsAnError) {
  if (!fs::exists("/dev/full")) {
    GTEST_SKIP() << "no /dev/full here";
  }
  fs::create_symlink("/dev/full", path_ + ".draft");
  const auto writer = SafetensorsWriter::Create(path_, tensors_, ElementType::kF32, {});
  EXPECT_EQ(writer.status().code(), StatusCode::kIo);
  EXPECT_THAT(std::string(writer.status().message()), HasSubstr("No space left"));
}

// Written by the safetensors package 0.8.0: keys in its order, no padding to 64 bytes.
TEST_F(SafetensorsTest, AFileOfTheReferenceImplementationIsRead) {
  constexpr std::string_view kHeader =
      "{\"__metadata__\":{\"k\":\"v\\n\"},"
      "\"d\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[8,16]},"
      "\"a\\\"\xc3\xa9\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[16,20]}}     ";
  constexpr std::string_view kData(
      "\x00\x00\x00\x00\x00\x00\x0a\x40\x00\x00\xc0\x3f\x00\x00\x00\xc0\x00\x38\xff\x7b", 20);
  PutFile(std::string("\xc8\0\0\0\0\0\0\0", 8) + std::string(kHeader) + std::string(kData));
  const auto reader = SafetensorsReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->header().metadata.at("k"), "v\n");
  EXPECT_THAT(Read(*reader, "d"), ElementsAre(3.25F));
  EXPECT_THAT(Read(*reader, "b"), ElementsAre(1.5F, -2.0F));
  EXPECT_THAT(Read(*reader, "a\"\xc3\xa9"), ElementsAre(0.5F, 65504.0F));
}

TEST_F(SafetensorsTest, TheReferenceImplementationReadsWhatIsWritten) {
  // That of the build tree, where scripts/setup.sh has made one.
  const std::string own = "build/venv/bin/python3";
  const std::string python = fs::exists(own) ? own : "python3";
  if (std::system((python + " -c 'import safetensors.numpy' 2> /dev/null").c_str()) != 0) {
    GTEST_SKIP() << python << " has no package safetensors; scripts/setup.sh --tests installs it";
  }
  for (const ElementType type : {ElementType::kF32, ElementType::kF16}) {
    SafetensorsWriter writer = Create(type);
    WriteRest(&writer);
    ASSERT_TRUE(writer.Finish().ok());
    const std::string read = fmt::format(
        "{} -c '"
        "import numpy, safetensors, safetensors.numpy\n"
        "tensors = safetensors.numpy.load_file(\"{}\")\n"
        "matrix = [[0.5, -1.25, 3], [1e-8, 65504, 1.0009765]]\n"
        "assert sorted(tensors) == [\"matrix\", \"one\"]\n"
        "assert (tensors[\"matrix\"] == numpy.array(matrix, \"{}\")).all()\n"
        "assert tensors[\"one\"] == [42]\n"
        "with safetensors.safe_open(\"{}\", \"numpy\") as file:\n"
        "  assert file.metadata()[\"steps\"] == \"7\"\n"
        "'",
        python,
        path_,
        type == ElementType::kF32 ? "float32" : "float16",
        path_);
    EXPECT_EQ(std::system(read.c_str()), 0);
  }
}

TEST_F(SafetensorsTest, TensorsOfAnyTypeLieWhereTheirElementsAreAligned) {
  const std::vector<StoredTensor> tensors = {
      {"mask", ElementType::kBool, {3}, 3},
      {"matrix", ElementType::kF32, {1}, 1},
      {"none", ElementType::kI64, {0}, 0},
      {"half", ElementType::kBf16, {1}, 1},
      {"count", ElementType::kI64, {}, 1}};
  auto writer = SafetensorsWriter::Create(path_, tensors, {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::array<std::byte, 3> mask = {std::byte{1}, std::byte{0}, std::byte{1}};
  const std::array<int64_t, 1> count = {-7};
  const std::array<float, 1> value = {2.5F};
  ASSERT_TRUE(writer->WriteBytes(0, 2, std::span(mask).last(1)).ok());
  ASSERT_TRUE(writer->WriteBytes(0, 0, std::span(mask).first(2)).ok());
  ASSERT_TRUE(writer->Write(1, 0, value).ok());
  ASSERT_TRUE(writer->Write(3, 0, value).ok());
  EXPECT_EQ(writer->Write(4, 0, value).code(), StatusCode::kUnsupported);
  EXPECT_THAT(writer->Finish().ToString(), HasSubstr("elements of tensor \"count\""));
  ASSERT_TRUE(writer->WriteBytes(4, 0, std::as_bytes(std::span(count))).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const auto reader = SafetensorsReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (const StoredTensor& tensor : reader->header().tensors) {
    EXPECT_EQ(tensor.begin % ElementBytes(tensor.type), 0U) << tensor.name;
  }
  std::array<std::byte, 3> mask_read{};
  ASSERT_TRUE(reader->ReadBytes(*reader->header().Find("mask"), 0, mask_read).ok());
  EXPECT_EQ(mask_read, mask);
  std::array<int64_t, 1> count_read{};
  ASSERT_TRUE(
      reader
          ->ReadBytes(
              *reader->header().Find("count"), 0, std::as_writable_bytes(std::span(count_read)))
          .ok());
  EXPECT_EQ(count_read, count);
  EXPECT_THAT(Read(*reader, "matrix"), ElementsAre(2.5F));
  EXPECT_THAT(Read(*reader, "half"), ElementsAre(2.5F));
}

TEST_F(SafetensorsTest, OtherFilesAreRefusedByName) {
  const auto error_of = [&](const std::string& bytes) {
    PutFile(bytes);
    const Status status = SafetensorsReader::Open(path_).status();
    EXPECT_EQ(status.code(), StatusCode::kCorruption);
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    return std::string(status.message());
  };
  EXPECT_THAT(error_of("1234567"), HasSubstr("7 bytes are too few"));
  EXPECT_THAT(error_of(std::string("PK\x03\x04 a zip file")), HasSubstr("no safetensors file"));
  EXPECT_THAT(error_of(std::string("\x02\0\0\0\0\0\0\0{}x", 11)), HasSubstr("1 bytes of data"));
}

TEST_F(SafetensorsTest, AFileThatIsCutAnywhereIsRefused) {
  SafetensorsWriter writer = Create(ElementType::kF32);
  WriteRest(&writer);
  ASSERT_TRUE(writer.Finish().ok());
  const std::string bytes = ReadFile(path_).value();
  for (size_t size = 0; size < bytes.size(); ++size) {
    PutFile(bytes.substr(0, size));
    EXPECT_EQ(SafetensorsReader::Open(path_).status().code(), StatusCode::kCorruption) << size;
  }
}

TEST_F(SafetensorsTest, AFileThatIsCutAfterItWasOpenedIsFound) {
  SafetensorsWriter writer = Create(ElementType::kF32);
  WriteRest(&writer);
  ASSERT_TRUE(writer.Finish().ok());
  const auto reader = SafetensorsReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  fs::resize_file(path_, fs::file_size(path_) - 1);
  std::vector<float> one(1);
  EXPECT_EQ(reader->Read(*reader->header().Find("one"), 0, one).code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace ps::checkpoint
