// Sets of more bytes than are looked at when they are loaded. Their files have holes, so they cost
// no disk.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <limits>

#include "ps/base/crc32c.h"
#include "ps/base/unique_fd.h"
#include "tests/worker/data/data_files.h"
#include "worker/data/data_sum.h"
#include "worker/data/dataset.h"
#include "worker/data/npy/npy_writer.h"

namespace ps::worker::test {
namespace {

using testing::HasSubstr;

constexpr uint64_t kLarge = kReadInFullMax + (uint64_t{1} << 20);

/// Makes a file longer, by zeroes.
void Extend(const std::string& path, uint64_t bytes) {
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(bytes)), 0) << path;
}

template <typename T>
void Put(const std::string& path, uint64_t at, T value) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(::pwrite(fd.get(), &value, sizeof value, static_cast<off_t>(at)), sizeof value);
}

TEST(DataSumTest, LittleIsSummedInFull) {
  std::vector<std::byte> data(3'000'000);
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>(i * i);
  }
  EXPECT_EQ(DataSum(data), Crc32c(data));
  const auto read = [&](uint64_t begin, std::span<std::byte> out) {
    std::ranges::copy(std::span(data).subspan(begin, out.size()), out.begin());
  };
  EXPECT_EQ(DataSum(data.size(), read), Crc32c(data));
  EXPECT_EQ(DataSum(0, read), Crc32c({}));
}

TEST(DataSumTest, MuchIsSummedAtBothEndsAndBetween) {
  std::vector<std::byte> data(kLarge);
  const uint32_t sum = DataSum(data);
  EXPECT_NE(sum, DataSum(std::span(data).first(data.size() - 1)));
  for (const size_t at : {size_t{0}, size_t{4095}, data.size() - 4096, data.size() - 1}) {
    data[at] = std::byte{1};
    EXPECT_NE(DataSum(data), sum) << at;
    data[at] = std::byte{0};
  }
  const size_t stride = data.size() / 2047;
  std::fill_n(data.begin() + 20'000'000, stride, std::byte{1});  // more than lies between blocks
  EXPECT_NE(DataSum(data), sum);
}

class LargeDataTest : public testing::Test {
 protected:
  LargeDataTest() { config_.directory = folder_.path(); }

  /// An array of zeroes.
  std::string Zeroes(const std::string& name, ElementType type, uint64_t rows, uint64_t row) const {
    const std::string path = folder_ / name;
    std::string text = "{'descr': '" + std::string(ElementDescr(type)) +
                       "', 'fortran_order': False, 'shape': (" + std::to_string(rows) + "," +
                       (row == 0 ? "" : std::to_string(row)) + "), }";
    text.resize(NpyWriter::kHeaderBytes - 10, ' ');
    Bytes header = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<uint8_t>(text.size()), 0};
    header.insert(header.end(), text.begin(), text.end());
    folder_.Write(name, header);
    Extend(path, header.size() + rows * std::max<uint64_t>(row, 1) * ElementSize(type));
    return path;
  }

  Status FetchAll(const Dataset& data) const {
    const auto size = static_cast<size_t>(data.info().shape.element_count());
    std::vector<float> inputs(size);
    std::vector<uint32_t> labels(static_cast<size_t>(data.info().labels));
    const EpochOrder order(1, 0, data.info().train_count);
    for (uint64_t i = 0; i < data.info().train_count; ++i) {
      PS_TRY(data.FetchTrain(order, {i, i + 1}, {inputs, labels}));
    }
    return Status::Ok();
  }

  DataFolder folder_;
  proto::DataConfig config_;
};

