// Pictures as bytes and moves: what a device makes of them is what the CPU's fetch gives.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/backend.h"
#include "ps/base/random.h"
#include "tests/worker/data/data_files.h"
#include "worker/data/dataset.h"

namespace ps::worker::test {
namespace {

/// A minibatch in memory of its own.
struct OwnedBatch {
  OwnedBatch(const Dataset& dataset, BatchForm form, uint64_t n)
      : data(dataset.LayoutOf(form).BytesFor(n)),
        memory(dataset.LayoutOf(form).At(data.data(), n)) {}

  std::vector<std::byte> data;
  BatchMemory memory;
};

/// What Stream::MakePictures makes of a batch, in the order of a fetch: [n, c, h, w].
std::vector<float> MakeValues(const Dataset& dataset, const BatchMemory& batch) {
  const PictureFormat& format = *dataset.pictures();
  std::vector<float> table;
  for (const std::array<float, 256>& values : format.values) {
    table.insert(table.end(), values.begin(), values.end());
  }
  const Shape& shape = dataset.info().shape;
  const auto n = static_cast<int64_t>(batch.moves.size());
  std::vector<float> made(static_cast<size_t>(n * shape.element_count()));
  const auto cpu = kernels::MakeCpuBackend();
  const auto stream = cpu->MakeStream().value();
  stream->MakePictures(
      {.n = n,
       .channels = format.channels,
       .height = format.height,
       .width = format.width,
       .pad = format.pad,
       .bytes = batch.bytes.data(),
       .moves = batch.moves.data(),
       .values = table.data(),
       .y = made.data()});
  std::vector<float> ordered;
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    const auto channels = static_cast<size_t>(format.channels);
    const size_t plane = made.size() / static_cast<size_t>(n) / channels;
    for (size_t c = 0; c < channels; ++c) {
      for (size_t pixel = 0; pixel < plane; ++pixel) {
        ordered.push_back(made[(i * plane + pixel) * channels + c]);
      }
    }
  }
  return ordered;
}

/// Training samples of several epochs and all test samples, both ways.
void ExpectTheSamePictures(const proto::DataConfig& config) {
  const Dataset dataset = Dataset::Load(config).value();
  ASSERT_NE(dataset.pictures(), nullptr);
  const auto expect_same = [&](uint64_t n, const auto& fetch) {
    const OwnedBatch values(dataset, BatchForm::kValues, n);
    const OwnedBatch raw(dataset, BatchForm::kBytes, n);
    EXPECT_LT(raw.data.size(), values.data.size());
    ASSERT_TRUE(fetch(values.memory).ok());
    ASSERT_TRUE(fetch(raw.memory).ok());
    EXPECT_EQ(
        MakeValues(dataset, raw.memory),
        std::vector<float>(values.memory.images.begin(), values.memory.images.end()));
    EXPECT_TRUE(std::equal(
        raw.memory.labels.begin(), raw.memory.labels.end(), values.memory.labels.begin()));
  };
  for (uint64_t epoch = 0; epoch < 20; ++epoch) {
    const EpochOrder order(7, epoch, dataset.info().train_count);
    expect_same(3, [&](const BatchMemory& memory) {
      return dataset.FetchTrain(order, {1, 4}, memory);
    });
  }
  const uint64_t tests = dataset.info().test_count;
  expect_same(tests, [&](const BatchMemory& memory) {
    return dataset.FetchTest({0, tests}, memory);
  });
}

TEST(RawPicturesTest, IdxPicturesAreThoseOfAFetch) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  proto::DataConfig config;
  config.directory = folder.path();
  ExpectTheSamePictures(config);
  config.pad = 2;
  config.augment = {3, true};
  ExpectTheSamePictures(config);
}

TEST(RawPicturesTest, CifarPicturesAreThoseOfAFetch) {
  const DataFolder folder;
  Random random(3);
  for (const char* name :
       {"data_batch_1.bin",
        "data_batch_2.bin",
        "data_batch_3.bin",
        "data_batch_4.bin",
        "data_batch_5.bin",
        "test_batch.bin"}) {
    Bytes records = CifarRecords(2, 3);
    for (size_t i = 0; i < records.size(); ++i) {
      records[i] = i % 3073 == 0 ? records[i] : static_cast<uint8_t>(random.Below(256));
    }
    folder.Write(name, records);
  }
  proto::DataConfig config;
  config.format = proto::DatasetFormat::kCifar10;
  config.directory = folder.path();
  config.augment = {4, true};
  ExpectTheSamePictures(config);
}

TEST(RawPicturesTest, MemoryForBytesThatThereAreNotIsAnError) {
  const DataFolder folder;
  folder.Write("train.csv", {'a', ',', 'b', '\n', '1', ',', '0', '\n', '2', ',', '1', '\n'});
  folder.Write("test.csv", {'a', ',', 'b', '\n', '1', ',', '0', '\n'});
  proto::DataConfig config;
  config.format = proto::DatasetFormat::kCsv;
  config.directory = folder.path();
  config.label = "b";
  const Result<Dataset> dataset = Dataset::Load(config);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->pictures(), nullptr);
  std::vector<uint8_t> bytes(1);
  std::vector<uint32_t> labels(1);
  std::vector<PictureMove> moves(1);
  const BatchMemory memory{{}, labels, bytes, moves};
  EXPECT_EQ(dataset->FetchTest({0, 1}, memory).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ps::worker::test