TEST_F(LargeDataTest, ValuesOfArraysAreCheckedWhenTheyAreRead) {
  config_.format = proto::DatasetFormat::kNpy;
  constexpr uint64_t kRow = 1 << 18;
  constexpr uint64_t kRows = kLarge / kRow / sizeof(float);
  const std::string inputs = Zeroes("train-inputs.npy", ElementType::kF32, kRows, kRow);
  const std::string labels = Zeroes("train-labels.npy", ElementType::kU8, kRows, 0);
  Put<uint8_t>(labels, NpyWriter::kHeaderBytes, 1);
  Zeroes("test-inputs.npy", ElementType::kF32, 1, kRow);
  Zeroes("test-labels.npy", ElementType::kU8, 1, 0);
  LoadProgress progress;
  const Dataset whole = Dataset::Load(config_, &progress).value();
  EXPECT_EQ(progress.share(), 1);
  EXPECT_TRUE(whole.CheckAll().ok());

  const uint64_t at = NpyWriter::kHeaderBytes + (5 * kRow + 7) * sizeof(float);
  Put(inputs, at, std::numeric_limits<float>::quiet_NaN());
  const Dataset wrong = Dataset::Load(config_).value();
  for (const Status& status : {FetchAll(wrong), wrong.CheckAll()}) {
    EXPECT_EQ(status.code(), StatusCode::kCorruption);
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr("train-inputs.npy: byte " + std::to_string(at) + ": value 7 of sample 5 is nan"));
  }
  // What is little is looked at at once, as ever.
  Put<uint8_t>(labels, NpyWriter::kHeaderBytes + 1, 2);
  Put<uint8_t>(folder_ / "test-labels.npy", NpyWriter::kHeaderBytes, 3);
  EXPECT_THAT(Dataset::Load(config_).status().ToString(), HasSubstr("label 3 is out of range"));
}

TEST_F(LargeDataTest, TokensOfArraysAreCheckedWhenTheyAreRead) {
  config_.format = proto::DatasetFormat::kNpy;
  config_.vocabulary = 100;
  constexpr uint64_t kRow = 1 << 16;
  const std::string inputs =
      Zeroes("train-inputs.npy", ElementType::kU16, kLarge / kRow / sizeof(uint16_t), kRow);
  Zeroes("test-inputs.npy", ElementType::kU16, 1, kRow);
  Put<uint16_t>(inputs, NpyWriter::kHeaderBytes + 2 * kRow * sizeof(uint16_t) - 2, 100);
  const Status status = Dataset::Load(config_)->CheckAll();
  EXPECT_THAT(status.ToString(), HasSubstr("token 100 is out of range"));
}

TEST_F(LargeDataTest, ATextStaysOnTheDisk) {
  config_.format = proto::DatasetFormat::kText;
  config_.context = 1 << 16;
  config_.vocabulary = 128;
  const std::string first = folder_.Write("a.txt", {'a', 'b', 'c'});
  Extend(first, kLarge / 2);
  const std::string second = folder_.Write("b.txt", {'d'});
  folder_.Write("c.txt", {});
  Extend(second, kLarge / 2);
  const Dataset data = Dataset::Load(config_).value();
  EXPECT_EQ(data.info(), *Dataset::Inspect(config_));
  EXPECT_EQ(data.info().train_count, (kLarge - kLarge / 10 - 1) / config_.context);
  EXPECT_TRUE(data.CheckAll().ok());
  const proto::DatasetFingerprint before = data.fingerprint();
  Put<uint8_t>(first, 1, 'x');
  EXPECT_NE(Dataset::Load(config_)->fingerprint(), before);
  Put<uint8_t>(second, 5000, 200);
  const Status status = FetchAll(Dataset::Load(config_).value());
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(
      status.ToString(), HasSubstr("b.txt: byte 5000: token 200 is beyond data.vocabulary"));
}

TEST_F(LargeDataTest, WindowsCrossFromFileToFile) {
  config_.format = proto::DatasetFormat::kText;
  config_.context = 8;
  config_.test_share = 0.25F;
  const std::string first = folder_.Write("a.txt", {});
  Extend(first, kLarge);
  for (int i = 0; i < 7; ++i) {
    Put<uint8_t>(first, kLarge - 7 + static_cast<uint64_t>(i), static_cast<uint8_t>('a' + i));
  }
  folder_.Write("b.txt", Bytes(kLarge / 4, 'z'));
  const Dataset data = Dataset::Load(config_).value();
  std::vector<float> inputs(8);
  std::vector<uint32_t> labels(8);
  // The tests begin a sixteenth before the end of the first file.
  const uint64_t last = kLarge / 16 / 8 - 1;
  ASSERT_TRUE(data.FetchTest({last, last + 1}, {inputs, labels}).ok());
  EXPECT_EQ(inputs.front(), 0);
  EXPECT_EQ(inputs[1], 'a');
  EXPECT_EQ(inputs.back(), 'g');
  EXPECT_EQ(labels.back(), 'z');
}

}  // namespace
}  // namespace ps::worker::test
